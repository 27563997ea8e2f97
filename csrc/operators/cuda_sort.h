// The sort and the prefix sum of cuda/sort.h, in memory from torch.
#pragma once

#include "../cuda/sort.h"
#include "tensors.h"

namespace splat {

// Keys and the values to sort by them, both 32 bits, in either half of their buffers.
class SortPairs {
 public:
  SortPairs(int64_t count, const Tensor& like);

  int64_t count() const { return count_; }
  PairBuffers& buffers() { return buffers_; }
  uint32_t* keys() const { return buffers_.keys[buffers_.current]; }
  int32_t* values() const { return buffers_.values[buffers_.current]; }
  const Tensor& values_tensor() const { return values_[buffers_.current]; }

 private:
  int64_t count_;
  Tensor keys_[2], values_[2];
  PairBuffers buffers_ = {};
};

// By the lowest bits of the keys; stable. `like`: a tensor of the device.
void sort_pairs(cudaStream_t stream, SortPairs& pairs, int bits, const Tensor& like);

// Replaces each number by the sum of those before it.
void exclusive_sum(cudaStream_t stream, int32_t* numbers, int64_t count, const Tensor& like);

}  // namespace splat
