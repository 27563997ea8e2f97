// The launches of the kernels for sorting, lists and images, in one file: nvcc takes a second for each, however short.
#include "channels.h"
#include "grid_launch.h"
#include "host_functions.h"
#include "intersect_kernels.cuh"
#include "pack_kernels.cuh"
#include "rasterize_kernel.cuh"
#include "sort.h"
#include "sort_kernels.cuh"

namespace splat {
namespace {

// More blocks than run at once have only more histograms to add up.
constexpr int64_t kMostCountBlocks = 1024;

cudaError_t clear_totals(cudaStream_t stream, IntersectTotals* totals, int64_t words) {
  return cudaMemsetAsync(totals, 0, sizeof *totals + words * sizeof(uint32_t), stream);
}

// Of the sums over a launch of so many threads, in sum_words of memory.
kernels::SumProgress sum_progress(uint32_t* zeros, int64_t threads) {
  const int64_t blocks = divide_up(threads, kThreads);
  if (blocks <= 1) return {};
  return {reinterpret_cast<unsigned long long*>(zeros), zeros + 2 * blocks};
}

// Of a sort: the digits that it goes by, each in a pass, and the tiles of its pairs.
int64_t pass_count(int bits) { return divide_up(bits, kernels::kDigitBits); }
int64_t sort_tile_count(int64_t count) { return divide_up(count, kernels::kSortTile); }

}  // namespace

// intersect_kernels.cuh, pack_kernels.cuh

int64_t sum_words(int64_t threads) {
  const int64_t blocks = divide_up(threads, kThreads);
  return blocks > 1 ? 2 * (blocks + 1) : 0;  // what they publish, and how many have begun
}

cudaError_t launch_count_tiles(cudaStream_t stream, const IntersectInputs& in, const DepthOrder& out,
                               IntersectTotals* totals, int64_t words) {
  SPLAT_RETURN_ON_ERROR(clear_totals(stream, totals, words));
  return launch_each(stream, in.count, kernels::count_tiles, in, out, totals);
}

cudaError_t launch_emit_pairs(cudaStream_t stream, const IntersectInputs& in, const DepthOrder& by_depth,
                              uint32_t* zeros, const IntersectTotals* totals, int64_t room, uint32_t* tile_keys,
                              int32_t* indices, const Words& cleared) {
  return launch_each(stream, in.count, kernels::emit_pairs, in, by_depth, sum_progress(zeros, in.count), totals, room,
                     tile_keys, indices, cleared);
}

cudaError_t launch_find_offsets(cudaStream_t stream, const IntersectInputs& in, int64_t total,
                                const uint32_t* tile_keys, int32_t* offsets) {
  const int64_t per_image = tiles_per_image(in.grid), tiles = in.images * per_image;
  return launch_each(stream, tiles, kernels::find_offsets, tile_keys, total, tiles, per_image, in.tile_bits, offsets);
}

cudaError_t launch_count_shown(cudaStream_t stream, const IntersectInputs& in, int32_t* places, int32_t* tiles,
                               IntersectTotals* totals, int64_t words) {
  SPLAT_RETURN_ON_ERROR(clear_totals(stream, totals, words));
  const auto zeros = reinterpret_cast<uint32_t*>(totals + 1);
  return launch_each(stream, in.count, kernels::count_shown, in, places, tiles, totals, sum_progress(zeros, in.count));
}

cudaError_t launch_pack(cudaStream_t stream, const PackInputs& in, const int32_t* places, const int32_t* tiles,
                        const PackedRows& out, const DepthOrder& packed) {
  return launch_each(stream, in.images * in.gaussians, kernels::pack, in, places, tiles, out, packed);
}

cudaError_t launch_pack_backward(cudaStream_t stream, const PackGradients& in, const PackGradientOutputs& out) {
  return launch_each(stream, in.sets * in.gaussians, kernels::pack_backward, in, out);
}

// rasterize_kernel.cuh

cudaError_t launch_stage_gaussians(cudaStream_t stream, const RasterizeInputs& in, float* staged,
                                   const RasterizeGradientOutputs& cleared) {
  const auto records = reinterpret_cast<kernels::StagedRecord*>(staged);
  return launch_each(stream, in.count, kernels::stage_gaussians, in, records, cleared);
}

cudaError_t launch_rasterize(cudaStream_t stream, const RasterizeInputs& in, const float* staged,
                             const RasterizeOutputs& out) {
  const auto records = reinterpret_cast<const kernels::StagedRecord*>(staged);
  const int threads = kernels::tile_threads(in.grid.tile_size);
  return for_each_chunk(in.channels, kMostChannels, [&](auto c, int64_t first, int channels) {
    return launch_blocks(stream, in.tiles, threads, kernels::rasterize<decltype(c)::value>, in, records, out, first,
                         channels);
  });
}

// sort_kernels.cuh

int64_t sort_words(int64_t count, int bits) {
  const int64_t tiles = sort_tile_count(count);
  // Of each digit its histogram, the number of blocks that have begun, and what tiles publish.
  return tiles > 1 ? kernels::kMostDigits * (kernels::kDigits + 1) + pass_count(bits) * tiles * kernels::kDigits : 0;
}

cudaError_t launch_sort(cudaStream_t stream, uint32_t* zeros, PairBuffers& pairs, int64_t count, int bits) {
  using namespace kernels;
  if (bits == 0) return cudaSuccess;
  const int64_t tiles = sort_tile_count(count), digits = pass_count(bits);
  const auto number = static_cast<uint32_t>(count);
  PairBuffers given = pairs;
  pairs.current = (given.current + digits) % 2;
  if (tiles <= 1) {
    return launch_blocks(stream, tiles, kSortThreads, sort_digits, given, number, 0, bits, SortProgress{});
  }
  uint32_t *histograms = zeros, *begun = histograms + kMostDigits * kDigits, *published = begun + kMostDigits;
  const int64_t count_tiles = divide_up(count, kCountTile);
  SPLAT_RETURN_ON_ERROR(launch_blocks(stream, count_tiles < kMostCountBlocks ? count_tiles : kMostCountBlocks,
                                      kCountThreads, count_digits, given.keys[given.current], number, bits,
                                      histograms));
  for (int digit = 0; digit < digits; ++digit) {
    const int shift = digit * kDigitBits, end = shift + kDigitBits < bits ? shift + kDigitBits : bits;
    const SortProgress progress = {histograms + digit * kDigits, begun + digit, published + digit * tiles * kDigits};
    SPLAT_RETURN_ON_ERROR(launch_blocks(stream, tiles, kSortThreads, sort_digits, given, number, shift, end, progress));
    given.current = 1 - given.current;
  }
  return cudaSuccess;
}

}  // namespace splat
