// The second half of the gradient of `rasterize`, with a warp per bucket; rasterize_replay_kernels.cuh explains it.
#pragma once

#include "rasterize_replay_kernels.cuh"

namespace splat {
namespace kernels {

// Where `differentiate` puts the gradient of a Gaussian: it is either added to the outputs, or written to a slot for
// each pair of Gaussian and tile, for `sum_slots` to add up in a fixed order.
struct BackwardOutputs : RasterizeGradientOutputs {
  float* slots;  // [intersections, kSlotValues + channels] or null
};

constexpr int kDifferentiateThreads = kWarp * kBucketsPerBlock;

// The pixels that a block of `differentiate` holds in shared memory at a time.
constexpr int kPixelGroup = 256;

template <int C>
struct PixelGroup {
  float x[kPixelGroup], y[kPixelGroup];
  int32_t last[kPixelGroup];
  float v[C][kPixelGroup];
};

// Stages the pixels [first, first + kPixelGroup) of a tile.
template <int C>
static __device__ __forceinline__ void stage_pixels(const RasterizeInputs& in, const RasterizeGradients& gradients,
                                                    int64_t tile, int first, int64_t first_channel, int channels,
                                                    PixelGroup<C>& group) {
  const int size = in.grid.tile_size;
  const TileOrigin origin = tile_origin(in.grid, tile);
  for (int i = static_cast<int>(threadIdx.x); i < kPixelGroup; i += kDifferentiateThreads) {
    const int row = origin.top + (first + i) / size, column = origin.left + (first + i) % size;
    const bool inside = first + i < size * size && row < in.height && column < in.width;
    const int64_t index = (origin.image * in.height + row) * in.width + column;
    group.x[i] = static_cast<float>(column) + 0.5f;
    group.y[i] = static_cast<float>(row) + 0.5f;
    group.last[i] = inside ? gradients.last_ids[index] : -1;
    const float* v = gradients.colors + index * in.channels + first_channel;
#pragma unroll
    for (int k = 0; k < C; ++k) group.v[k][i] = inside && k < channels ? v[k] : 0.0f;
  }
}

// Sums over pixels, of one Gaussian. s is the gradient of the exponent's sigma; the gradients of the mean and the conic
// are linear in its moments.
template <int C>
struct Sums {
  float s, sx, sy, sxx, sxy, syy, abs_x, abs_y;
  float colors[C];
};

// Adds to the gradients of the Gaussian at one position of the lists, or fills its slot.
template <int C>
static __device__ __forceinline__ void flush(const RasterizeInputs& in, const BackwardOutputs& out, int64_t position,
                                             const Sums<C>& sums, int64_t first_channel, int channels) {
  const int64_t id = in.flatten_ids[position];
  const float a = in.conics[3 * id], b = in.conics[3 * id + 1], c = in.conics[3 * id + 2];
  const float values[kSlotValues] = {a * sums.sx + b * sums.sy, b * sums.sx + c * sums.sy, sums.abs_x,
                                     sums.abs_y,                0.5f * sums.sxx,           sums.sxy,
                                     0.5f * sums.syy,           -sums.s / in.opacities[id]};
  if (out.slots != nullptr) {
    float* slot = out.slots + position * (kSlotValues + in.channels);
    if (first_channel == 0) {
#pragma unroll
      for (int i = 0; i < kSlotValues; ++i) slot[i] = values[i];
    }
#pragma unroll
    for (int k = 0; k < C; ++k) {
      if (k < channels) slot[kSlotValues + first_channel + k] = sums.colors[k];
    }
    return;
  }
  if (first_channel == 0) {
    atomicAdd(out.means + 2 * id, values[0]);
    atomicAdd(out.means + 2 * id + 1, values[1]);
    if (out.means_abs != nullptr) {
      atomicAdd(out.means_abs + 2 * id, values[2]);
      atomicAdd(out.means_abs + 2 * id + 1, values[3]);
    }
#pragma unroll
    for (int i = 0; i < 3; ++i) atomicAdd(out.conics + 3 * id + i, values[4 + i]);
    atomicAdd(out.opacities + id, values[7]);
  }
#pragma unroll
  for (int k = 0; k < C; ++k) {
    if (k < channels) atomicAdd(out.colors + id * in.channels + first_channel + k, sums.colors[k]);
  }
}

// The blocks that a multiprocessor can hold at once. Without this bound the compiler uses too few registers, and
// spills.
template <int C>
constexpr int kResidentBlocks = C <= 4 ? 6 : C <= 8 ? 5 : 1;

// The gradients of the Gaussians of each block's buckets: of the colours [first_channel, first_channel + channels),
// and, with the first channel, all others. block_bound(intersections, tiles) blocks of kDifferentiateThreads threads.
// Preconditions: plan as `replay` leaves it; `out` zeroed; 1 <= channels <= C.
template <int C>
__global__ void __launch_bounds__(kDifferentiateThreads, kResidentBlocks<C>)
    differentiate(RasterizeInputs in, RasterizeGradients gradients, BackwardPlan plan, BackwardOutputs out,
                  int64_t first_channel, int channels) {
  __shared__ PixelGroup<C> group;
  __shared__ uint8_t live_pixels[kBucketsPerBlock][kPixelGroup];  // of the group: those that blend from the bucket
  const int64_t block = blockIdx.x;
  if (block >= plan.block_starts[in.tiles]) return;
  const int warp = static_cast<int>(threadIdx.x) / kWarp, lane = static_cast<int>(threadIdx.x) % kWarp;
  const int64_t tile = plan.block_tiles[block];
  if (tile < 0) return;
  const int64_t in_tile = block - plan.block_starts[tile];
  if (in_tile < 0 || block >= plan.block_starts[tile + 1]) return;  // of lists that do not ascend
  const ListRange range = list_range(in, tile);
  const int64_t bucket_begin = range.begin + in_tile * kBlockGaussians + warp * kBucket;
  // Lane 0 has the last Gaussian: pixels go through the lanes back to front.
  const int64_t position = bucket_begin + kBucket - 1 - lane;
  StagedGaussian g = {0.0f, 0.0f, {0.0f, 0.0f, 0.0f}, 0.0f, -1.0f, -1.0f};
  float color[C];
#pragma unroll
  for (int k = 0; k < C; ++k) color[k] = 0.0f;
  float a = 0.0f, b = 0.0f, c = 0.0f;
  const float* all_colors = in.colors;
  if (position < range.end && exists(in, in.flatten_ids[position])) {
    const int64_t id = in.flatten_ids[position];
    g = stage(in, static_cast<int32_t>(id));
    a = in.conics[3 * id];
    b = in.conics[3 * id + 1];
    c = in.conics[3 * id + 2];
    all_colors += id * in.channels;
#pragma unroll
    for (int k = 0; k < C; ++k) color[k] = k < channels ? all_colors[first_channel + k] : 0.0f;
  }
  Sums<C> sums = {};
  bool touched = false;

  const int tile_pixels = in.grid.tile_size * in.grid.tile_size;
  const Checkpoint* const checkpoints = plan.checkpoints + (block * kBucketsPerBlock + warp) * tile_pixels;
  for (int first = 0; first < tile_pixels; first += kPixelGroup) {
    __syncthreads();  // until all threads have read the previous group
    stage_pixels<C>(in, gradients, tile, first, first_channel, channels, group);
    __syncthreads();
    int live = 0;
    for (int i = lane; i < kPixelGroup; i += kWarp) {
      const bool blends = group.last[i] >= bucket_begin;
      const unsigned int lanes = __ballot_sync(kAllLanes, blends);
      const int before = __popc(lanes & ((1u << lane) - 1));
      if (blends) live_pixels[warp][live + before] = static_cast<uint8_t>(i);
      live += __popc(lanes);
    }
    __syncwarp();

    Checkpoint state = {0.0f, 0.0f}, loaded = {0.0f, 0.0f};
    for (int step = 0; live > 0 && step < live + kWarp - 1; ++step) {
      if (step % kWarp == 0 && step + lane < live) loaded = checkpoints[first + live_pixels[warp][step + lane]];
      // The next pixel enters at lane 0, the others move on by one lane.
      const float entering_transmittance = __shfl_sync(kAllLanes, loaded.transmittance, step % kWarp);
      const float entering_behind = __shfl_sync(kAllLanes, loaded.behind, step % kWarp);
      state.transmittance = __shfl_up_sync(kAllLanes, state.transmittance, 1);
      state.behind = __shfl_up_sync(kAllLanes, state.behind, 1);
      if (lane == 0) state = {entering_transmittance, entering_behind};
      const int which = step - lane;
      if (which < 0 || which >= live) continue;
      const int pixel = live_pixels[warp][which];
      if (position > group.last[pixel]) continue;
      const float dx = g.x - group.x[pixel], dy = g.y - group.y[pixel];
      const Blend blend = blend_at(g, dx, dy);
      if (blend.alpha == 0.0f) continue;
      touched = true;
      const float inverse = reciprocal(1.0f - blend.alpha);
      state.transmittance *= inverse;
      const float weight = blend.alpha * state.transmittance;
      float dot = 0.0f;
#pragma unroll
      for (int k = 0; k < C; ++k) {
        const float v = group.v[k][pixel];
        dot = fused(color[k], v, dot);
        sums.colors[k] = fused(weight, v, sums.colors[k]);
      }
      if (first_channel != 0) continue;
      if (channels < in.channels) {
        const int64_t row = static_cast<int>(group.y[pixel]), column = static_cast<int>(group.x[pixel]);
        const int64_t image = image_of_tile(in.grid, tile);
        const int64_t index = (image * in.height + row) * in.width + column;
        dot += dot_from(channels, in.channels, all_colors, gradients.colors + index * in.channels);
      }
      const float v_alpha = state.transmittance * dot - state.behind * inverse;
      state.behind = fused(weight, dot, state.behind);
      if (blend.clamped) continue;
      const float s = -blend.alpha * v_alpha, s_dx = s * dx, s_dy = s * dy;
      sums.s += s;
      sums.sx += s_dx;
      sums.sy += s_dy;
      sums.sxx = fused(s_dx, dx, sums.sxx);
      sums.sxy = fused(s_dx, dy, sums.sxy);
      sums.syy = fused(s_dy, dy, sums.syy);
      if (out.means_abs != nullptr) {
        sums.abs_x += fabsf(s * (a * dx + b * dy));
        sums.abs_y += fabsf(s * (b * dx + c * dy));
      }
    }
    __syncwarp();
  }
  if (touched) flush<C>(in, out, position, sums, first_channel, channels);
}

}  // namespace kernels
}  // namespace splat
