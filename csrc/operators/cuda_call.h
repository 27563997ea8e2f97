// What every call of an operator on CUDA has: torch's current stream, and the device of the tensors.
#pragma once

#include <torch/csrc/stable/accelerator.h>

#include <cuda_runtime_api.h>

#include "tensors.h"

namespace splat {

class CudaCall {
 public:
  // Makes the device of a tensor the current one during its lifetime.
  explicit CudaCall(const Tensor& tensor);

 protected:
  void clear(const Tensor& tensor) const;

  torch::stable::accelerator::DeviceGuard guard_;
  cudaStream_t stream_ = nullptr;
};

}  // namespace splat
