// Arguments, checked and contiguous, and outputs, allocated, of find_finite, on the CPU and on CUDA.
//
// Shapes: B scenes, N Gaussians, S sets of colours.
#pragma once

#include "checks.h"
#include "../math/find_finite_rows.h"

namespace splat {

struct FiniteOperands {
  Tensor means;                                 // [B, N, 3]
  std::optional<Tensor> quats, scales, covars;  // [B, N, *]
  Tensor opacities, colors;                     // [B, N], [B, S, N, *]
  Tensor finite, invalid;                       // outputs: bool [B, N], int64 []

  int64_t count() const { return means.size(0) * means.size(1); }

  FiniteInputs inputs() const {
    return {means.const_data_ptr<float>(),
            data_or_null<float>(quats),
            data_or_null<float>(scales),
            data_or_null<float>(covars),
            opacities.const_data_ptr<float>(),
            colors.const_data_ptr<float>(),
            means.size(0),
            means.size(1),
            sets_with_work(colors.size(1), colors.size(3) > 0),
            covars ? covars->size(2) : 0,
            colors.size(3)};
  }
};

inline FiniteOperands check_finite(const Tensor& means, const std::optional<Tensor>& quats,
                                   const std::optional<Tensor>& scales, const std::optional<Tensor>& covars,
                                   const Tensor& opacities, const Tensor& colors) {
  const int64_t scenes = checked_size(means, "means", 0, 3), n = means.size(1);
  const int64_t sets = checked_size(colors, "colors", 1, 4);
  checked_count(scenes, n);
  constexpr auto f32 = ScalarType::Float;
  return {checked(means, "means", f32, {scenes, n, 3}, means),
          checked(quats, "quats", f32, {scenes, n, 4}, means),
          checked(scales, "scales", f32, {scenes, n, 3}, means),
          checked(covars, "covars", f32, {scenes, n, kAny}, means),
          checked(opacities, "opacities", f32, {scenes, n}, means),
          checked(colors, "colors", f32, {scenes, sets, n, kAny}, means),
          empty_like_device({scenes, n}, ScalarType::Bool, means),
          empty_like_device({}, ScalarType::Long, means)};
}

}  // namespace splat
