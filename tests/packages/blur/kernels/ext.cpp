#include <ATen/ATen.h>
#include <ATen/cuda/CUDAContext.h>
#include <cublas_v2.h>
#include <cuda/std/limits> // of CCCL, which a C++ compiler finds as nvcc does
#include <torch/csrc/utils/pybind.h>

#include "blur.h"

namespace {

using Filter = void (*)(const float*, int, int, int, float*, cudaStream_t);

template <Filter filter>
at::Tensor apply(const at::Tensor& image, int64_t radius) {
  TORCH_CHECK(image.is_cuda() && image.is_contiguous() && image.dim() == 2,
              "image must be on a GPU, of shape (height, width)");
  TORCH_CHECK(image.scalar_type() == at::kFloat, "image must be float32");
  at::Tensor mean = at::empty_like(image);
  filter(image.data_ptr<float>(), image.size(0), image.size(1), radius, mean.data_ptr<float>(),
         at::cuda::getCurrentCUDAStream());
  return mean;
}

int runtime_version() {
  int version = 0;
  cudaRuntimeGetVersion(&version);
  return version;
}

}  // namespace

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {
  m.def("horizontal", &apply<mean_of_rows>);
  m.def("vertical", &apply<mean_of_columns>);
  m.def("runtime_version", &runtime_version);
  m.def("cublas_status", [](int status) { return cublasGetStatusName(static_cast<cublasStatus_t>(status)); });
}
