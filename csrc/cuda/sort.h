// The radix sort and the prefix sum on the GPU. math/sort_keys.h has the keys, and how many of their bits are sorted,
// which decides the number of passes.
//
// The functions are like those of host_functions.h. `memory`, `bytes`: temporary memory. A call without memory only sets
// the bytes that are needed.
#pragma once

#include <cuda_runtime_api.h>
#include <stdint.h>

namespace splat {

// 32-bit keys and the values to sort by them, each with a second buffer: a sort leaves its result in either one.
struct PairBuffers {
  uint32_t* keys[2];
  int32_t* values[2];
  int current;
};

// Sorts `count` pairs by the lowest bits of the keys, as unsigned numbers; stable. Each pass moves all pairs, and sorts
// by up to 8 bits.
cudaError_t launch_sort(cudaStream_t stream, void* memory, size_t& bytes, PairBuffers& pairs, int64_t count, int bits);

// Replaces each number by the sum of those before it. The sums must fit.
cudaError_t launch_exclusive_sum(cudaStream_t stream, void* memory, size_t& bytes, int32_t* numbers, int64_t count);

}  // namespace splat
