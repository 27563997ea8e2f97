// splat::project on CUDA.
#include <torch/csrc/stable/library.h>

#include "launch.h"
#include "project_kernel.cuh"

namespace splat {
namespace {

std::tuple<Tensor, Tensor, Tensor, Tensor, Tensor> project(Tensor means, Tensor quats, Tensor scales,
                                                           std::optional<Tensor> opacities, Tensor viewmats, Tensor Ks,
                                                           int64_t width, int64_t height, double eps2d,
                                                           double near_plane, double far_plane, double radius_clip,
                                                           bool antialiased) {
  const Launch launch(means);
  const ProjectOperands p = check_project(means, quats, scales, opacities, viewmats, Ks, width, height, eps2d,
                                          near_plane, far_plane, radius_clip, antialiased);
  const kernels::ProjectInputs in = {p.means.const_data_ptr<float>(),    p.quats.const_data_ptr<float>(),
                                     p.scales.const_data_ptr<float>(),   data_or_null<float>(p.opacities),
                                     p.viewmats.const_data_ptr<float>(), p.intrinsics.const_data_ptr<float>(),
                                     p.images,                           p.gaussians,
                                     p.settings};
  const kernels::ProjectOutputs out = {p.radii.mutable_data_ptr<int32_t>(), p.means2d.mutable_data_ptr<float>(),
                                       p.depths.mutable_data_ptr<float>(), p.conics.mutable_data_ptr<float>(),
                                       p.compensations.mutable_data_ptr<float>()};
  launch.for_each(p.images * p.gaussians, kernels::project, in, out);
  return {p.radii, p.means2d, p.depths, p.conics, p.compensations};
}

}  // namespace
}  // namespace splat

STABLE_TORCH_LIBRARY_IMPL(splat, CUDA, m) { m.impl("project", TORCH_BOX(&splat::project)); }
