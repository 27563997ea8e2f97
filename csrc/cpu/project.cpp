// splat::project on the CPU.
#include <torch/csrc/stable/library.h>

#include "../operators.h"

namespace splat {
namespace {

std::tuple<Tensor, Tensor, Tensor, Tensor, Tensor> project(Tensor means, Tensor quats, Tensor scales,
                                                           std::optional<Tensor> opacities, Tensor viewmats, Tensor Ks,
                                                           int64_t width, int64_t height, double eps2d,
                                                           double near_plane, double far_plane, double radius_clip,
                                                           bool antialiased) {
  const ProjectOperands p = check_project(means, quats, scales, opacities, viewmats, Ks, width, height, eps2d,
                                          near_plane, far_plane, radius_clip, antialiased);
  const float* mean = p.means.const_data_ptr<float>();
  const float* quat = p.quats.const_data_ptr<float>();
  const float* scale = p.scales.const_data_ptr<float>();
  const float* opacity = data_or_null<float>(p.opacities);
  const float* viewmat = p.viewmats.const_data_ptr<float>();
  const float* intrinsic = p.intrinsics.const_data_ptr<float>();
  int32_t* radii = p.radii.mutable_data_ptr<int32_t>();
  float* out_means = p.means2d.mutable_data_ptr<float>();
  float* out_depths = p.depths.mutable_data_ptr<float>();
  float* out_conics = p.conics.mutable_data_ptr<float>();
  float* out_compensations = p.compensations.mutable_data_ptr<float>();

  for (int64_t image = 0; image < p.images; ++image) {
    const Camera camera = load_camera(viewmat + 16 * image, intrinsic + 9 * image);
    torch::stable::parallel_for(0, p.gaussians, 1024, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        Projection g;
        project_gaussian(camera, p.settings, mean + 3 * i, quat + 4 * i, scale + 3 * i,
                         opacity == nullptr ? nullptr : opacity + i, g);
        const int64_t row = image * p.gaussians + i;
        radii[2 * row] = g.radius_x;
        radii[2 * row + 1] = g.radius_y;
        out_means[2 * row] = g.x;
        out_means[2 * row + 1] = g.y;
        out_depths[row] = g.depth;
        out_conics[3 * row] = g.a;
        out_conics[3 * row + 1] = g.b;
        out_conics[3 * row + 2] = g.c;
        out_compensations[row] = g.compensation;
      }
    });
  }
  return {p.radii, p.means2d, p.depths, p.conics, p.compensations};
}

}  // namespace
}  // namespace splat

STABLE_TORCH_LIBRARY_IMPL(splat, CPU, m) { m.impl("project", TORCH_BOX(&splat::project)); }
