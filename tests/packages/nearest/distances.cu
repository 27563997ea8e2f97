#include <limits>

#include "nearest.h"
#include "vectors/vec3.h"

namespace {

__global__ void nearest_kernel(const vectors::Vec3* at, int count, float* nearest) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= count) return;
  float least = std::numeric_limits<float>::infinity();
  for (int j = 0; j < count; ++j) {
    if (i != j) least = fminf(least, vectors::squared_distance(at[i], at[j]));
  }
  nearest[i] = least;
}

}  // namespace

void distances_cuda(const float* points, int count, float* nearest, cudaStream_t stream) {
  const auto* at = reinterpret_cast<const vectors::Vec3*>(points);
  if (count > 0) nearest_kernel<<<(count + 255) / 256, 256, 0, stream>>>(at, count, nearest);
}
