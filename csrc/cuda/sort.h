// Sorting and prefix sums on the GPU, by CUB, which is compiled in sort.cu alone: it takes long.
#pragma once

#include "launch.h"

namespace splat {

// 32-bit keys and the values that are sorted by them, and room for as many: a sort leaves its result in either half.
class Pairs {
 public:
  Pairs(int64_t count, const Tensor& like);

  uint32_t* keys() const { return static_cast<uint32_t*>(keys_[current_].mutable_data_ptr()); }
  int32_t* values() const { return values_[current_].mutable_data_ptr<int32_t>(); }
  const Tensor& values_tensor() const { return values_[current_]; }

  // By the lowest bits of the keys, as unsigned numbers; stable.
  void sort(const LaunchContext& launch, int bits);

 private:
  int64_t count_;
  Tensor keys_[2], values_[2];
  int current_ = 0;
};

// In place: each number becomes the sum of those before it. `like` is on the device.
void exclusive_sum(const LaunchContext& launch, const Tensor& like, int64_t* numbers, int64_t count);
void exclusive_sum(const LaunchContext& launch, const Tensor& like, int32_t* numbers, int64_t count);

}  // namespace splat
