// What the CPU rasterizers' passes share: Gaussians staged for a block of pixels, and sums over it. Included by the
// sources of rasterize_block, rasterize_block_backward and rasterize_surfels; lanes.h says how those are compiled.
//
// An exponent is not fused: alphas that are cut off are the same everywhere but for the rounding of the power, and those
// of intersect. Along rays it is fused: it has three times as many products.
#pragma once

#include "../math/blend.h"
#include "../math/constants.h"
#include "lanes.h"
#include "rasterize_block.h"

namespace splat {
namespace SPLAT_ISA {
namespace {

constexpr int kChunks = kBlockSide / kLanes;  // registers in a row of pixels
constexpr int kBatch = 64;                    // Gaussians staged at a time

// 2^-x for 0 <= x <= 126 with a relative error of 1.2e-7, and nothing in particular for other x. 2^n is built
// from the bits of n; the polynomial is a minimax fit to 2^r on |r| <= 1/2 (relative error 3e-9 before rounding).
SPLAT_HD Floats exp2_negative(Floats x) {
  constexpr float kRound = 12582912.0f;  // 1.5 * 2^23: a sum with it is rounded to an integer, held in its low bits
  const Floats shifted = kRound - x;
  const Floats r = (kRound - shifted) - x;
  const Floats r2 = r * r;
  const Floats low = fused(r, splat_lanes(6.9314718246e-01f), splat_lanes(1.0f));
  const Floats middle = fused(r, splat_lanes(5.5503599346e-02f), splat_lanes(2.4022647738e-01f));
  const Floats high =
      fused(r2, splat_lanes(1.5326471475e-04f), fused(r, splat_lanes(1.3390807435e-03f), splat_lanes(9.6185058355e-03f)));
  const Floats p = fused(fused(high, r2, middle), r2, low);
  return (Floats)((Words)p + ((Words)shifted << 23));
}

// Consecutive Gaussians of a tile's list, with the block's rows that each can change.
struct BlockBatch {
  float x[kBatch], y[kBatch], half_a[kBatch], b[kBatch], half_c[kBatch], opacity[kBatch], limit[kBatch];
  int32_t row_begin[kBatch], row_end[kBatch];
  const float* colors[kBatch];
};

// The rows of the block that the ellipse 0.5 (a u^2 + c v^2) + b u v <= limit reaches within the block's columns
// (compare math/tile_reach.h, where rows and columns are exchanged). A needle whose determinant is mostly rounding
// error keeps all rows. Free of branches, for the vectoriser.
SPLAT_HD void row_range(float x, float y, float half_a, float b, float half_c, float limit, float left, float top,
                        float columns, float rows, int32_t& begin, int32_t& end) {
  const float a = 2.0f * half_a, c = 2.0f * half_c;
  const float product = a * c;
  const float exact = product - b * b;
  const bool elliptic = (exact > 16.0f * kExponentUlps * product) & (a > 0.0f) & (c > 0.0f);
  const float determinant = elliptic ? exact - kExponentUlps * product : 1.0f;
  const float safe_c = elliptic ? c : 1.0f;
  const float widened = maximum(0.0f, limit * (1.0f + kExponentUlps * product / determinant));
  const float extreme_u = square_root(2.0f * widened * safe_c / determinant);
  const float extreme_v = square_root(2.0f * widened * maximum(a, 0.0f) / determinant);
  const float shear = b / maximum(a, 1e-30f) * extreme_v;
  const float first = left + 0.5f - x, last = first + columns - 1.0f;
  const float low = clamp(-shear, first, last), high = clamp(shear, first, last);
  const float two_limit_c = 2.0f * widened * safe_c;
  const float down = (square_root(maximum(0.0f, two_limit_c - determinant * low * low)) - b * low) / safe_c;
  const float up = (square_root(maximum(0.0f, two_limit_c - determinant * high * high)) + b * high) / safe_c;
  const float pad = 0.01f + 1e-5f * extreme_v;
  const bool beside = (first > extreme_u + 0.01f) | (last < -extreme_u - 0.01f);
  // Row i has its centre at top + i + 0.5.
  const float from = clamp(y - up - pad - top - 0.5f, 0.0f, rows);
  const float to = clamp(y + down + pad - top + 0.5f, 0.0f, rows);
  const int32_t from_row = static_cast<int32_t>(from + 0.999999f), to_row = static_cast<int32_t>(to);
  const bool hidden = (!(limit >= 0.0f)) | (elliptic & beside);
  begin = elliptic ? from_row : 0;
  end = hidden ? 0 : (elliptic ? to_row : static_cast<int32_t>(rows));
}

// The coordinates of the block's pixel centres: by column, and by row.
struct PixelCentres {
  Floats x[kChunks], y[kChunks];
};

SPLAT_HD PixelCentres pixel_centres(const BlockJob& job) {
  PixelCentres centres;
  for (int k = 0; k < kChunks; ++k) {
    for (int lane = 0; lane < kLanes; ++lane) {
      centres.x[k][lane] = static_cast<float>(job.left + k * kLanes + lane) + 0.5f;
      centres.y[k][lane] = static_cast<float>(job.top + k * kLanes + lane) + 0.5f;
    }
  }
  return centres;
}

// Stages the Gaussians [start, start + count) of flatten_ids, with their colours from `first_channel` on. Not inlined
// into each pass for each number of channels: half of the time to compile them.
[[gnu::noinline]] static void stage(const BlockScene& scene, const BlockJob& job, const PixelCentres&, int first_channel,
                                    int32_t start, int count, BlockBatch& batch) {
  // The records are scattered in memory: prefetch all of them before the first is used.
  for (int i = 0; i < count; ++i) __builtin_prefetch(scene.records + scene.flatten_ids[start + i]);
  for (int i = 0; i < kBatch; ++i) {
    if (i >= count) {
      batch.limit[i] = -1.0f;
      continue;
    }
    const int64_t id = scene.flatten_ids[start + i];
    const GaussianRecord& record = scene.records[id];
    batch.x[i] = record.x;
    batch.y[i] = record.y;
    batch.half_a[i] = record.conic.half_a;
    batch.b[i] = record.conic.b;
    batch.half_c[i] = record.conic.half_c;
    batch.opacity[i] = record.opacity;
    batch.limit[i] = record.limit;
    batch.colors[i] = scene.colors + id * scene.channels + first_channel;
    __builtin_prefetch(batch.colors[i]);
  }
  const float left = static_cast<float>(job.left), top = static_cast<float>(job.top);
  const float columns = static_cast<float>(job.columns), rows = static_cast<float>(job.rows);
  for (int i = 0; i < kBatch; ++i) {
    row_range(batch.x[i], batch.y[i], batch.half_a[i], batch.b[i], batch.half_c[i], batch.limit[i], left, top, columns,
              rows, batch.row_begin[i], batch.row_end[i]);
  }
}

// A Gaussian of a batch, with what of its exponent depends on the column alone, or on the row alone: see
// gaussian_exponent in math/blend.h.
struct PlacedGaussian {
  Floats dx[kChunks], a_dx[kChunks];
  float dy[kBlockSide], b_dy[kBlockSide], c_dy2[kBlockSide];
  float opacity, limit;
  ScaledConic conic;
  const float* color;
};

// What a Gaussian is in the pixels of chunk k of a row.
struct GaussianView {
  Floats exponent;
};

SPLAT_HD GaussianView view(const PlacedGaussian& gaussian, int row, int k) {
  return {(gaussian.a_dx[k] + gaussian.b_dy[row]) * gaussian.dx[k] + gaussian.c_dy2[row]};
}

// What a Gaussian shows in channel c of these pixels.
template <class Placed, class View>
SPLAT_HD Floats shown(const Placed& gaussian, const View&, int, int, int c) {
  return splat_lanes(gaussian.color[c]);
}

// Where a Gaussian is drawn, as far as the exponent says.
template <class Placed>
SPLAT_HD Mask within_limit(const Placed& gaussian, Floats exponent) {
  return between_zero_and(splat_lanes(gaussian.limit), exponent);
}

SPLAT_HD PlacedGaussian place(const BlockBatch& batch, int i, const PixelCentres& centres) {
  PlacedGaussian placed;
  for (int k = 0; k < kChunks; ++k) {
    placed.dx[k] = batch.x[i] - centres.x[k];
    placed.a_dx[k] = batch.half_a[i] * placed.dx[k];
    const Floats dy = batch.y[i] - centres.y[k], b_dy = batch.b[i] * dy, c_dy2 = (batch.half_c[i] * dy) * dy;
    __builtin_memcpy(placed.dy + k * kLanes, &dy, sizeof dy);
    __builtin_memcpy(placed.b_dy + k * kLanes, &b_dy, sizeof b_dy);
    __builtin_memcpy(placed.c_dy2 + k * kLanes, &c_dy2, sizeof c_dy2);
  }
  placed.opacity = batch.opacity[i];
  placed.limit = batch.limit[i];
  placed.conic = {batch.half_a[i], batch.b[i], batch.half_c[i]};
  placed.color = batch.colors[i];
  return placed;
}

// The rows that Gaussian i of the batch can change, one bit each.
SPLAT_HD uint32_t row_bits(const BlockBatch& batch, int i) {
  const int begin = batch.row_begin[i], end = batch.row_end[i];
  return begin < end ? ((1u << end) - 1) & ~((1u << begin) - 1) : 0;
}

// 1 in the pixels of chunk k of a row; negative, as where a pixel is finished, in places of the block outside of the image.
SPLAT_HD Floats start_transmittance(const BlockJob& job, int row, int k) {
  Floats transmittance;
  for (int lane = 0; lane < kLanes; ++lane) {
    transmittance[lane] = row < job.rows && k * kLanes + lane < job.columns ? 1.0f : -1.0f;
  }
  return transmittance;
}

SPLAT_HD Floats start_transmittance(const PixelCentres&, const BlockJob& job, int row, int k) {
  return start_transmittance(job, row, k);
}

// A channel of what was blended, with what the background adds.
SPLAT_HD Floats with_background(const BlockJob& job, Floats color, Floats remaining, int channel) {
  return job.background == nullptr ? color : color + remaining * job.background[channel];
}

// Loads a row of the block from an image whose pixels are `stride` numbers apart: vectors [kChunks, channels], zero
// beyond the block's columns. If all sizes are known, the compiler turns this into shuffles.
template <int C>
SPLAT_HD void load_row(const float* image, int64_t stride, int columns, int channels, Floats* row) {
  const int used = C > 0 ? C : channels;
  if (C > 0 && stride == C && columns == kBlockSide) {
    float planes[C > 0 ? C : 1][kBlockSide];
    for (int column = 0; column < kBlockSide; ++column) {
      for (int c = 0; c < C; ++c) planes[c][column] = image[column * C + c];
    }
    for (int k = 0; k < kChunks; ++k) {
      for (int c = 0; c < C; ++c) __builtin_memcpy(&row[k * C + c], planes[c] + k * kLanes, sizeof *row);
    }
    return;
  }
  for (int k = 0; k < kChunks; ++k) {
    for (int c = 0; c < used; ++c) {
      row[k * used + c] = Floats{};
      for (int lane = 0; lane < kLanes && k * kLanes + lane < columns; ++lane) {
        row[k * used + c][lane] = image[(k * kLanes + lane) * stride + c];
      }
    }
  }
}

// Stores a row of the block; the reverse of load_row.
template <int C>
SPLAT_HD void store_row(const Floats* row, int64_t stride, int columns, int channels, float* image) {
  const int used = C > 0 ? C : channels;
  if (C > 0 && stride == C && columns == kBlockSide) {
    float planes[C > 0 ? C : 1][kBlockSide];
    for (int k = 0; k < kChunks; ++k) {
      for (int c = 0; c < C; ++c) __builtin_memcpy(planes[c] + k * kLanes, &row[k * C + c], sizeof *row);
    }
    for (int column = 0; column < kBlockSide; ++column) {
      for (int c = 0; c < C; ++c) image[column * C + c] = planes[c][column];
    }
    return;
  }
  for (int k = 0; k < kChunks; ++k) {
    for (int c = 0; c < used; ++c) {
      for (int lane = 0; lane < kLanes && k * kLanes + lane < columns; ++lane) {
        image[(k * kLanes + lane) * stride + c] = row[k * used + c][lane];
      }
    }
  }
}

typedef float Four __attribute__((vector_size(16)));
typedef float Eight __attribute__((vector_size(32)));

// Four sums of some of the 16 columns each, in an order that does not depend on kLanes.
SPLAT_HD Four sum_quarters(const Floats* columns) {
  Eight halves[2];
  __builtin_memcpy(halves, columns, sizeof halves);
  const Eight half = halves[0] + halves[1];
  Four quarters[2];
  __builtin_memcpy(quarters, &half, sizeof quarters);
  return quarters[0] + quarters[1];
}

// The sums of four quantities over the columns, by what sum_quarters gives for each.
SPLAT_HD Four sum_columns(Four a, Four b, Four c, Four d) {
  const Four ab = Four{a[0], a[1], b[0], b[1]} + Four{a[2], a[3], b[2], b[3]};
  const Four cd = Four{c[0], c[1], d[0], d[1]} + Four{c[2], c[3], d[2], d[3]};
  return Four{ab[0], ab[2], cd[0], cd[2]} + Four{ab[1], ab[3], cd[1], cd[3]};
}

// Writes to a slot, or adds to what is there, the sums over the columns.
template <int kCount>
SPLAT_HD void add_to_slot(const Floats (*values)[kChunks], bool add, float* slot) {
  for (int first = 0; first < kCount; first += 4) {
    Four quarters[4];
    for (int j = 0; j < 4; ++j) quarters[j] = sum_quarters(values[first + j < kCount ? first + j : kCount - 1]);
    const Four sums = sum_columns(quarters[0], quarters[1], quarters[2], quarters[3]);
    for (int j = 0; j < 4 && first + j < kCount; ++j) slot[first + j] = add ? slot[first + j] + sums[j] : sums[j];
  }
}

}  // namespace
}  // namespace SPLAT_ISA
}  // namespace splat
