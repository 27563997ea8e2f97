// Arguments, checked and contiguous, and outputs, allocated, of project and project_backward, on the CPU and on CUDA.
//
// Shapes: I images, N Gaussians.
#pragma once

#include "checks.h"
#include "math/projection_backward.h"

namespace splat {

struct ProjectOperands {
  Tensor means;                                      // [N, 3]
  std::optional<Tensor> quats, scales;               // [N, 4], [N, 3], or neither
  std::optional<Tensor> covars;                      // [N, 6], where the two are not
  std::optional<Tensor> opacities;                   // [N]
  Tensor viewmats, intrinsics;                       // [I, 4, 4], [I, 3, 3]
  int64_t images, gaussians;
  ProjectionSettings settings;

  Gaussians pointers() const {
    const auto pointer = [](const std::optional<Tensor>& tensor) {
      return tensor ? tensor->const_data_ptr<float>() : nullptr;
    };
    return {means.const_data_ptr<float>(), pointer(quats), pointer(scales), pointer(covars), pointer(opacities)};
  }
};

inline ProjectOperands check_project(const Tensor& means, const std::optional<Tensor>& quats,
                                     const std::optional<Tensor>& scales, const std::optional<Tensor>& covars,
                                     const std::optional<Tensor>& opacities, const Tensor& viewmats,
                                     const Tensor& intrinsics, int64_t width, int64_t height, double eps2d,
                                     double near_plane, double far_plane, double radius_clip, bool antialiased,
                                     int64_t camera_model) {
  const int64_t n = checked_size(means, "means", 0, 2);
  const int64_t images = checked_size(viewmats, "viewmats", 0, 3);
  checked_count(images, n);
  STD_TORCH_CHECK(eps2d >= 0.0, "eps2d must not be negative; found ", eps2d);
  STD_TORCH_CHECK(quats.has_value() == scales.has_value() && quats.has_value() != covars.has_value(),
                  "a shape is quats and scales, or covars; found ", quats ? "quats, " : "no quats, ",
                  scales ? "scales, " : "no scales, ", covars ? "covars" : "no covars");
  const auto checked_optional = [&](const std::optional<Tensor>& tensor, const char* name,
                                    std::initializer_list<int64_t> shape) -> std::optional<Tensor> {
    if (!tensor) return std::nullopt;
    return checked(*tensor, name, ScalarType::Float, shape, means);
  };
  return {
      checked(means, "means", ScalarType::Float, {n, 3}, means),
      checked_optional(quats, "quats", {n, 4}),
      checked_optional(scales, "scales", {n, 3}),
      checked_optional(covars, "covars", {n, 6}),
      checked_optional(opacities, "opacities", {n}),
      checked(viewmats, "viewmats", ScalarType::Float, {images, 4, 4}, means),
      checked(intrinsics, "Ks", ScalarType::Float, {images, 3, 3}, means),
      images,
      n,
      {checked_int(width, "width", 1, kMaxImageSide), checked_int(height, "height", 1, kMaxImageSide),
       static_cast<float>(eps2d), static_cast<float>(near_plane), static_cast<float>(far_plane),
       static_cast<float>(radius_clip), antialiased, checked_int(camera_model, "camera_model", kPinhole, kFisheye)},
  };
}

struct ProjectResults {
  Tensor radii;                                    // int32 [I, N, 2]
  Tensor means2d, depths, conics, compensations;  // [I, N, 2], [I, N], [I, N, 3], [I, N]
};

inline ProjectResults allocate_project(const ProjectOperands& p) {
  constexpr auto f32 = ScalarType::Float;
  const int64_t images = p.images, n = p.gaussians;
  return {empty_like_device({images, n, 2}, ScalarType::Int, p.means),
          empty_like_device({images, n, 2}, f32, p.means), empty_like_device({images, n}, f32, p.means),
          empty_like_device({images, n, 3}, f32, p.means), empty_like_device({images, n}, f32, p.means)};
}

struct ProjectGradients {
  Tensor radii, conics, compensations;                        // what project gave
  Tensor v_means2d, v_depths, v_conics, v_compensations;      // incoming, like its results
  Tensor v_means, v_quats, v_scales, v_covars, v_viewmats;  // outputs; of size 0 where there is no such input

  GaussianGradients pointers() const {
    return {v_means.mutable_data_ptr<float>(), v_quats.mutable_data_ptr<float>(), v_scales.mutable_data_ptr<float>(),
            v_covars.mutable_data_ptr<float>()};
  }
};

inline ProjectGradients check_project_gradients(const ProjectOperands& p, const Tensor& radii, const Tensor& conics,
                                                const Tensor& compensations, const Tensor& v_means2d,
                                                const Tensor& v_depths, const Tensor& v_conics,
                                                const Tensor& v_compensations) {
  constexpr auto f32 = ScalarType::Float;
  const int64_t images = p.images, n = p.gaussians;
  const int64_t axes = p.covars ? 0 : n, whole = p.covars ? n : 0;
  const Tensor& like = p.means;
  return {checked(radii, "radii", ScalarType::Int, {images, n, 2}, like),
          checked(conics, "conics", f32, {images, n, 3}, like),
          checked(compensations, "compensations", f32, {images, n}, like),
          checked(v_means2d, "v_means2d", f32, {images, n, 2}, like),
          checked(v_depths, "v_depths", f32, {images, n}, like),
          checked(v_conics, "v_conics", f32, {images, n, 3}, like),
          checked(v_compensations, "v_compensations", f32, {images, n}, like),
          empty_like_device({n, 3}, f32, like),
          empty_like_device({axes, 4}, f32, like),
          empty_like_device({axes, 3}, f32, like),
          empty_like_device({whole, 6}, f32, like),
          empty_like_device({images, 4, 4}, f32, like)};
}

}  // namespace splat
