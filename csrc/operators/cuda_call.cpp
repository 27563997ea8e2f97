#include "cuda_call.h"

#include <torch/csrc/inductor/aoti_torch/c/shim.h>
#include <torch/csrc/stable/macros.h>

#include "cuda_error.h"

namespace splat {

CudaCall::CudaCall(const Tensor& tensor) : guard_(tensor.get_device_index()) {
  void* stream = nullptr;
  TORCH_ERROR_CODE_CHECK(aoti_torch_get_current_cuda_stream(tensor.get_device_index(), &stream));
  stream_ = static_cast<cudaStream_t>(stream);
}

void CudaCall::clear(const Tensor& tensor) const {
  if (tensor.numel() == 0) return;
  check_cuda(cudaMemsetAsync(tensor.mutable_data_ptr(), 0, tensor.numel() * sizeof(float), stream_));
}

}  // namespace splat
