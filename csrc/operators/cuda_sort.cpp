// The memory of sorts and prefix sums.
#include "cuda_sort.h"

#include "cuda_error.h"

namespace splat {
namespace {

// Calls a function twice: for the size of its temporary memory, and to run.
template <class Launch>
void with_memory(const Tensor& like, const Launch& launch) {
  size_t bytes = 0;
  check_cuda(launch(nullptr, bytes));
  // A null address asks for the size, so the memory must not be empty.
  const Tensor memory = empty_like_device({static_cast<int64_t>(bytes) + 1}, ScalarType::Byte, like);
  check_cuda(launch(memory.mutable_data_ptr(), bytes));
}

}  // namespace

SortPairs::SortPairs(int64_t count, const Tensor& like) : count_(count) {
  for (int half = 0; half < 2; ++half) {
    keys_[half] = empty_like_device({count}, ScalarType::Int, like);
    values_[half] = empty_like_device({count}, ScalarType::Int, like);
    buffers_.keys[half] = static_cast<uint32_t*>(keys_[half].mutable_data_ptr());
    buffers_.values[half] = values_[half].mutable_data_ptr<int32_t>();
  }
}

void sort_pairs(cudaStream_t stream, SortPairs& pairs, int bits, const Tensor& like) {
  if (pairs.count() == 0 || bits == 0) return;
  with_memory(like, [&](void* memory, size_t& bytes) {
    return launch_sort(stream, memory, bytes, pairs.buffers(), pairs.count(), bits);
  });
}

void exclusive_sum(cudaStream_t stream, int32_t* numbers, int64_t count, const Tensor& like) {
  if (count == 0) return;
  with_memory(like, [&](void* memory, size_t& bytes) {
    return launch_exclusive_sum(stream, memory, bytes, numbers, count);
  });
}

}  // namespace splat
