// Follows the loops that list pairs of Gaussian and tile, ours and gsplat 1.5.3's, on the CPU, and counts how often a
// warp goes through each of their parts. Both have a thread for each Gaussian, which goes through the rows of its tiles
// and the columns of a row; a warp makes as many trips as the lane that makes most. Which tiles those are is the
// kernels' own function (csrc/math/tile_reach.h). model_lists.py loads this as a library.
#include <stdint.h>

#include <algorithm>

#include "../csrc/math/intersect_rows.h"

using splat::IntersectInputs;
using splat::TileReach;

// As model_lists.ListTrips says; in the same order.
struct ListTrips {
  int64_t warps, listing, rows, remainders, quads, large, large_rows, large_remainders, large_quads;
};

namespace {

constexpr int kWarp = 32;
constexpr int kUnrolled = 4;  // columns that one trip of nvcc's inner loop writes

int rows_of(const TileReach& reach) { return std::max(0, reach.row_end - reach.row_begin); }

// The columns of the row with this number, counted from the Gaussian's first; none after the last.
int columns_of(const IntersectInputs& in, const TileReach& reach, int row) {
  if (row >= rows_of(reach)) return 0;
  const splat::TileSpan span = splat::tile_span(in.grid, reach, reach.row_begin + row);
  return span.end - span.begin;
}

int64_t tiles_of(const IntersectInputs& in, const TileReach& reach) {
  int64_t tiles = 0;
  for (int row = 0; row < rows_of(reach); ++row) tiles += columns_of(in, reach, row);
  return tiles;
}

// Gaussians with `many` tiles or more are listed by their whole warp, a column for each lane.
void follow_warp(const IntersectInputs& in, const int64_t* gaussians, int lanes, int64_t many, ListTrips& trips) {
  TileReach reaches[kWarp];
  bool small[kWarp];
  int rows = 0;
  bool lists = false;
  for (int lane = 0; lane < lanes; ++lane) {
    reaches[lane] = splat::reach_of(in, gaussians[lane]);
    const int64_t tiles = tiles_of(in, reaches[lane]);
    small[lane] = tiles > 0 && tiles < many;
    lists |= small[lane];
    if (small[lane]) rows = std::max(rows, rows_of(reaches[lane]));
    if (tiles < many) continue;
    ++trips.large;
    trips.large_rows += rows_of(reaches[lane]);
    for (int row = 0; row < rows_of(reaches[lane]); ++row) {
      const int columns = columns_of(in, reaches[lane], row);
      // The first lanes have one column more, unless all have the same.
      const int most = static_cast<int>(splat::divide_up(columns, kWarp)), least = columns / kWarp;
      trips.large_remainders += most % kUnrolled != 0 || least % kUnrolled != 0;
      trips.large_quads += most / kUnrolled;
    }
  }
  ++trips.warps;
  trips.listing += lists;
  trips.rows += rows;
  for (int row = 0; row < rows; ++row) {
    bool remainder = false;
    int quads = 0;
    for (int lane = 0; lane < lanes; ++lane) {
      const int columns = small[lane] ? columns_of(in, reaches[lane], row) : 0;
      remainder |= columns % kUnrolled != 0;
      quads = std::max(quads, columns / kUnrolled);
    }
    trips.remainders += remainder;
    trips.quads += quads;
  }
}

}  // namespace

// The Gaussians in this order, one for each thread. Adds to trips.
extern "C" void follow_lists(const float* means, const float* conics, const float* opacities, const int32_t* radii,
                             const int64_t* order, int64_t count, int width, int height, int tile_size, int64_t many,
                             ListTrips* trips) {
  const splat::TileGrid grid = {tile_size, static_cast<int>(splat::divide_up(width, tile_size)),
                                static_cast<int>(splat::divide_up(height, tile_size))};
  const IntersectInputs in = {means, nullptr, conics, opacities, radii, nullptr, count, count, 1, grid, 0};
  for (int64_t first = 0; first < count; first += kWarp) {
    follow_warp(in, order + first, static_cast<int>(std::min<int64_t>(kWarp, count - first)), many, *trips);
  }
}
