#include <cub/device/device_radix_sort.cuh>
#include <cub/device/device_scan.cuh>

#include "sort.h"

namespace splat {
namespace {

// Calls a CUB function twice, as CUB requires: first for the size of its temporary memory, which torch then provides,
// and then to run.
template <class Function>
void with_temporary_memory(const Tensor& like, const Function& function) {
  size_t bytes = 0;
  STD_CUDA_CHECK(function(nullptr, bytes));
  // CUB takes a null address as a query for the size, so the memory must not be empty.
  const Tensor memory = empty_like_device({static_cast<int64_t>(bytes) + 1}, ScalarType::Byte, like);
  STD_CUDA_CHECK(function(memory.mutable_data_ptr(), bytes));
}

template <class Number>
void sum(const LaunchContext& launch, const Tensor& like, Number* numbers, int64_t count) {
  with_temporary_memory(like, [&](void* memory, size_t& bytes) {
    return cub::DeviceScan::ExclusiveSum(memory, bytes, numbers, numbers, count, launch.stream());
  });
}

}  // namespace

Pairs::Pairs(int64_t count, const Tensor& like) : count_(count) {
  for (int half = 0; half < 2; ++half) {
    keys_[half] = empty_like_device({count}, ScalarType::Int, like);
    values_[half] = empty_like_device({count}, ScalarType::Int, like);
  }
}

void Pairs::sort(const LaunchContext& launch, int bits) {
  if (count_ == 0 || bits == 0) return;
  const int other = 1 - current_;
  cub::DoubleBuffer<uint32_t> keys(this->keys(), static_cast<uint32_t*>(keys_[other].mutable_data_ptr()));
  cub::DoubleBuffer<int32_t> values(this->values(), values_[other].mutable_data_ptr<int32_t>());
  with_temporary_memory(values_tensor(), [&](void* memory, size_t& bytes) {
    return cub::DeviceRadixSort::SortPairs(memory, bytes, keys, values, count_, 0, bits, launch.stream());
  });
  STD_TORCH_CHECK(keys.selector == values.selector, "CUB left the keys and the values in different halves");
  if (keys.selector == 1) current_ = other;
}

void exclusive_sum(const LaunchContext& launch, const Tensor& like, int64_t* numbers, int64_t count) {
  sum(launch, like, numbers, count);
}

void exclusive_sum(const LaunchContext& launch, const Tensor& like, int32_t* numbers, int64_t count) {
  sum(launch, like, numbers, count);
}

}  // namespace splat
