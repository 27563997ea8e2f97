// splat::find_finite on CUDA.
#include <tuple>

#include <torch/csrc/stable/library.h>

#include "../finite_operands.h"
#include "finite_kernel.cuh"
#include "launch.h"

namespace splat {
namespace {

std::tuple<Tensor, Tensor> find_finite(Tensor means, std::optional<Tensor> quats, std::optional<Tensor> scales,
                                       std::optional<Tensor> covars, Tensor opacities, Tensor colors) {
  const Launch launch(means);
  const FiniteOperands p = check_finite(means, quats, scales, covars, opacities, colors);
  auto* invalid = static_cast<unsigned long long*>(p.invalid.mutable_data_ptr());
  STD_CUDA_CHECK(cudaMemsetAsync(invalid, 0, sizeof *invalid, launch.stream()));
  launch.for_each(p.count(), kernels::find_finite, p.inputs(), p.finite.mutable_data_ptr<bool>(), invalid);
  return {p.finite, p.invalid};
}

}  // namespace
}  // namespace splat

STABLE_TORCH_LIBRARY_IMPL(splat, CUDA, m) { m.impl("find_finite", TORCH_BOX(&splat::find_finite)); }
