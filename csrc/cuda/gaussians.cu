// The operators on single Gaussians on CUDA: splat::find_finite, project and spherical_harmonics, with their backward
// passes. In one file, because every file adds seconds to a build, whatever it contains.
#include <tuple>

#include <torch/csrc/stable/library.h>

#include "../find_finite_operands.h"
#include "../project_operands.h"
#include "find_finite_kernel.cuh"
#include "launch.h"
#include "project_kernel.cuh"
#include "spherical_harmonics_kernel.cuh"

namespace splat {
namespace {

std::tuple<Tensor, Tensor> find_finite(Tensor means, std::optional<Tensor> quats, std::optional<Tensor> scales,
                                       std::optional<Tensor> covars, Tensor opacities, Tensor colors) {
  const LaunchContext launch(means);
  const FiniteOperands p = check_finite(means, quats, scales, covars, opacities, colors);
  auto* invalid = static_cast<unsigned long long*>(p.invalid.mutable_data_ptr());
  STD_CUDA_CHECK(cudaMemsetAsync(invalid, 0, sizeof *invalid, launch.stream()));
  launch.for_each(p.count(), kernels::find_finite, p.inputs(), p.finite.mutable_data_ptr<bool>(), invalid);
  return {p.finite, p.invalid};
}

kernels::ProjectInputs inputs(const ProjectOperands& p) {
  return {p.pointers(), p.harmonics(), p.viewmats.const_data_ptr<float>(), p.intrinsics.const_data_ptr<float>(),
          p.images, p.gaussians, p.settings};
}

std::tuple<Tensor, Tensor, Tensor, Tensor, Tensor, Tensor> project(
    Tensor means, std::optional<Tensor> quats, std::optional<Tensor> scales, std::optional<Tensor> covars,
    std::optional<Tensor> opacities, std::optional<Tensor> coeffs, Tensor viewmats, Tensor Ks, int64_t width,
    int64_t height, double eps2d, double near_plane, double far_plane, double radius_clip, bool antialiased,
    int64_t camera_model, int64_t degree) {
  const LaunchContext launch(means);
  const ProjectOperands p = check_project(means, quats, scales, covars, opacities, coeffs, viewmats, Ks, width, height,
                                          eps2d, near_plane, far_plane, radius_clip, antialiased, camera_model, degree);
  const ProjectResults r = allocate_project(p);
  launch.for_each(p.images * p.gaussians, kernels::project, inputs(p), r.pointers());
  return {r.radii, r.means2d, r.depths, r.conics, r.compensations, r.colors};
}

std::tuple<Tensor, Tensor, Tensor, Tensor, Tensor, Tensor> project_backward(
    Tensor means, std::optional<Tensor> quats, std::optional<Tensor> scales, std::optional<Tensor> covars,
    std::optional<Tensor> opacities, std::optional<Tensor> coeffs, Tensor viewmats, Tensor Ks, int64_t width,
    int64_t height, double eps2d, double near_plane, double far_plane, double radius_clip, bool antialiased,
    int64_t camera_model, int64_t degree, Tensor radii, Tensor conics, Tensor compensations, Tensor colors,
    Tensor v_means2d, Tensor v_depths, Tensor v_conics, Tensor v_compensations, Tensor v_colors) {
  const LaunchContext launch(means);
  const ProjectOperands p = check_project(means, quats, scales, covars, opacities, coeffs, viewmats, Ks, width, height,
                                          eps2d, near_plane, far_plane, radius_clip, antialiased, camera_model, degree);
  const ProjectGradients g = check_project_gradients(p, radii, conics, compensations, colors, v_means2d, v_depths,
                                                     v_conics, v_compensations, v_colors);
  constexpr int threads = kernels::kProjectBackwardThreads;
  const int64_t blocks = divide_up(p.gaussians, threads);
  const Tensor pose_sums = empty_like_device({blocks, p.images, kernels::kPoseEntries}, ScalarType::Float, p.means);
  float* sums = pose_sums.mutable_data_ptr<float>();
  launch.blocks(blocks, threads, kernels::project_backward, inputs(p), g.rows(), g.pointers(),
                g.v_coeffs.mutable_data_ptr<float>(), sums);
  launch.blocks(16 * p.images, kernels::kPoseThreads, kernels::sum_poses, static_cast<const float*>(sums), blocks,
                p.images, g.v_viewmats.mutable_data_ptr<float>());
  return {g.v_means, g.v_quats, g.v_scales, g.v_covars, g.v_coeffs, g.v_viewmats};
}

Tensor spherical_harmonics(int64_t degree, Tensor directions, Tensor coeffs, std::optional<Tensor> mask) {
  const LaunchContext launch(directions);
  const HarmonicsOperands p = check_spherical_harmonics(degree, directions, coeffs, mask);
  const Tensor colors = empty_like_device({p.images, p.gaussians, 3}, ScalarType::Float, p.directions);
  launch.for_each(p.images * p.gaussians, kernels::spherical_harmonics, p.inputs(), colors.mutable_data_ptr<float>());
  return colors;
}

std::tuple<Tensor, Tensor> spherical_harmonics_backward(int64_t degree, Tensor directions, Tensor coeffs,
                                                        std::optional<Tensor> mask, Tensor v_colors) {
  const LaunchContext launch(directions);
  const HarmonicsOperands p = check_spherical_harmonics(degree, directions, coeffs, mask);
  const HarmonicsGradients g = check_harmonics_gradients(p, v_colors);
  launch.for_each(p.sets() * p.gaussians, kernels::spherical_harmonics_backward, p.inputs(),
                  g.v_colors.const_data_ptr<float>(), g.v_directions.mutable_data_ptr<float>(),
                  g.v_coeffs.mutable_data_ptr<float>());
  return {g.v_directions, g.v_coeffs};
}

}  // namespace
}  // namespace splat

STABLE_TORCH_LIBRARY_IMPL(splat, CUDA, m) {
  m.impl("find_finite", TORCH_BOX(&splat::find_finite));
  m.impl("project", TORCH_BOX(&splat::project));
  m.impl("project_backward", TORCH_BOX(&splat::project_backward));
  m.impl("spherical_harmonics", TORCH_BOX(&splat::spherical_harmonics));
  m.impl("spherical_harmonics_backward", TORCH_BOX(&splat::spherical_harmonics_backward));
}
