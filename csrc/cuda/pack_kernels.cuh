// The packed layout from the dense one.
#pragma once

#include "../math/pack_rows.h"
#include "grid_launch.h"
#include "intersect_kernels.cuh"

namespace splat {
namespace kernels {

// One thread per row of the dense layout: the number of shown rows before it, and of its tiles, unless tiles is null. Adds
// to *totals, with a flag for a row that is shown.
__global__ void count_shown(IntersectInputs in, int32_t* places, int32_t* tiles, IntersectTotals* totals,
                            SumProgress progress) {
  const uint32_t block = block_number(progress);
  const int64_t row = int64_t{block} * kThreads + threadIdx.x;
  const bool exists = row < in.count, shown = exists && is_shown(in.radii, row);
  const int64_t found = shown && tiles != nullptr ? tile_count(in, row) : 0;
  if (exists && tiles != nullptr) tiles[row] = static_cast<int32_t>(found);
  add_to_totals(found, shown, totals);
  const uint32_t place = sum_before_in_launch<kThreads>(progress, block, shown);
  if (exists) places[row] = static_cast<int32_t>(place);
}

// One thread per row of the dense layout: writes it to its place, if it is shown; and, unless tiles is null, what
// `count_tiles` writes for a packed row.
__global__ void pack(PackInputs in, const int32_t* places, const int32_t* tiles, PackedRows out, DepthOrder packed) {
  const int64_t row = thread_index();
  if (row >= in.images * in.gaussians || !is_shown(in.radii, row)) return;
  const int32_t place = places[row];
  pack_row(in, row, place, out);
  if (tiles == nullptr) return;
  set_depth_order(packed, place, tiles[row], in.means, in.radii, in.depths, in.conics, in.opacities, row);
}

// One thread per Gaussian of each set of colours, for the images of the set in their order: no atomics.
__global__ void pack_backward(PackGradients in, PackGradientOutputs out) {
  const int64_t thread = thread_index();
  if (thread < in.sets * in.gaussians) pack_backward_row(in, thread / in.gaussians, thread % in.gaussians, out);
}

}  // namespace kernels
}  // namespace splat
