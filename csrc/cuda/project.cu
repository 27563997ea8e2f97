// splat::project and splat::project_backward on CUDA.
#include <tuple>

#include <torch/csrc/stable/library.h>

#include "../project_operands.h"
#include "launch.h"
#include "project_kernel.cuh"

namespace splat {
namespace {

kernels::ProjectInputs inputs(const ProjectOperands& p) {
  return {p.pointers(), p.viewmats.const_data_ptr<float>(), p.intrinsics.const_data_ptr<float>(), p.images,
          p.gaussians, p.settings};
}

std::tuple<Tensor, Tensor, Tensor, Tensor, Tensor> project(Tensor means, std::optional<Tensor> quats,
                                                           std::optional<Tensor> scales, std::optional<Tensor> covars,
                                                           std::optional<Tensor> opacities, Tensor viewmats, Tensor Ks,
                                                           int64_t width, int64_t height, double eps2d,
                                                           double near_plane, double far_plane, double radius_clip,
                                                           bool antialiased, int64_t camera_model) {
  const Launch launch(means);
  const ProjectOperands p = check_project(means, quats, scales, covars, opacities, viewmats, Ks, width, height, eps2d,
                                          near_plane, far_plane, radius_clip, antialiased, camera_model);
  const ProjectResults r = allocate_project(p);
  const kernels::ProjectOutputs out = {r.radii.mutable_data_ptr<int32_t>(), r.means2d.mutable_data_ptr<float>(),
                                       r.depths.mutable_data_ptr<float>(), r.conics.mutable_data_ptr<float>(),
                                       r.compensations.mutable_data_ptr<float>()};
  launch.for_each(p.images * p.gaussians, kernels::project, inputs(p), out);
  return {r.radii, r.means2d, r.depths, r.conics, r.compensations};
}

std::tuple<Tensor, Tensor, Tensor, Tensor, Tensor> project_backward(
    Tensor means, std::optional<Tensor> quats, std::optional<Tensor> scales, std::optional<Tensor> covars,
    std::optional<Tensor> opacities, Tensor viewmats, Tensor Ks, int64_t width, int64_t height, double eps2d,
    double near_plane, double far_plane, double radius_clip, bool antialiased, int64_t camera_model, Tensor radii,
    Tensor conics, Tensor compensations, Tensor v_means2d, Tensor v_depths, Tensor v_conics, Tensor v_compensations) {
  const Launch launch(means);
  const ProjectOperands p = check_project(means, quats, scales, covars, opacities, viewmats, Ks, width, height, eps2d,
                                          near_plane, far_plane, radius_clip, antialiased, camera_model);
  const ProjectGradients g = check_project_gradients(p, radii, conics, compensations, v_means2d, v_depths, v_conics,
                                                     v_compensations);
  const kernels::ProjectGradientInputs gradients = {
      g.radii.const_data_ptr<int32_t>(),         g.conics.const_data_ptr<float>(),
      g.compensations.const_data_ptr<float>(),   g.v_means2d.const_data_ptr<float>(),
      g.v_depths.const_data_ptr<float>(),        g.v_conics.const_data_ptr<float>(),
      g.v_compensations.const_data_ptr<float>()};
  const int64_t blocks = (p.gaussians + kThreads - 1) / kThreads;
  const Tensor pose_sums = empty_like_device({blocks, p.images, kernels::kPoseEntries}, ScalarType::Float, p.means);
  float* sums = pose_sums.mutable_data_ptr<float>();
  launch.for_each(p.gaussians, kernels::project_backward, inputs(p), gradients, g.pointers(), sums);
  launch.blocks(16 * p.images, kernels::kPoseThreads, kernels::sum_poses, static_cast<const float*>(sums), blocks,
                p.images, g.v_viewmats.mutable_data_ptr<float>());
  return {g.v_means, g.v_quats, g.v_scales, g.v_covars, g.v_viewmats};
}

}  // namespace
}  // namespace splat

STABLE_TORCH_LIBRARY_IMPL(splat, CUDA, m) {
  m.impl("project", TORCH_BOX(&splat::project));
  m.impl("project_backward", TORCH_BOX(&splat::project_backward));
}
