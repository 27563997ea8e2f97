// How the kernels of `rasterize_2dgs` and of `rasterize_along_rays` go through the list of a tile. A warp draws its patch of
// pixels alone: each lane tests one Gaussian of 32 against the patch, and then all lanes, being pixels, take those that pass.
#pragma once

#include "rasterize_tile.cuh"

namespace splat {
namespace kernels {

// The entry of the lists that a lane tests: its Gaussian, or -1 if there is none, or `touches(id)` is false.
template <class Touches>
static __device__ __forceinline__ int32_t touching(const RasterizeInputs& in, int64_t at, int32_t end,
                                                   const Touches& touches) {
  const int32_t id = at < end ? in.flatten_ids[at] : -1;
  return exists(in, id) && touches(id) ? id : -1;
}

// Front to back, until all lanes are `finished()`: visit(id, place) of those that touch the patch.
template <class Touches, class Finished, class Visit>
static __device__ __forceinline__ void walk_forwards(const RasterizeInputs& in, const ListRange& range,
                                                     const Touches& touches, const Finished& finished,
                                                     const Visit& visit) {
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  for (int32_t rest = range.end - range.begin; rest > 0 && !__all_sync(kAllLanes, finished()); rest -= kWarp) {
    const int32_t start = range.end - rest;
    const int32_t mine = touching(in, int64_t{start} + lane, range.end, touches);
    unsigned int bits = __ballot_sync(kAllLanes, mine >= 0);
    for (; bits != 0; bits &= bits - 1) {
      const int i = __ffs(static_cast<int>(bits)) - 1;
      visit(int64_t{__shfl_sync(kAllLanes, mine, i)}, start + i);
    }
  }
}

// The same from the latest of the places that the pixels of the warp blended last, `last`, to the front.
template <class Touches, class Visit>
static __device__ __forceinline__ void walk_backwards(const RasterizeInputs& in, const ListRange& range,
                                                      const int32_t (&last)[kLanePixels], const Touches& touches,
                                                      const Visit& visit) {
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  int32_t latest = last[0] > last[1] ? last[0] : last[1];
  for (int step = kWarp / 2; step > 0; step /= 2) {
    const int32_t other = __shfl_xor_sync(kAllLanes, latest, step);
    latest = other > latest ? other : latest;
  }
  for (int32_t end = latest + 1; end > range.begin; end -= kWarp) {
    const int32_t start = end - range.begin < kWarp ? range.begin : end - kWarp;
    const int32_t mine = touching(in, int64_t{start} + lane, end, touches);
    unsigned int bits = __ballot_sync(kAllLanes, mine >= 0);
    while (bits != 0) {
      const int i = kWarp - 1 - __clz(static_cast<int>(bits));
      bits ^= 1u << i;
      visit(int64_t{__shfl_sync(kAllLanes, mine, i)}, start + i);
    }
  }
}

// Writes the colours [first_channel, first_channel + channels) of a pixel over its background, of which `passes` shows.
template <int C>
static __device__ __forceinline__ void write_colors(const RasterizeInputs& in, int64_t image, int64_t pixel,
                                                    int64_t first_channel, int channels, const float (&blended)[C],
                                                    float passes, float* colors) {
  const float* background = in.backgrounds + image * in.channels + first_channel;
  float* color = colors + pixel * in.channels + first_channel;
#pragma unroll
  for (int k = 0; k < C; ++k) {
    if (k < channels) color[k] = in.backgrounds == nullptr ? blended[k] : fused(passes, background[k], blended[k]);
  }
}

// Adds the sums over the warp of the first `count` values to an array.
template <int C>
static __device__ __forceinline__ void add_warp_sums(const float (&values)[C], int count, float* array) {
#pragma unroll
  for (int k = 0; k < C; ++k) {
    const float sum = warp_sum(values[k]);
    if (threadIdx.x % kWarp == 0 && k < count) add_to_global(array + k, sum);
  }
}

}  // namespace kernels
}  // namespace splat
