// Arguments, checked and contiguous, of spherical_harmonics and its backward pass, on the CPU and on CUDA.
//
// Shapes: I images, N Gaussians, K coefficients per channel.
#pragma once

#include "checks.h"
#include "../math/spherical_harmonics_rows.h"

namespace splat {

struct HarmonicsOperands {
  int degree;
  Tensor directions, coeffs;   // [I, N, 3], [1 or I, N, K, 3]
  std::optional<Tensor> mask;  // [I, N]
  int64_t images, gaussians, bases;
  bool shared_coeffs;  // one set of coefficients for all images

  int64_t sets() const { return shared_coeffs ? 1 : images; }

  HarmonicsInputs inputs() const {
    return {directions.const_data_ptr<float>(), coeffs.const_data_ptr<float>(), data_or_null<bool>(mask), images,
            gaussians, bases, shared_coeffs, degree};
  }
};

// `coeffs` [1 or I, N, K, 3]: one set for all images or one for each, with K large enough for the degree.
inline Tensor checked_coeffs(const Tensor& coeffs, int64_t images, int64_t gaussians, int degree, const Tensor& like) {
  const int64_t sets = checked_size(coeffs, "coeffs", 0, 4), bases = coeffs.size(2);
  STD_TORCH_CHECK(sets == 1 || sets == images, "coeffs must hold 1 set of coefficients or one for each of the ", images,
                  " images; found ", sets);
  STD_TORCH_CHECK(bases >= base_count(degree), "degree ", degree, " needs ", base_count(degree),
                  " coefficients per channel; coeffs holds ", bases);
  return checked(coeffs, "coeffs", ScalarType::Float, {sets, gaussians, bases, 3}, like);
}

inline HarmonicsOperands check_spherical_harmonics(int64_t degree, const Tensor& directions, const Tensor& coeffs,
                                                   const std::optional<Tensor>& mask) {
  const int64_t images = checked_size(directions, "directions", 0, 3);
  const int64_t n = directions.size(1);
  checked_count(images, n);
  const int checked_degree = checked_int(degree, "degree", 0, kMaxDegree);
  return {
      checked_degree,
      checked(directions, "directions", ScalarType::Float, {images, n, 3}, directions),
      checked_coeffs(coeffs, images, n, checked_degree, directions),
      checked(mask, "mask", ScalarType::Bool, {images, n}, directions),
      images,
      n,
      coeffs.size(2),
      coeffs.size(0) == 1,
  };
}

struct HarmonicsGradients {
  Tensor v_colors;                // [I, N, 3], incoming
  Tensor v_directions, v_coeffs;  // outputs, like directions and coeffs
};

inline HarmonicsGradients check_spherical_harmonics_backward(const HarmonicsOperands& p, const Tensor& v_colors) {
  constexpr auto f32 = ScalarType::Float;
  return {checked(v_colors, "v_colors", f32, {p.images, p.gaussians, 3}, p.directions),
          empty_like_device({p.images, p.gaussians, 3}, f32, p.directions),
          empty_like_device({p.sets(), p.gaussians, p.bases, 3}, f32, p.directions)};
}

}  // namespace splat
