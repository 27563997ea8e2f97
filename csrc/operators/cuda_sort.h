// What the sort of cuda/sort.h works on, in memory from torch.
#pragma once

#include "../cuda/host_functions.h"
#include "../cuda/sort.h"
#include "tensors.h"

namespace splat {

// Keys and the values to sort by them, both 32 bits, in either half of their buffers. `like`: a tensor of the device.
class SortPairs {
 public:
  SortPairs(int64_t count, const Tensor& like) {
    for (int half = 0; half < 2; ++half) {
      keys_[half] = empty_like_device({count}, ScalarType::Int, like);
      values_[half] = empty_like_device({count}, ScalarType::Int, like);
      buffers_.keys[half] = static_cast<uint32_t*>(keys_[half].mutable_data_ptr());
      buffers_.values[half] = values_[half].mutable_data_ptr<int32_t>();
    }
  }

  PairBuffers& buffers() { return buffers_; }
  uint32_t* keys() const { return buffers_.keys[buffers_.current]; }
  int32_t* values() const { return buffers_.values[buffers_.current]; }
  const Tensor& values_tensor() const { return values_[buffers_.current]; }

 private:
  Tensor keys_[2], values_[2];
  PairBuffers buffers_ = {};
};

// The memory of a sort, which a kernel before it clears.
class SortWords {
 public:
  SortWords(int64_t count, int bits, const Tensor& like)
      : memory_(empty_like_device({sort_words(count, bits)}, ScalarType::Int, like)) {}

  Words words() const { return {static_cast<uint32_t*>(memory_.mutable_data_ptr()), memory_.numel()}; }

 private:
  Tensor memory_;
};

}  // namespace splat
