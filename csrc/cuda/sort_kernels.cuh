// A radix sort of pairs, least significant digit first, which moves all pairs once for each digit (Adinets and Merrill,
// "Onesweep", 2022).
//
// Of each digit, a tile's pairs go to places behind those of all smaller digits and of the tiles before it. How many
// these are a tile learns by looking back: each publishes its own numbers first, then their sum with those of all before
// it. Tiles are numbered in the order in which blocks begin, so a tile waits only for blocks that run already.
#pragma once

#include "prefix_sum.cuh"
#include "sort.h"

namespace splat {
namespace kernels {

constexpr int kDigitBits = 8, kDigits = 1 << kDigitBits, kMostDigits = 32 / kDigitBits;
// Two blocks fit onto a multiprocessor; with more pairs for each thread, registers spill.
constexpr int kSortThreads = 384, kSortItems = 19, kSortTile = kSortThreads * kSortItems;
constexpr int kSortWarps = kSortThreads / kWarp;
constexpr int kCountThreads = 256, kCountItems = 16, kCountTile = kCountThreads * kCountItems;

// Takes the place of keys behind the last one. Its digits are the largest there are, so it comes after all others, and
// no place depends on how many there are of it.
constexpr uint32_t kNoKey = ~0u;

// What tiles publish for one digit is 0 before they do, then their own number plus 1, then the sum, with this bit.
constexpr uint32_t kSumIsKnown = 1u << 31;

// Of one digit's sort; null if there is one tile. What is counted and published is 0 at first.
struct SortProgress {
  const uint32_t* histogram;  // [kDigits], of all keys
  uint32_t* begun;            // how many blocks
  uint32_t* published;        // [tiles, kDigits]
};

// Some neighbouring bits of a key.
struct Digit {
  int shift;
  uint32_t mask;
};

// The digit that begins at a bit, of keys that are sorted by their lowest `bits`.
static __device__ __forceinline__ Digit digit_at(int shift, int bits) {
  return {shift, bits - shift < kDigitBits ? (1u << (bits - shift)) - 1 : kDigits - 1u};
}

static __device__ __forceinline__ uint32_t digit_of(uint32_t key, const Digit& digit) {
  return key >> digit.shift & digit.mask;
}

// Adds to histogram [kMostDigits, kDigits] how many keys have which digits.
__global__ void __launch_bounds__(kCountThreads) count_digits(const uint32_t* keys, uint32_t count, int bits,
                                                              uint32_t* histogram) {
  __shared__ uint32_t counts[kMostDigits * kDigits];
  for (int i = static_cast<int>(threadIdx.x); i < kMostDigits * kDigits; i += kCountThreads) counts[i] = 0;
  __syncthreads();
  for (uint32_t tile = blockIdx.x * kCountTile; tile < count; tile += gridDim.x * kCountTile) {
    uint32_t found[kCountItems];
#pragma unroll
    for (int i = 0; i < kCountItems; ++i) {
      const uint32_t at = tile + i * kCountThreads + threadIdx.x;
      found[i] = at < count ? keys[at] : kNoKey;
    }
    uint32_t* of_digit = counts;
    for (int shift = 0; shift < bits; shift += kDigitBits, of_digit += kDigits) {
      const Digit digit = digit_at(shift, bits);
#pragma unroll
      for (int i = 0; i < kCountItems; ++i) atomicAdd(of_digit + digit_of(found[i], digit), 1u);
    }
  }
  __syncthreads();
  for (int i = static_cast<int>(threadIdx.x); i < kMostDigits * kDigits; i += kCountThreads) {
    if (counts[i] != 0) atomicAdd(histogram + i, counts[i]);
  }
}

// The number of this thread, of which nvcc does not know that it stays the same: what follows from it does not take
// registers while a loop goes on.
static __device__ __forceinline__ int thread_in_loop() {
#if defined(__CUDA_ARCH__)
  int thread;
  asm volatile("mov.u32 %0, %%tid.x;" : "=r"(thread));
  return thread;
#else
  return static_cast<int>(threadIdx.x);
#endif
}

// A warp's items are neighbours in the tile, of which each 32 are read at once.
static __device__ __forceinline__ int first_item(int thread) {
  return thread / kWarp * (kWarp * kSortItems) + thread % kWarp;
}

template <class T>
static __device__ __forceinline__ void load_items(const T* tile, uint32_t in_tile, T none, T (&items)[kSortItems]) {
  const int thread = thread_in_loop(), first = first_item(thread);
  const T* from = tile + first;
  if (in_tile == kSortTile) {
#pragma unroll
    for (int i = 0; i < kSortItems; ++i) items[i] = from[i * kWarp];
  } else {
#pragma unroll
    for (int i = 0; i < kSortItems; ++i) {
      const bool is_there = static_cast<uint32_t>(first + i * kWarp) < in_tile;
      items[i] = is_there ? from[i * kWarp] : none;
    }
  }
}

// The lanes of this warp in which a bit is as it is in this one. In C++ it takes nvcc twice as many instructions.
static __device__ __forceinline__ uint32_t lanes_with_bit(uint32_t value, uint32_t bit) {
#if defined(__CUDA_ARCH__)
  uint32_t lanes;
  asm volatile("{\n"
      "  .reg .pred %%is_set;\n"
      "  and.b32 %0, %1, %2;\n"
      "  setp.ne.u32 %%is_set, %0, 0;\n"
      "  vote.sync.ballot.b32 %0, %%is_set, 0xffffffff;\n"
      "  @!%%is_set not.b32 %0, %0;\n"
      "}" : "=r"(lanes) : "r"(value), "r"(bit));
  return lanes;
#else
  return __ballot_sync(kAllLanes, value & bit) ^ (value & bit ? 0 : kAllLanes);
#endif
}

// The lanes of this warp with the same digit as this one.
static __device__ __forceinline__ uint32_t lanes_with(uint32_t digit) {
  uint32_t lanes = kAllLanes;
#pragma unroll
  for (int bit = 0; bit < kDigitBits; ++bit) {
    lanes &= lanes_with_bit(digit, 1u << bit);
  }
  return lanes;
}

// Of two pointers; an index that is not known before the kernel runs would put them into memory.
template <class T>
static __device__ __forceinline__ T* either(T* const (&pointers)[2], int which) {
  return which == 0 ? pointers[0] : pointers[1];
}

// How many keys before this tile's go to places before those of one digit; publishes the sum with this tile's own
// number. `published`: by this tile, which is not the first: that one publishes nothing but the sum.
static __device__ __forceinline__ uint32_t look_back(uint32_t* published, uint32_t own) {
  uint32_t before = 0, found = 0;
  for (const uint32_t* other = published; (found & kSumIsKnown) == 0;) {
    other -= kDigits;
    do found = load_relaxed(other);
    while (found == 0);
    before += (found & kSumIsKnown) != 0 ? found ^ kSumIsKnown : found - 1;
  }
  store_relaxed(published, (before + own) | kSumIsKnown);
  return before;
}

// Sorts by the digits from the bit `shift` up to `bits`, one after the other. A launch has one digit, or one block.
__global__ void __launch_bounds__(kSortThreads, 2)
    sort_digits(const PairBuffers pairs, uint32_t count, int shift, int bits, SortProgress progress) {
  __shared__ uint32_t words[kSortTile];  // first a histogram of each warp's keys, then the keys, then the values
  __shared__ uint32_t places[kDigits], block_tile;
  uint32_t number = 0;
  const bool alone = progress.begun == nullptr;
  if (!alone) {
    if (threadIdx.x == 0) block_tile = atomicAdd(progress.begun, 1u);
    __syncthreads();
    number = block_tile;
  }
  const uint32_t tile = number * kSortTile, in_tile = count - tile < kSortTile ? count - tile : kSortTile;
  for (int from = pairs.current; shift < bits; shift += kDigitBits, from = 1 - from) {
    const int thread = thread_in_loop(), lane = thread % kWarp;
    uint32_t* of_warp = words + thread / kWarp * kDigits;
    const Digit digit = digit_at(shift, bits);
    uint32_t keys[kSortItems], ranks[kSortItems];
    load_items(either(pairs.keys, from) + tile, in_tile, kNoKey, keys);
    for (int i = thread; i < kSortWarps * kDigits; i += kSortThreads) words[i] = 0;
    __syncthreads();
#pragma unroll
    for (int i = 0; i < kSortItems; ++i) atomicAdd(of_warp + digit_of(keys[i], digit), 1u);
    __syncthreads();

    // Each of the first threads has a digit: how many keys there are, and in the histograms, how many in the warps
    // before.
    uint32_t own = 0;
    const uint32_t word = number * kDigits + thread;
    if (thread < kDigits) {
#pragma unroll
      for (int warp = 0; warp < kSortWarps; ++warp) {
        const uint32_t of_other = words[warp * kDigits + thread];
        words[warp * kDigits + thread] = own;
        own += of_other;
      }
      if (number > 0) store_relaxed(progress.published + word, own + 1);
    }
    // Where all have one digit, or are behind the last key, they stay in their order. The vote tells ptxas that a
    // warp's lanes agree.
    const bool same_digit = __syncthreads_or(own == kSortTile);
    const bool in_order = __any_sync(kAllLanes, same_digit || first_item(thread) - lane >= static_cast<int>(in_tile));
    const uint32_t first = sum_before<kSortThreads>(own);  // the digit's first place in this tile
    uint32_t smaller = first;
    if (!alone && number == 0) {
      smaller = sum_before<kSortThreads>(thread < kDigits ? progress.histogram[thread] : 0);
      if (thread < kDigits) store_relaxed(progress.published + word, (smaller + own) | kSumIsKnown);
    }
    if (thread < kDigits) {
      places[thread] = number == 0 ? smaller - first : 0 - first;
#pragma unroll
      for (int warp = 0; warp < kSortWarps; ++warp) words[warp * kDigits + thread] += first;
    }
    __syncthreads();

    if (in_order) {
#pragma unroll
      for (int i = 0; i < kSortItems; ++i) ranks[i] = first_item(thread) + i * kWarp;
    } else {
#pragma unroll
      for (int i = 0; i < kSortItems; ++i) {
        uint32_t* next = of_warp + digit_of(keys[i], digit);
        const uint32_t lanes = lanes_with(digit_of(keys[i], digit));
        ranks[i] = *next + __popc(lanes & ((1u << lane) - 1));
        __syncwarp();
        if (lanes >> lane == 1) *next = ranks[i] + 1;  // the last of them
        __syncwarp();
      }
    }
    __syncthreads();
#pragma unroll
    for (int i = 0; i < kSortItems; ++i) words[ranks[i]] = keys[i];
    if (number > 0 && thread < kDigits) places[thread] += look_back(progress.published + word, own);
    __syncthreads();

    uint32_t place[kSortItems], *keys_out = either(pairs.keys, 1 - from);
#pragma unroll
    for (int i = 0; i < kSortItems; ++i) {
      const uint32_t at = i * kSortThreads + thread, key = words[at];
      place[i] = places[digit_of(key, digit)] + at;
      if (at < in_tile) keys_out[place[i]] = key;
    }
    int32_t values[kSortItems];
    load_items(either(pairs.values, from) + tile, in_tile, 0, values);
    __syncthreads();
#pragma unroll
    for (int i = 0; i < kSortItems; ++i) words[ranks[i]] = static_cast<uint32_t>(values[i]);
    __syncthreads();
    int32_t* values_out = either(pairs.values, 1 - from);
#pragma unroll
    for (int i = 0; i < kSortItems; ++i) {
      const uint32_t at = i * kSortThreads + thread;
      if (at < in_tile) values_out[place[i]] = static_cast<int32_t>(words[at]);
    }
    __syncthreads();
  }
}

}  // namespace kernels
}  // namespace splat
