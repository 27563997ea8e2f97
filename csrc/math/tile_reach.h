// Which tiles a projected Gaussian can change.
//
// The candidates are the tiles that the rectangle centre +- radius touches. A candidate is kept iff some point of the
// rectangle spanned by its pixel centres lies inside the ellipse on which alpha is kMinAlpha. Both are convex, so
// within one row of tiles the kept ones are contiguous, and it is enough to know how far the ellipse extends to the
// left and to the right within the row's band of pixel centres.
#pragma once

#include "blend.h"
#include "finite.h"
#include "tile_grid.h"

namespace splat {

// Half-open ranges of tile columns and rows, and the ellipse 0.5 (a u^2 + c v^2) + b u v <= limit about the centre.
struct TileReach {
  int column_begin, column_end, row_begin, row_end;
  bool elliptic;  // false: every tile of the rectangle is kept
  float x, y;
  float shear_x;  // of the ellipse's rightmost point: v = -shear_x
  float extreme_x, extreme_y;
  float inverse_a, b, determinant, two_limit_a;
  float inverse_size;  // of a tile
};

struct TileSpan {
  int begin, end;
};

// A tile number as an integer, clamped to [0, count]. NaN gives 0.
SPLAT_HD int clamp_tile(float tile, int count) {
  return static_cast<int>(clamp(tile, 0.0f, static_cast<float>(count)));
}

SPLAT_HD TileReach tile_reach(const TileGrid& grid, float x, float y, int radius_x, int radius_y, float a, float b,
                              float c, float opacity) {
  const float size = static_cast<float>(grid.tile_size);
  TileReach reach = {0, 0, 0, 0, false, x, y, 0.0f, 0.0f, 0.0f, 1.0f / a, b, 0.0f, 0.0f, 1.0f / size};
  // The slack covers the rounding of the logarithm here and of the exponential in the rasterizer.
  const float exponent = natural_log(opacity / kMinAlpha) + kExponentSlack;
  if (radius_x <= 0 || radius_y <= 0 || !(exponent >= 0.0f)) return reach;

  const float tile_x = x / size, tile_y = y / size;
  const float half_width = static_cast<float>(radius_x) / size, half_height = static_cast<float>(radius_y) / size;
  reach.column_begin = clamp_tile(round_down(tile_x - half_width), grid.columns);
  reach.column_end = clamp_tile(round_up(tile_x + half_width), grid.columns);
  reach.row_begin = clamp_tile(round_down(tile_y - half_height), grid.rows);
  reach.row_end = clamp_tile(round_up(tile_y + half_height), grid.rows);

  // The rasterizer computes the exponent with an error of a few ulps of its largest term, which inside the ellipse is
  // at most limit * a c / det; the determinant itself is off by a few ulps of a c. Both are accounted for. If they are
  // no longer small (for an oblique needle about a thousand times longer than wide) the ellipse is not used.
  const float product = a * c;
  const float determinant = product - b * b;
  reach.elliptic = a > 0.0f && c > 0.0f && is_finite(reach.inverse_a) &&
                   determinant > 16.0f * kExponentUlps * product;
  if (!reach.elliptic) return reach;
  const float limit = exponent * (1.0f + kExponentUlps * product / determinant);
  const float safe_determinant = determinant - kExponentUlps * product;
  reach.determinant = safe_determinant;
  reach.two_limit_a = 2.0f * limit * a;
  reach.extreme_x = square_root(2.0f * limit * c / safe_determinant);
  reach.extreme_y = square_root(2.0f * limit * a / safe_determinant);
  reach.shear_x = b / c * reach.extreme_x;
  return reach;
}

// How far the ellipse extends from the centre, to the right for sign = 1 and to the left for -1, within the band
// top <= v <= bottom, which it must touch.
SPLAT_HD float band_extent(const TileReach& reach, float top, float bottom, float sign) {
  const float v = clamp(-sign * reach.shear_x, top, bottom);
  const float root = square_root(maximum(0.0f, reach.two_limit_a - reach.determinant * v * v));
  return (root - sign * reach.b * v) * reach.inverse_a;
}

// The kept tiles of one row. Precondition: row_begin <= row < row_end.
SPLAT_HD TileSpan tile_span(const TileGrid& grid, const TileReach& reach, int row) {
  TileSpan span = {reach.column_begin, reach.column_end};
  if (!reach.elliptic) return span;
  constexpr float kPad = 0.01f;  // pixels; covers the rounding of coordinates
  const float size = static_cast<float>(grid.tile_size);
  const float top = static_cast<float>(row) * size + 0.5f - reach.y;
  const float bottom = top + size - 1.0f;
  if (top > reach.extreme_y + kPad || bottom < -reach.extreme_y - kPad) return {0, 0};
  const float pad = kPad + 1e-5f * reach.extreme_x;
  const float right = reach.x + band_extent(reach, top, bottom, 1.0f) + pad;
  const float left = reach.x - band_extent(reach, top, bottom, -1.0f) - pad;
  // Tile i has its pixel centres in [i size + 0.5, (i + 1) size - 0.5].
  const int begin = clamp_tile(round_up((left + 0.5f) * reach.inverse_size) - 1.0f, grid.columns);
  const int end = clamp_tile(round_down((right - 0.5f) * reach.inverse_size) + 1.0f, grid.columns);
  if (begin > span.begin) span.begin = begin;
  if (end < span.end) span.end = end;
  if (span.end < span.begin) span.end = span.begin;
  return span;
}

}  // namespace splat
