// Arguments, checked and contiguous, and outputs, allocated, of project and project_backward, on the CPU and on CUDA.
//
// Shapes: I images, N Gaussians, K coefficients per channel, D channels.
#pragma once

#include "spherical_harmonics_operands.h"
#include "../math/project_rows.h"

namespace splat {

struct ProjectOperands {
  Tensor means;                                      // [N, 3]
  std::optional<Tensor> quats, scales;               // [N, 4], [N, 3], or neither is given
  std::optional<Tensor> covars;                      // [N, 6], if those are not given
  std::optional<Tensor> opacities;                   // [N]
  std::optional<Tensor> coeffs;                      // [1 or I, N, K, 3]
  std::optional<Tensor> direct;                      // colours [1 or I, N, D], if coeffs are not given
  Tensor viewmats, intrinsics;                       // [I, 4, 4], [I, 3, 3]
  int64_t images, gaussians;
  ProjectionSettings settings;
  int degree;

  GaussianParameters pointers() const {
    return {means.const_data_ptr<float>(), data_or_null<float>(quats), data_or_null<float>(scales),
            data_or_null<float>(covars), data_or_null<float>(opacities)};
  }

  Harmonics harmonics() const {
    if (!coeffs) return {};
    return {coeffs->const_data_ptr<float>(), coeffs->size(2), degree, coeffs->size(0) == 1};
  }

  DirectColors direct_colors() const {
    if (!direct) return {};
    return {direct->const_data_ptr<float>(), direct->size(2), direct->size(0) == 1};
  }

  ProjectInputs inputs() const {
    return {pointers(), harmonics(), direct_colors(), viewmats.const_data_ptr<float>(),
            intrinsics.const_data_ptr<float>(), images, gaussians, settings};
  }
};

inline ProjectOperands check_project(const Tensor& means, const std::optional<Tensor>& quats,
                                     const std::optional<Tensor>& scales, const std::optional<Tensor>& covars,
                                     const std::optional<Tensor>& opacities,
                                     const std::optional<Tensor>& coeffs, const Tensor& viewmats,
                                     const Tensor& intrinsics, int64_t width, int64_t height, double eps2d,
                                     double near_plane, double far_plane, double radius_clip, bool antialiased,
                                     int64_t camera_model, int64_t degree) {
  const int64_t n = checked_size(means, "means", 0, 2);
  const int64_t images = checked_size(viewmats, "viewmats", 0, 3);
  checked_count(images, n);
  STD_TORCH_CHECK(eps2d >= 0.0, "eps2d must not be negative; found ", eps2d);
  STD_TORCH_CHECK(quats.has_value() == scales.has_value() && quats.has_value() != covars.has_value(),
                  "either quats and scales or covars are required; found ", quats ? "quats, " : "no quats, ",
                  scales ? "scales, " : "no scales, ", covars ? "covars" : "no covars");
  const int checked_degree = checked_int(degree, "degree", 0, kMaxDegree);
  constexpr auto f32 = ScalarType::Float;
  return {
      checked(means, "means", f32, {n, 3}, means),
      checked(quats, "quats", f32, {n, 4}, means),
      checked(scales, "scales", f32, {n, 3}, means),
      checked(covars, "covars", f32, {n, 6}, means),
      checked(opacities, "opacities", f32, {n}, means),
      coeffs ? std::optional(checked_coeffs(*coeffs, images, n, checked_degree, means)) : std::nullopt,
      std::nullopt,
      checked(viewmats, "viewmats", f32, {images, 4, 4}, means),
      checked(intrinsics, "Ks", f32, {images, 3, 3}, means),
      images,
      n,
      {checked_int(width, "width", 1, kMaxImageSide), checked_int(height, "height", 1, kMaxImageSide),
       static_cast<float>(eps2d), static_cast<float>(near_plane), static_cast<float>(far_plane),
       static_cast<float>(radius_clip), antialiased,
       checked_int(camera_model, "camera_model", 0, kCameraModelCount - 1)},
      checked_degree,
  };
}

// Direct colours are one set for all images, or one for each.
inline ProjectOperands with_direct(ProjectOperands p, const std::optional<Tensor>& direct) {
  if (!direct) return p;
  STD_TORCH_CHECK(!p.coeffs, "either coeffs or direct can be given; found both");
  const int64_t sets = checked_size(*direct, "direct", 0, 3);
  STD_TORCH_CHECK(sets == 1 || sets == p.images, "direct must hold 1 set of colours or one for each of the ", p.images,
                  " images; found ", sets);
  p.direct = checked(*direct, "direct", ScalarType::Float, {sets, p.gaussians, kAny}, p.means);
  return p;
}

struct ProjectResults {
  Tensor radii;                                   // int32 [I, N, 2]
  Tensor means2d, depths, conics, compensations;  // [I, N, 2], [I, N], [I, N, 3], [I, N]
  Tensor colors;                                  // [I, N, 3], or [0, N, 3] without coefficients
  Tensor invalid;                                 // int64 []

