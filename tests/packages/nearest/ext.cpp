// Less than torch/extension.h, which takes three times as long to compile.
#include <ATen/ATen.h>
#include <torch/csrc/utils/pybind.h>

#include <limits>

#ifdef WITH_CUDA
#include <ATen/cuda/CUDAContext.h>
#endif

#include "nearest.h"
#include "vectors/vec3.h"

namespace {

at::Tensor distances_cpu(const at::Tensor& points) {
  const int64_t count = points.size(0);
  const auto* at = reinterpret_cast<const vectors::Vec3*>(points.data_ptr<float>());
  at::Tensor result = at::full({count}, std::numeric_limits<float>::infinity(), points.options());
  float* nearest = result.data_ptr<float>();
  for (int64_t i = 0; i < count; ++i) {
    for (int64_t j = 0; j < count; ++j) {
      if (i != j) nearest[i] = std::min(nearest[i], vectors::squared_distance(at[i], at[j]));
    }
  }
  return result;
}

at::Tensor distances(const at::Tensor& points) {
  TORCH_CHECK(points.dim() == 2 && points.size(1) == 3, "points must have the shape (N, 3)");
  TORCH_CHECK(points.scalar_type() == at::kFloat, "points must be float32");
#ifdef WITH_CUDA
  if (points.is_cuda()) {
    const at::Tensor at = points.contiguous();
    at::Tensor result = at::empty({at.size(0)}, at.options());
    distances_cuda(at.data_ptr<float>(), at.size(0), result.data_ptr<float>(), at::cuda::getCurrentCUDAStream());
    return result;
  }
#endif
  return distances_cpu(points.contiguous());
}

}  // namespace

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {
  m.def("distances", &distances);
#ifdef WITH_CUDA
  m.attr("with_cuda") = true;
#else
  m.attr("with_cuda") = false;
#endif
}
