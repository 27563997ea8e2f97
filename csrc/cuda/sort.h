// The radix sort on the GPU. math/sort_keys.h has the keys, and how many of their bits are sorted,
// which decides the number of passes.
//
// The functions are like those of host_functions.h. `zeros`: temporary memory, whose words are 0 before. What runs earlier
// sets them, so that they need no launch of their own.
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

// The words of `zeros` for a sort; for fewer pairs, as many are enough.
int64_t sort_words(int64_t count, int bits);

// Sorts `count` pairs by the lowest bits of the keys, as unsigned numbers; stable. Each pass moves all pairs, and sorts
// by up to 8 bits.
cudaError_t launch_sort(cudaStream_t stream, uint32_t* zeros, PairBuffers& pairs, int64_t count, int bits);

}  // namespace splat