  ProjectionRows pointers() const {
    return {radii.mutable_data_ptr<int32_t>(), means2d.mutable_data_ptr<float>(), depths.mutable_data_ptr<float>(),
            conics.mutable_data_ptr<float>(), compensations.mutable_data_ptr<float>(),
            colors.mutable_data_ptr<float>()};
  }
};

inline ProjectResults allocate_project(const ProjectOperands& p) {
  constexpr auto f32 = ScalarType::Float;
  const int64_t images = p.images, n = p.gaussians;
  return {empty_like_device({images, n, 2}, ScalarType::Int, p.means),
          empty_like_device({images, n, 2}, f32, p.means),
          empty_like_device({images, n}, f32, p.means),
          empty_like_device({images, n, 3}, f32, p.means),
          empty_like_device({images, n}, f32, p.means),
          empty_like_device({p.coeffs ? images : 0, n, 3}, f32, p.means),
          empty_like_device({}, ScalarType::Long, p.means)};
}

struct ProjectGradients {
  Tensor radii, conics, compensations, colors;                          // the results of project
  // Incoming, like its results, if those have gradients.
  std::optional<Tensor> v_means2d, v_depths, v_conics, v_compensations, v_colors;
  Tensor v_means, v_quats, v_scales, v_covars, v_coeffs, v_viewmats;  // outputs; size 0 if there is no such input

  ProjectionGradientRows rows() const {
    return {radii.const_data_ptr<int32_t>(),      conics.const_data_ptr<float>(),
            compensations.const_data_ptr<float>(), colors.const_data_ptr<float>(),
            data_or_null<float>(v_means2d),        data_or_null<float>(v_depths),
            data_or_null<float>(v_conics),         data_or_null<float>(v_compensations),
            data_or_null<float>(v_colors)};
  }

  GaussianGradients pointers() const {
    return {v_means.mutable_data_ptr<float>(), v_quats.mutable_data_ptr<float>(), v_scales.mutable_data_ptr<float>(),
            v_covars.mutable_data_ptr<float>()};
  }

  float* poses() const { return v_viewmats.numel() == 0 ? nullptr : v_viewmats.mutable_data_ptr<float>(); }
};

inline ProjectGradients check_project_backward(const ProjectOperands& p, const Tensor& radii, const Tensor& conics,
                                                const Tensor& compensations, const Tensor& colors,
                                                const std::optional<Tensor>& v_means2d,
                                                const std::optional<Tensor>& v_depths,
                                                const std::optional<Tensor>& v_conics,
                                                const std::optional<Tensor>& v_compensations,
                                                const std::optional<Tensor>& v_colors, bool poses) {
  constexpr auto f32 = ScalarType::Float;
  const int64_t images = p.images, n = p.gaussians, shaded = p.coeffs ? images : 0;
  const int64_t axes = p.covars ? 0 : n, whole = p.covars ? n : 0;
  const Tensor& like = p.means;
  return {checked(radii, "radii", ScalarType::Int, {images, n, 2}, like),
          checked(conics, "conics", f32, {images, n, 3}, like),
          checked(compensations, "compensations", f32, {images, n}, like),
          checked(colors, "colors", f32, {shaded, n, 3}, like),
          checked(v_means2d, "v_means2d", f32, {images, n, 2}, like),
          checked(v_depths, "v_depths", f32, {images, n}, like),
          checked(v_conics, "v_conics", f32, {images, n, 3}, like),
          checked(v_compensations, "v_compensations", f32, {images, n}, like),
          checked(v_colors, "v_colors", f32, {shaded, n, 3}, like),
          empty_like_device({n, 3}, f32, like),
          empty_like_device({axes, 4}, f32, like),
          empty_like_device({axes, 3}, f32, like),
          empty_like_device({whole, 6}, f32, like),
          p.coeffs ? empty_like_device({p.coeffs->size(0), n, p.coeffs->size(2), 3}, f32, like)
                   : empty_like_device({0}, f32, like),
          empty_like_device({poses ? images : 0, 4, 4}, f32, like)};
}

}  // namespace splat
