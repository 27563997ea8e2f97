// Sums in a fixed order: of the slots of `differentiate`, if results must be deterministic, and of the gradient of the
// backgrounds.
#pragma once

#include "host_functions.h"
#include "rasterize_tile.cuh"

namespace splat {
namespace kernels {

// One thread per position of the lists: the input of the sort that sum_slots needs, and the words that it needs cleared.
__global__ void number_positions(RasterizeInputs in, uint32_t* ids, int32_t* positions, Words cleared) {
  const int64_t i = thread_index();
  clear(cleared.first, cleared.count);
  if (i >= in.intersections) return;
  ids[i] = static_cast<uint32_t>(in.flatten_ids[i]);
  positions[i] = static_cast<int32_t>(i);
}

// Where each Gaussian has its positions, after a stable sort by the ids [intersections].
struct Runs {
  int32_t *begins, *ends;  // [count]; both 0 for a Gaussian in no list
};

// One thread per position, in the order of the sorted ids. Precondition: *runs are 0.
__global__ void find_runs(RasterizeInputs in, const uint32_t* ids, Runs runs) {
  const int64_t i = thread_index();
  if (i >= in.intersections || !exists(in, static_cast<int32_t>(ids[i]))) return;
  if (i == 0 || ids[i - 1] != ids[i]) runs.begins[ids[i]] = static_cast<int32_t>(i);
  if (i + 1 == in.intersections || ids[i + 1] != ids[i]) runs.ends[ids[i]] = static_cast<int32_t>(i + 1);
}

// One warp per Gaussian: adds up its slots, always in the same order. positions [intersections] are those of
// number_positions after the sort.
__global__ void sum_slots(RasterizeInputs in, Runs runs, const int32_t* positions, const float* slots,
                          RasterizeGradientOutputs out) {
  const int64_t thread = thread_index();
  const int64_t id = thread / kWarp, lane = thread % kWarp;
  if (id >= in.count) return;
  const int64_t begin = runs.begins[id], end = runs.ends[id];
  const int64_t stride = kSlotValues + in.channels;
  for (int64_t value = 0; value < stride; ++value) {
    float sum = 0.0f;
    for (int64_t i = begin + lane; i < end; i += kWarp) sum += slots[positions[i] * stride + value];
    sum = warp_sum(sum);
    if (lane != 0) continue;
    if (value < 2) {
      out.means[2 * id + value] = sum;
    } else if (value < 4) {
      if (out.means_abs != nullptr) out.means_abs[2 * id + value - 2] = sum;
    } else if (value < 7) {
      out.conics[3 * id + value - 4] = sum;
    } else if (value == 7) {
      out.opacities[id] = sum;
    } else {
      out.colors[id * in.channels + value - kSlotValues] = sum;
    }
  }
}

// The gradient of the backgrounds is the incoming one, weighted by the transmittance of each pixel. One block per image
// and slice of its pixels; partial [images, slices, channels].
__global__ void slice_background(const float* alphas, const float* v_colors, int64_t pixels, int64_t slices,
                                 int64_t channels, float* partial) {
  __shared__ float warps[kWarp];
  const int64_t image = blockIdx.x / slices, slice = blockIdx.x % slices;
  const int64_t begin = pixels * slice / slices, end = pixels * (slice + 1) / slices;
  const int lane = static_cast<int>(threadIdx.x) % kWarp, warp = static_cast<int>(threadIdx.x) / kWarp;
  for (int64_t k = 0; k < channels; ++k) {
    float sum = 0.0f;
    for (int64_t i = begin + threadIdx.x; i < end; i += blockDim.x) {
      const int64_t pixel = image * pixels + i;
      sum = fused(1.0f - alphas[pixel], v_colors[pixel * channels + k], sum);
    }
    sum = warp_sum(sum);
    if (lane == 0) warps[warp] = sum;
    __syncthreads();
    if (threadIdx.x == 0) {
      for (int i = 1; i < static_cast<int>(blockDim.x) / kWarp; ++i) sum += warps[i];
      partial[(image * slices + slice) * channels + k] = sum;
    }
    __syncthreads();
  }
}

// One thread per image and channel: v_backgrounds [images, channels] from partial [images, slices, channels].
__global__ void sum_slices(const float* partial, int64_t images, int64_t slices, int64_t channels,
                           float* v_backgrounds) {
  const int64_t i = thread_index();
  if (i >= images * channels) return;
  const float* values = partial + i / channels * slices * channels + i % channels;
  float sum = 0.0f;
  for (int64_t slice = 0; slice < slices; ++slice) sum += values[slice * channels];
  v_backgrounds[i] = sum;
}

}  // namespace kernels
}  // namespace splat
