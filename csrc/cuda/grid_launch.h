// Launching a kernel on a grid of blocks and threads, in the files that nvcc compiles. It is a function of the CUDA
// runtime, not <<< >>>, so that the tests can compile these files without nvcc; one that CUDA has had since 11.8.
#pragma once

#include <cuda_runtime.h>

#include "../math/integers.h"

namespace splat {

constexpr int kThreads = 256;

template <class T>
struct Same {
  using Type = T;
};

// Launches `count` blocks of `threads` threads, if there are any.
template <class... Parameters>
cudaError_t launch_blocks(cudaStream_t stream, int64_t count, int threads, void (*kernel)(Parameters...),
                          typename Same<Parameters>::Type... arguments) {
  if (count == 0) return cudaSuccess;
  if (count > kMaxCount) return cudaErrorInvalidConfiguration;
  // Of its fields, the blocks, the threads of each, the bytes of dynamic shared memory and the stream.
  const cudaLaunchConfig_t config = {dim3(static_cast<unsigned int>(count)), dim3(static_cast<unsigned int>(threads)), 0,
                                     stream};
  return cudaLaunchKernelEx(&config, kernel, arguments...);
}

// Launches one thread for each of `count` items.
template <class... Parameters>
cudaError_t launch_each(cudaStream_t stream, int64_t count, void (*kernel)(Parameters...),
                        typename Same<Parameters>::Type... arguments) {
  return launch_blocks(stream, divide_up(count, kThreads), kThreads, kernel, arguments...);
}

// Returns from the function if a launch failed.
#define SPLAT_RETURN_ON_ERROR(launch)                         \
  do {                                                        \
    const cudaError_t status_ = launch;                       \
    if (status_ != cudaSuccess) return status_;               \
  } while (false)

}  // namespace splat
