// splat::spherical_harmonics on the CPU.
#include <torch/csrc/stable/library.h>

#include "../operators.h"

namespace splat {
namespace {

Tensor spherical_harmonics(int64_t degree, Tensor directions, Tensor coeffs, std::optional<Tensor> mask) {
  const HarmonicsOperands p = check_spherical_harmonics(degree, directions, coeffs, mask);
  const float* direction = p.directions.const_data_ptr<float>();
  const float* coeff = p.coeffs.const_data_ptr<float>();
  const bool* visible = data_or_null<bool>(p.mask);
  float* colors = p.colors.mutable_data_ptr<float>();

  torch::stable::parallel_for(0, p.images * p.gaussians, 1024, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      float* color = colors + 3 * i;
      if (visible != nullptr && !visible[i]) {
        color[0] = color[1] = color[2] = 0.0f;
        continue;
      }
      const int64_t set = p.shared_coeffs ? i % p.gaussians : i;
      spherical_harmonics_color(p.degree, direction + 3 * i, coeff + 3 * p.bases * set, color);
    }
  });
  return p.colors;
}

}  // namespace
}  // namespace splat

STABLE_TORCH_LIBRARY_IMPL(splat, CPU, m) { m.impl("spherical_harmonics", TORCH_BOX(&splat::spherical_harmonics)); }
