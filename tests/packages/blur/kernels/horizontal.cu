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

torch::Tensor horizontal(const torch::Tensor& image, int64_t radius) {
  TORCH_CHECK(image.is_cuda() && image.is_contiguous() && image.dim() == 2, "image must be on a GPU, of shape (height, width)");
  TORCH_CHECK(image.scalar_type() == torch::kFloat32, "image must be float32");
  const int height = image.size(0), width = image.size(1);
  torch::Tensor mean = torch::empty_like(image);
  const dim3 blocks((width + 127) / 128, height);
  if (mean.numel()) horizontal_kernel<<<blocks, 128>>>(image.data_ptr<float>(), height, width, radius, mean.data_ptr<float>());
  return mean;
}
