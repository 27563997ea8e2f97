// Prefix sums over the threads of a block, and of a launch.
//
// Over a launch, each block publishes its own sum first, then that with all blocks before it, which it learns by looking
// back at what these have published (Merrill and Garland, "Single-pass Parallel Prefix Scan with Decoupled Look-back",
// 2016). Blocks are numbered in the order in which they begin, so a block waits only for those that run already.
#pragma once

#include "warp.cuh"

namespace splat {
namespace kernels {

// The sum over the threads before this one. All threads of the block must call it.
template <int kBlockThreads>
static __device__ __forceinline__ uint32_t sum_before(uint32_t value) {
  __shared__ uint32_t sums[kBlockThreads / kWarp];
  const int warp = static_cast<int>(threadIdx.x / kWarp);
  const auto up_to_here = static_cast<uint32_t>(inclusive_sum(static_cast<int>(value)));
  if (threadIdx.x % kWarp == kWarp - 1) sums[warp] = up_to_here;
  __syncthreads();
  uint32_t before = up_to_here - value;
  for (int other = 0; other < kBlockThreads / kWarp; ++other) {
    if (other < warp) before += sums[other];
  }
  __syncthreads();  // before `sums` is written again
  return before;
}

// Of the sums over a launch; null if it has one block. 0 at first.
struct SumProgress {
  unsigned long long* published;  // [blocks]
  uint32_t* begun;                // how many blocks
};

// What a block publishes: a number of 32 bits, and one of these; 0 before it does.
constexpr unsigned long long kOwnIsPublished = 1ull << 32, kSumIsPublished = 1ull << 33;

// The number of this block. All its threads must call it.
static __device__ __forceinline__ uint32_t block_number(const SumProgress& progress) {
  __shared__ uint32_t number;
  if (threadIdx.x == 0) number = progress.begun == nullptr ? 0 : atomicAdd(progress.begun, 1u);
  __syncthreads();
  return number;
}

// How many blocks a lane looks back at: their words are read together, and a warp goes back by 256 blocks at once.
constexpr int kLookedBackAt = 8;

// In lane 0, the sum of all blocks before one. All lanes of a warp must call it.
static __device__ __forceinline__ uint32_t sum_before_block(const unsigned long long* published, int64_t block) {
  const int lane = static_cast<int>(threadIdx.x % kWarp);
  uint32_t before = 0;
  for (unsigned int sums = 0; sums == 0; block -= kWarp * kLookedBackAt) {
    const int64_t nearest = block - 1 - lane * kLookedBackAt;
    unsigned long long found[kLookedBackAt];
#pragma unroll
    for (int i = 0; i < kLookedBackAt; ++i) {
      found[i] = nearest < i ? kSumIsPublished : load_relaxed(published + nearest - i);  // before the first is nothing
    }
    uint32_t of_lane = 0;
    bool sum_is_known = false;
#pragma unroll
    for (int i = 0; i < kLookedBackAt; ++i) {
      if (sum_is_known) continue;
      while (found[i] == 0) found[i] = load_relaxed(published + nearest - i);
      of_lane += static_cast<uint32_t>(found[i]);
      sum_is_known = (found[i] & kSumIsPublished) != 0;
    }
    sums = __ballot_sync(kAllLanes, sum_is_known);
    const bool counts = sums == 0 || lane < __ffs(static_cast<int>(sums));  // up to the nearest sum
    before += warp_sum(counts ? of_lane : 0u);
  }
  return before;
}

// The sum over the threads of the launch before this one, in the order of the numbers of their blocks. All threads of all
// blocks must call it.
template <int kBlockThreads>
static __device__ __forceinline__ uint32_t sum_before_in_launch(const SumProgress& progress, uint32_t number,
                                                                uint32_t value) {
  __shared__ uint32_t before_block;
  const uint32_t before = sum_before<kBlockThreads>(value);
  if (progress.published == nullptr) return before;
  if (threadIdx.x >= kBlockThreads - kWarp) {
    const uint32_t of_block = __shfl_sync(kAllLanes, before + value, kWarp - 1);
    const bool publishes = threadIdx.x == kBlockThreads - kWarp;
    if (publishes) store_relaxed(progress.published + number, kOwnIsPublished | of_block);
    const uint32_t found = sum_before_block(progress.published, number);
    if (publishes) {
      store_relaxed(progress.published + number, kSumIsPublished | (found + of_block));
      before_block = found;
    }
  }
  __syncthreads();
  return before + before_block;
}

}  // namespace kernels
}  // namespace splat
