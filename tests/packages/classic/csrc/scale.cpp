// A classical torch extension: functions on tensors, bound by pybind11 as a module of Python. It includes less than
// torch/extension.h, which takes twice as long to compile.
#include <ATen/ATen.h>
#include <torch/csrc/utils/pybind.h>

#ifdef WITH_CUDA
#include <ATen/cuda/CUDAContext.h>
#include <c10/cuda/CUDAGuard.h>

void scale_cuda(const float* from, float* to, int64_t count, float factor, cudaStream_t stream);
#endif

at::Tensor scale(const at::Tensor& input, double factor) {
  TORCH_CHECK(input.scalar_type() == at::kFloat, "scale takes float32, not ", input.scalar_type());
#ifdef WITH_CUDA
  if (input.is_cuda()) {
    const c10::cuda::CUDAGuard guard(input.device());
    auto from = input.contiguous();
    auto to = at::empty_like(from);
    scale_cuda(from.data_ptr<float>(), to.data_ptr<float>(), from.numel(), static_cast<float>(factor),
               at::cuda::getCurrentCUDAStream());
    return to;
  }
#endif
  TORCH_CHECK(input.is_cpu(), "scale has no kernel for ", input.device());
  return input * factor;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {
  m.doc() = "Scaling of tensors.";
  m.def("scale", &scale, "A tensor times a number", py::arg("input"), py::arg("factor"));
#ifdef WITH_CUDA
  m.attr("with_cuda") = true;
#else
  m.attr("with_cuda") = false;
#endif
}
