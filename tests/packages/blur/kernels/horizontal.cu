#include "blur.h"

namespace {

__global__ void horizontal_kernel(const float* image, int height, int width, int radius, float* mean) {
  const int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y;
  if (x >= width) return;
  const int from = max(x - radius, 0), to = min(x + radius, width - 1);
  float sum = 0;
  for (int i = from; i <= to; ++i) sum += image[y * width + i];
  mean[y * width + x] = sum / (to - from + 1);
}

}  // namespace

void mean_of_rows(const float* image, int height, int width, int radius, float* mean, cudaStream_t stream) {
  const dim3 blocks((width + 127) / 128, height);
  if (height > 0 && width > 0) horizontal_kernel<<<blocks, 128, 0, stream>>>(image, height, width, radius, mean);
}
