// How kernels are launched: on torch's current stream and the tensors' device, with every launch checked.
#pragma once

#include <cuda_runtime.h>

#include <torch/csrc/inductor/aoti_torch/c/shim.h>
#include <torch/csrc/stable/accelerator.h>
#include <torch/csrc/stable/macros.h>

#include "../operators.h"

namespace splat {

constexpr int kThreads = 256;

// Makes the tensor's device the current one for as long as it lives, and holds torch's current stream there.
class Launch {
 public:
  explicit Launch(const Tensor& tensor) : guard_(tensor.get_device_index()) {
    void* stream = nullptr;
    TORCH_ERROR_CODE_CHECK(aoti_torch_get_current_cuda_stream(tensor.get_device_index(), &stream));
    stream_ = static_cast<cudaStream_t>(stream);
  }

  cudaStream_t stream() const { return stream_; }

  // One thread for each of `count` items, none if there are none.
  template <class... Parameters, class... Arguments>
  void for_each(int64_t count, void (*kernel)(Parameters...), Arguments... arguments) const {
    if (count == 0) return;
    blocks((count + kThreads - 1) / kThreads, kThreads, kernel, arguments...);
  }

  // `count` blocks of `threads`, none if there are none.
  template <class... Parameters, class... Arguments>
  void blocks(int64_t count, int threads, void (*kernel)(Parameters...), Arguments... arguments) const {
    if (count == 0) return;
    kernel<<<static_cast<unsigned int>(count), threads, 0, stream_>>>(arguments...);
    STD_CUDA_KERNEL_LAUNCH_CHECK();
  }

 private:
  torch::stable::accelerator::DeviceGuard guard_;
  cudaStream_t stream_ = nullptr;
};

}  // namespace splat
