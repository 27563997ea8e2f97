// The gradient of `rasterize`. A pixel's gradient for the alpha of one of its Gaussians needs the transmittance before
// it and what the Gaussians behind it contribute:
//
//   d / d alpha = T (color . v) - behind / (1 - alpha),   behind = sum over those behind of weight (color . v),
//                                                         and for what is left, T_end (background . v - v_alpha)
//
// with v the pixel's incoming gradient. `replay` goes through each tile's list as the forward pass did, all pixels side
// by side, and keeps both numbers at the end of every bucket of 32 Gaussians. From these `differentiate` treats all
// buckets at once: a warp per bucket, a lane per Gaussian; the tile's pixels wander from lane to lane, back to front.
// So a Gaussian's gradient is added up in its lane's registers, and reaches memory once per tile.
#pragma once

#include "rasterize_tile.cuh"

namespace splat {
namespace kernels {

constexpr int kBucket = kWarp;
// Buckets of one block of `differentiate`, which are of one tile; their number per tile is rounded up to this.
constexpr int kBucketsPerBlock = 4;
constexpr int kBlockGaussians = kBucket * kBucketsPerBlock;
constexpr int kDifferentiateThreads = kWarp * kBucketsPerBlock;

struct Checkpoint {
  float transmittance;  // behind the bucket
  float behind;
};

struct RasterizeGradients {
  const float *colors, *alphas;  // incoming: [images, height, width, channels], [images, height, width]
  const int32_t* last_ids;       // of the forward pass: [images, height, width]
};

// What the kernels hand on. The size of the last two follows from a bound: block_bound(intersections, tiles).
struct BackwardPlan {
  int32_t* block_starts;    // [tiles + 1]: each tile's first block; the last is their number
  int32_t* block_tiles;     // [block bound]: a block's tile
  Checkpoint* checkpoints;  // [block bound, kBucketsPerBlock, tile_size^2]
};

SPLAT_HD int64_t block_bound(int64_t intersections, int64_t tiles) { return intersections / kBlockGaussians + tiles; }

// The position behind the last Gaussian that any pixel of the tile blends. All threads of the block take part;
// `last` is this thread's pixel's, -1 if it is outside.
static __device__ __forceinline__ int64_t drawn_end(const ListRange& range, int32_t last) {
  __shared__ int latest;
  if (threadIdx.x == 0) latest = -1;
  __syncthreads();
  atomicMax(&latest, last);
  __syncthreads();
  const int64_t end = static_cast<int64_t>(latest) + 1;
  return end < range.begin ? range.begin : (end > range.end ? range.end : end);
}

// block_starts [tiles + 1] receives the number of blocks that each tile needs, and 0 at the end, ready for a prefix sum.
// One block of tile_threads(tile_size) threads per tile, and one more.
__global__ void __launch_bounds__(1024) count_blocks(RasterizeInputs in, const int32_t* last_ids, BackwardPlan plan) {
  const int64_t tile = blockIdx.x;
  if (tile == in.tiles) {
    if (threadIdx.x == 0) plan.block_starts[tile] = 0;
    return;
  }
  const Pixel pixel = pixel_of(in, tile, static_cast<int>(threadIdx.x));
  const ListRange range = list_range(in, tile);
  const int64_t end = drawn_end(range, pixel.inside ? last_ids[pixel.index] : -1);
  if (threadIdx.x != 0) return;
  plan.block_starts[tile] = static_cast<int32_t>((end - range.begin + kBlockGaussians - 1) / kBlockGaussians);
}

// color . v for the channels [first, channels).
static __device__ __forceinline__ float dot_from(int first, int64_t channels, const float* color, const float* v) {
  float dot = 0.0f;
  for (int64_t k = first; k < channels; ++k) dot = fused(color[k], v[k], dot);
  return dot;
}

// Writes block_tiles and checkpoints. The first `channels` colours are staged; others are read where they are needed.
// Precondition: plan.block_starts is the exclusive prefix sum of count_blocks' numbers; otherwise as `rasterize`.
template <int C>
__global__ void __launch_bounds__(kMaxThreads<C>, 1)
    replay(RasterizeInputs in, RasterizeGradients gradients, BackwardPlan plan, int channels) {
  __shared__ Batch<C> batch;
  static_assert(kBatch<C> % kBucket == 0, "a bucket is never in two batches");
  const int thread = static_cast<int>(threadIdx.x), lane = thread % kWarp;
  const int64_t tile = blockIdx.x;
  const int32_t first_block = plan.block_starts[tile], blocks = plan.block_starts[tile + 1] - first_block;
  if (blocks == 0) return;
  for (int i = thread; i < blocks; i += static_cast<int>(blockDim.x)) {
    plan.block_tiles[first_block + i] = static_cast<int32_t>(tile);
  }
  const Pixel pixel = pixel_of(in, tile, thread);
  const ListRange range = list_range(in, tile);
  const int32_t last = pixel.inside ? gradients.last_ids[pixel.index] : -1;
  const int64_t end = drawn_end(range, last);
  const int64_t tile_pixels = static_cast<int64_t>(in.grid.tile_size) * in.grid.tile_size;
  Checkpoint* const checkpoints = plan.checkpoints + int64_t{first_block} * kBucketsPerBlock * tile_pixels + pixel.in_tile;

  const float* incoming = gradients.colors + pixel.index * in.channels;
  float v[C];
#pragma unroll
  for (int k = 0; k < C; ++k) v[k] = pixel.inside && k < channels ? incoming[k] : 0.0f;

  // Front to back: the transmittance behind each bucket, and the bucket's own contribution.
  float transmittance = 1.0f;
  int64_t bucket = 0;
  for (int64_t start = range.begin; start < end; start += kBatch<C>) {
    __syncthreads();  // until all have read the batch before
    const int count = static_cast<int>(end - start < kBatch<C> ? end - start : kBatch<C>);
    stage_batch<C>(in, start, count, 0, channels, batch);
    __syncthreads();
    for (int first = 0; first < count; first += kBucket, ++bucket) {
      float contribution = 0.0f;
      const int mine = first + lane;
      const bool seen = mine < count && may_touch(batch.gaussians[mine], pixel.left, pixel.top);
      unsigned int left = __ballot_sync(kAllLanes, seen);
      for (; left != 0; left &= left - 1) {
        const int i = first + __ffs(static_cast<int>(left)) - 1;
        if (start + i > last) break;
        const StagedGaussian& g = batch.gaussians[i];
        const Blend blend = blend_at(g, g.x - pixel.x, g.y - pixel.y);
        if (blend.alpha == 0.0f) continue;
        float dot = 0.0f;
#pragma unroll
        for (int k = 0; k < C; ++k) dot = fused(batch.colors[i][k], v[k], dot);
        if (channels < in.channels) {
          dot += dot_from(channels, in.channels, in.colors + in.flatten_ids[start + i] * in.channels, incoming);
        }
        contribution = fused(blend.alpha * transmittance, dot, contribution);
        transmittance *= 1.0f - blend.alpha;
      }
      if (pixel.inside) checkpoints[bucket * tile_pixels] = {transmittance, contribution};
    }
  }

  // Back to front: what is behind each bucket, added up from the end so that nothing cancels.
  if (!pixel.inside) return;
  float behind = -gradients.alphas[pixel.index];
  if (in.backgrounds != nullptr) {
    const int64_t image = tile / (static_cast<int64_t>(in.grid.rows) * in.grid.columns);
    behind += dot_from(0, in.channels, in.backgrounds + image * in.channels, incoming);
  }
  behind *= transmittance;
  while (bucket-- > 0) {
    const float contribution = checkpoints[bucket * tile_pixels].behind;
    checkpoints[bucket * tile_pixels].behind = behind;
    behind += contribution;
  }
}

// Where `differentiate` puts a Gaussian's gradient: added to the Gaussian's own, or in a place for each Gaussian and
// tile, to be added up in a fixed order by `sum_slots`.
struct BackwardOutputs {
  float *means, *means_abs, *conics, *colors, *opacities;  // like their inputs; means_abs may be null
  float* slots;                                            // [intersections, kSlotValues + channels] or null
};

constexpr int kSlotValues = 8;

// The pixels that a block of `differentiate` holds in shared memory at a time.
constexpr int kPixelGroup = 256;

template <int C>
struct PixelGroup {
  float x[kPixelGroup], y[kPixelGroup];
  int32_t last[kPixelGroup];
  float v[C][kPixelGroup];
};

// The tile of a block, and the pixels [first, first + kPixelGroup) of it.
template <int C>
static __device__ __forceinline__ void stage_pixels(const RasterizeInputs& in, const RasterizeGradients& gradients,
                                                    int64_t tile, int first, int64_t first_channel, int channels,
                                                    PixelGroup<C>& group) {
  const int size = in.grid.tile_size;
  const int64_t per_image = static_cast<int64_t>(in.grid.rows) * in.grid.columns;
  const int tile_row = static_cast<int>(tile % per_image / in.grid.columns) * size;
  const int tile_column = static_cast<int>(tile % in.grid.columns) * size;
  for (int i = static_cast<int>(threadIdx.x); i < kPixelGroup; i += kDifferentiateThreads) {
    const int row = tile_row + (first + i) / size, column = tile_column + (first + i) % size;
    const bool inside = first + i < size * size && row < in.height && column < in.width;
    const int64_t index = (tile / per_image * in.height + row) * in.width + column;
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

// Adds to the gradients, or fills the slot, of the Gaussian at one position of the lists.
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

// So many blocks a multiprocessor can hold at once: a bound on registers, which without one are too few, and spill.
template <int C>
constexpr int kResidentBlocks = C <= 4 ? 6 : C <= 8 ? 5 : 1;

// The gradients of the Gaussians of each block's buckets: of the colours [first_channel, first_channel + channels), and,
// with the first channel, all others. block_bound(intersections, tiles) blocks of kDifferentiateThreads threads.
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
  const ListRange range = list_range(in, tile);
  const int64_t bucket_begin = range.begin + (block - plan.block_starts[tile]) * kBlockGaussians + warp * kBucket;
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
    __syncthreads();  // until all have read the group before
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
        const int64_t image = tile / (static_cast<int64_t>(in.grid.rows) * in.grid.columns);
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

// One thread per position of the lists: what sum_slots' sort starts from.
__global__ void number_positions(RasterizeInputs in, uint32_t* ids, int32_t* positions) {
  const int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i >= in.intersections) return;
  ids[i] = static_cast<uint32_t>(in.flatten_ids[i]);
  positions[i] = static_cast<int32_t>(i);
}

// The first of ids [count], which ascend, that is not less than `id`.
SPLAT_HD int64_t lower_bound(const uint32_t* ids, int64_t count, int64_t id) {
  int64_t low = 0, high = count;
  while (low < high) {
    const int64_t middle = low + (high - low) / 2;
    if (ids[middle] < id) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return low;
}

// One warp per Gaussian: adds up its slots, always in the same order. ids and positions [intersections] are
// number_positions' after a stable sort by the ids.
__global__ void sum_slots(RasterizeInputs in, const uint32_t* ids, const int32_t* positions, BackwardOutputs out) {
  const int64_t thread = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  const int64_t id = thread / kWarp, lane = thread % kWarp;
  if (id >= in.count) return;
  const int64_t begin = lower_bound(ids, in.intersections, id), end = lower_bound(ids, in.intersections, id + 1);
  const int64_t stride = kSlotValues + in.channels;
  for (int64_t value = 0; value < stride; ++value) {
    float sum = 0.0f;
    for (int64_t i = begin + lane; i < end; i += kWarp) sum += out.slots[positions[i] * stride + value];
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

// The gradient of the backgrounds is the incoming one, weighted with what each pixel lets through. One block per image
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
  const int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i >= images * channels) return;
  const float* values = partial + i / channels * slices * channels + i % channels;
  float sum = 0.0f;
  for (int64_t slice = 0; slice < slices; ++slice) sum += values[slice * channels];
  v_backgrounds[i] = sum;
}

}  // namespace kernels
}  // namespace splat
