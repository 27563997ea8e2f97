// CUB's temporary memory, from torch.
#pragma once

#include "launch.h"

namespace splat {

// Calls a CUB function twice, as CUB wants it: for the size of its temporary memory, which torch then provides, and to
// run.
template <class Function>
void with_temporary_memory(const Tensor& like, const Function& function) {
  size_t bytes = 0;
  STD_CUDA_CHECK(function(nullptr, bytes));
  // CUB takes an address of null as the question for the size, so the memory is never empty.
  const Tensor memory = empty_like_device({static_cast<int64_t>(bytes) + 1}, ScalarType::Byte, like);
  STD_CUDA_CHECK(function(memory.mutable_data_ptr(), bytes));
}

}  // namespace splat
