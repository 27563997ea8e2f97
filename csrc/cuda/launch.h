// Launching kernels on torch's current stream and the device of the tensors, with every launch checked.
#pragma once

#include <cuda_runtime.h>

#include <torch/csrc/inductor/aoti_torch/c/shim.h>
#include <torch/csrc/stable/accelerator.h>
#include <torch/csrc/stable/macros.h>

#include "../checks.h"

namespace splat {

constexpr int kThreads = 256;

// Makes the device of a tensor the current one during its lifetime, and holds torch's current stream of that device.
class LaunchContext {
 public:
  explicit LaunchContext(const Tensor& tensor) : guard_(tensor.get_device_index()) {
    void* stream = nullptr;
    TORCH_ERROR_CODE_CHECK(aoti_torch_get_current_cuda_stream(tensor.get_device_index(), &stream));
    stream_ = static_cast<cudaStream_t>(stream);
  }

  cudaStream_t stream() const { return stream_; }

  // Launches `count` blocks of `threads` threads, if there are any.
  template <class... Parameters, class... Arguments>
  void blocks(int64_t count, int threads, void (*kernel)(Parameters...), Arguments... arguments) const {
    STD_TORCH_CHECK(count <= kMaxCount, count, " blocks of threads are more than the ", kMaxCount,
                    " that CUDA can launch at once");
    if (count == 0) return;
    kernel<<<static_cast<unsigned int>(count), threads, 0, stream_>>>(arguments...);
    STD_CUDA_KERNEL_LAUNCH_CHECK();
  }

  // Launches one thread for each of `count` items.
  template <class... Parameters, class... Arguments>
  void for_each(int64_t count, void (*kernel)(Parameters...), Arguments... arguments) const {
    blocks(divide_up(count, kThreads), kThreads, kernel, arguments...);
  }

 private:
  torch::stable::accelerator::DeviceGuard guard_;
  cudaStream_t stream_ = nullptr;
};

}  // namespace splat
