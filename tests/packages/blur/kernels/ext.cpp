#include <cublas_v2.h>
#include <cuda_runtime.h>

#include "blur.h"

namespace {

int runtime_version() {
  int version = 0;
  cudaRuntimeGetVersion(&version);
  return version;
}

}  // namespace

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {
  m.def("horizontal", &horizontal);
  m.def("vertical", &vertical);
  m.def("runtime_version", &runtime_version);
  m.def("cublas_status", [](int status) { return cublasGetStatusName(static_cast<cublasStatus_t>(status)); });
}
