// splat::spherical_harmonics and splat::spherical_harmonics_backward on CUDA.
#include <tuple>

#include <torch/csrc/stable/library.h>

#include "../harmonics_operands.h"
#include "launch.h"
#include "spherical_harmonics_kernel.cuh"

namespace splat {
namespace {

kernels::HarmonicsInputs inputs(const HarmonicsOperands& p) {
  return {p.directions.const_data_ptr<float>(), p.coeffs.const_data_ptr<float>(), data_or_null<bool>(p.mask), p.images,
          p.gaussians, p.bases, p.shared_coeffs, p.degree};
}

Tensor spherical_harmonics(int64_t degree, Tensor directions, Tensor coeffs, std::optional<Tensor> mask) {
  const Launch launch(directions);
  const HarmonicsOperands p = check_spherical_harmonics(degree, directions, coeffs, mask);
  const Tensor colors = empty_like_device({p.images, p.gaussians, 3}, ScalarType::Float, p.directions);
  launch.for_each(p.images * p.gaussians, kernels::spherical_harmonics, inputs(p), colors.mutable_data_ptr<float>());
  return colors;
}

std::tuple<Tensor, Tensor> spherical_harmonics_backward(int64_t degree, Tensor directions, Tensor coeffs,
                                                        std::optional<Tensor> mask, Tensor v_colors) {
  const Launch launch(directions);
  const HarmonicsOperands p = check_spherical_harmonics(degree, directions, coeffs, mask);
  const HarmonicsGradients g = check_harmonics_gradients(p, v_colors);
  launch.for_each(p.sets() * p.gaussians, kernels::spherical_harmonics_backward, inputs(p),
                  g.v_colors.const_data_ptr<float>(), g.v_directions.mutable_data_ptr<float>(),
                  g.v_coeffs.mutable_data_ptr<float>());
  return {g.v_directions, g.v_coeffs};
}

}  // namespace
}  // namespace splat

STABLE_TORCH_LIBRARY_IMPL(splat, CUDA, m) {
  m.impl("spherical_harmonics", TORCH_BOX(&splat::spherical_harmonics));
  m.impl("spherical_harmonics_backward", TORCH_BOX(&splat::spherical_harmonics_backward));
}
