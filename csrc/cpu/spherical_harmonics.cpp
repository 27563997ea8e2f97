// splat::spherical_harmonics and splat::spherical_harmonics_backward on the CPU.
#include <tuple>

#include <torch/csrc/stable/library.h>

#include "../harmonics_operands.h"
#include "../math/spherical_harmonics_backward.h"

namespace splat {
namespace {

Tensor spherical_harmonics(int64_t degree, Tensor directions, Tensor coeffs, std::optional<Tensor> mask) {
  const HarmonicsOperands p = check_spherical_harmonics(degree, directions, coeffs, mask);
  const Tensor result = empty_like_device({p.images, p.gaussians, 3}, ScalarType::Float, p.directions);
  const float* direction = p.directions.const_data_ptr<float>();
  const float* coeff = p.coeffs.const_data_ptr<float>();
  const bool* visible = data_or_null<bool>(p.mask);
  float* colors = result.mutable_data_ptr<float>();

  torch::stable::parallel_for(0, p.images * p.gaussians, 1024, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      float* color = colors + 3 * i;
      if (visible != nullptr && !visible[i]) {
        color[0] = color[1] = color[2] = 0.0f;
        continue;
      }
      const int64_t set = p.shared_coeffs ? i % p.gaussians : i;
      spherical_harmonics_color(p.degree, p.bases, direction + 3 * i, coeff + 3 * p.bases * set, color);
    }
  });
  return result;
}

std::tuple<Tensor, Tensor> spherical_harmonics_backward(int64_t degree, Tensor directions, Tensor coeffs,
                                                        std::optional<Tensor> mask, Tensor v_colors) {
  const HarmonicsOperands p = check_spherical_harmonics(degree, directions, coeffs, mask);
  const HarmonicsGradients g = check_harmonics_gradients(p, v_colors);
  const float* direction = p.directions.const_data_ptr<float>();
  const float* coeff = p.coeffs.const_data_ptr<float>();
  const bool* visible = data_or_null<bool>(p.mask);
  const float* v_color = g.v_colors.const_data_ptr<float>();
  float* v_direction = g.v_directions.mutable_data_ptr<float>();
  float* v_coeff = g.v_coeffs.mutable_data_ptr<float>();

  // One thread makes all of a set's sums, over the images that share it, in their order.
  torch::stable::parallel_for(0, p.sets() * p.gaussians, 256, [&](int64_t begin, int64_t end) {
    for (int64_t set = begin; set < end; ++set) {
      harmonics_set_backward(p.degree, p.bases, direction, coeff + 3 * p.bases * set, visible, v_color, set,
                             p.gaussians, p.shared_coeffs ? p.images : 1, v_direction, v_coeff + 3 * p.bases * set);
    }
  });
  return {g.v_directions, g.v_coeffs};
}

}  // namespace
}  // namespace splat

STABLE_TORCH_LIBRARY_IMPL(splat, CPU, m) {
  m.impl("spherical_harmonics", TORCH_BOX(&splat::spherical_harmonics));
  m.impl("spherical_harmonics_backward", TORCH_BOX(&splat::spherical_harmonics_backward));
}
