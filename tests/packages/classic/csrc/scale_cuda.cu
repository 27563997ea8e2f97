// The kernel of scale.cpp.
#include <ATen/cuda/CUDAContext.h>
#include <c10/cuda/CUDAException.h>

__global__ void scale_kernel(const float* from, float* to, int64_t count, float factor) {
  const int64_t i = blockIdx.x * static_cast<int64_t>(blockDim.x) + threadIdx.x;
  if (i < count) to[i] = from[i] * factor;
}

void scale_cuda(const float* from, float* to, int64_t count, float factor, cudaStream_t stream) {
  if (count == 0) return;
  const int64_t threads = at::cuda::getCurrentDeviceProperties()->warpSize * 8;
  scale_kernel<<<(count + threads - 1) / threads, threads, 0, stream>>>(from, to, count, factor);
  C10_CUDA_KERNEL_LAUNCH_CHECK();
}
