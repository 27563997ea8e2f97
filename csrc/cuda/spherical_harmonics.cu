// splat::spherical_harmonics on CUDA.
#include <torch/csrc/stable/library.h>

#include "launch.h"
#include "spherical_harmonics_kernel.cuh"

namespace splat {
namespace {

Tensor spherical_harmonics(int64_t degree, Tensor directions, Tensor coeffs, std::optional<Tensor> mask) {
  const Launch launch(directions);
  const HarmonicsOperands p = check_spherical_harmonics(degree, directions, coeffs, mask);
  const kernels::HarmonicsInputs in = {p.directions.const_data_ptr<float>(), p.coeffs.const_data_ptr<float>(),
                                       data_or_null<bool>(p.mask),           p.images,
                                       p.gaussians,                          p.bases,
                                       p.shared_coeffs,                      p.degree};
  launch.for_each(p.images * p.gaussians, kernels::spherical_harmonics, in, p.colors.mutable_data_ptr<float>());
  return p.colors;
}

}  // namespace
}  // namespace splat

STABLE_TORCH_LIBRARY_IMPL(splat, CUDA, m) { m.impl("spherical_harmonics", TORCH_BOX(&splat::spherical_harmonics)); }
