// The operator tiny::twice, on CUDA's default stream.
#include <torch/csrc/stable/library.h>
#include <torch/csrc/stable/ops.h>
#include <torch/csrc/stable/tensor.h>

#include "twice.h"

namespace {
__global__ void twice_kernel(const float* from, float* to, int64_t count) {
  int64_t i = blockIdx.x * int64_t(blockDim.x) + threadIdx.x;
  if (i < count) to[i] = tiny_twice(from[i]);
}

torch::stable::Tensor twice(torch::stable::Tensor input) {
  auto x = torch::stable::contiguous(input);
  auto y = torch::stable::empty_like(x);
  int64_t count = x.numel();
  if (count > 0) {
    twice_kernel<<<(count + 255) / 256, 256>>>(
        static_cast<const float*>(x.data_ptr()), static_cast<float*>(y.data_ptr()), count);
  }
  return y;
}
}  // namespace

STABLE_TORCH_LIBRARY_IMPL(tiny, CUDA, m) { m.impl("twice", TORCH_BOX(&twice)); }
