// Sorting and prefix sums on the GPU with CUB, which takes long to compile and is therefore used only in sort.cu.
#pragma once

#include "launch.h"

namespace splat {

// 32-bit keys and the values to sort by them, each with a second buffer: a sort leaves its result in either one.
class Pairs {
 public:
  Pairs(int64_t count, const Tensor& like);

  uint32_t* keys() const { return static_cast<uint32_t*>(keys_[current_].mutable_data_ptr()); }
  int32_t* values() const { return values_[current_].mutable_data_ptr<int32_t>(); }
  const Tensor& values_tensor() const { return values_[current_]; }

  // Sorts by the lowest bits of the keys, as unsigned numbers; stable.
  void sort(const LaunchContext& launch, int bits);

 private:
  int64_t count_;
  Tensor keys_[2], values_[2];
  int current_ = 0;
};

// Replaces each number by the sum of those before it. `like` is any tensor on the device.
void exclusive_sum(const LaunchContext& launch, const Tensor& like, int64_t* numbers, int64_t count);
void exclusive_sum(const LaunchContext& launch, const Tensor& like, int32_t* numbers, int64_t count);

}  // namespace splat
