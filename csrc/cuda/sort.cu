// What sort.h declares.
#include "sort.h"

#include "grid_launch.h"
#include "sort_kernels.cuh"

namespace splat {
namespace {

// More blocks than run at once have only more histograms to add up.
constexpr int64_t kMostCountBlocks = 1024;

}  // namespace

cudaError_t launch_sort(cudaStream_t stream, void* memory, size_t& bytes, PairBuffers& pairs, int64_t count, int bits) {
  using namespace kernels;
  const int64_t tiles = divide_up(count, kSortTile), digits = divide_up(bits, kDigitBits);
  // Of each digit its histogram, the number of blocks that have begun, and what tiles publish.
  const int64_t words = tiles > 1 ? kMostDigits * (kDigits + 1) + digits * tiles * kDigits : 0;
  if (memory == nullptr) {
    bytes = static_cast<size_t>(words) * sizeof(uint32_t);
    return cudaSuccess;
  }
  const auto number = static_cast<uint32_t>(count);
  PairBuffers given = pairs;
  pairs.current = (given.current + digits) % 2;
  if (tiles <= 1) {
    return launch_blocks(stream, tiles, kSortThreads, sort_digits, given, number, 0, bits, SortProgress{});
  }
  uint32_t *histograms = static_cast<uint32_t*>(memory), *begun = histograms + kMostDigits * kDigits;
  uint32_t* published = begun + kMostDigits;
  SPLAT_RETURN_ON_ERROR(cudaMemsetAsync(memory, 0, bytes, stream));
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

cudaError_t launch_exclusive_sum(cudaStream_t stream, void* memory, size_t& bytes, int32_t* numbers, int64_t count) {
  using namespace kernels;
  const int64_t tiles = divide_up(count, kSumTile);
  if (memory == nullptr) {
    bytes = static_cast<size_t>(tiles) * sizeof(uint32_t);
    return cudaSuccess;
  }
  const auto number = static_cast<uint32_t>(count);
  auto sums = static_cast<uint32_t*>(memory);
  if (tiles > 1) SPLAT_RETURN_ON_ERROR(launch_blocks(stream, tiles, kSumThreads, sum_tiles, numbers, number, sums));
  return launch_blocks(stream, tiles, kSumThreads, sum_numbers, numbers, number, sums);
}

}  // namespace splat
