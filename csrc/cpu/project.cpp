// splat::project and splat::project_backward on the CPU.
#include <tuple>
#include <vector>

#include <torch/csrc/stable/library.h>

#include "../math/projection_backward.h"
#include "../project_operands.h"
#include "parallel.h"

namespace splat {
namespace {

std::vector<Camera> load_cameras(const ProjectOperands& p) {
  const float* viewmats = p.viewmats.const_data_ptr<float>();
  const float* intrinsics = p.intrinsics.const_data_ptr<float>();
  std::vector<Camera> cameras;
  cameras.reserve(p.images);
  for (int64_t image = 0; image < p.images; ++image) {
    cameras.push_back(load_camera(viewmats + 16 * image, intrinsics + 9 * image));
  }
  return cameras;
}

std::tuple<Tensor, Tensor, Tensor, Tensor, Tensor> project(Tensor means, std::optional<Tensor> quats,
                                                           std::optional<Tensor> scales, std::optional<Tensor> covars,
                                                           std::optional<Tensor> opacities, Tensor viewmats, Tensor Ks,
                                                           int64_t width, int64_t height, double eps2d,
                                                           double near_plane, double far_plane, double radius_clip,
                                                           bool antialiased, int64_t camera_model) {
  const ProjectOperands p = check_project(means, quats, scales, covars, opacities, viewmats, Ks, width, height, eps2d,
                                          near_plane, far_plane, radius_clip, antialiased, camera_model);
  const ProjectResults results = allocate_project(p);
  const Gaussians gaussians = p.pointers();
  int32_t* radii = results.radii.mutable_data_ptr<int32_t>();
  float* out_means = results.means2d.mutable_data_ptr<float>();
  float* out_depths = results.depths.mutable_data_ptr<float>();
  float* out_conics = results.conics.mutable_data_ptr<float>();
  float* out_compensations = results.compensations.mutable_data_ptr<float>();

  const std::vector<Camera> cameras = load_cameras(p);
  for (int64_t image = 0; image < p.images; ++image) {
    const Camera& camera = cameras[image];
    torch::stable::parallel_for(0, p.gaussians, 1024, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        Projection g;
        project_gaussian(camera, p.settings, gaussian_at(gaussians, i), g);
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
  return {results.radii, results.means2d, results.depths, results.conics, results.compensations};
}

// Gaussians whose gradients by the camera are summed by one thread. That sums are made in the same order whatever the
// number of threads, this does not depend on it.
constexpr int64_t kChunk = 1024;

// A sum over one chunk, or over all.
struct PoseSum {
  double rows[12] = {};  // of the viewmat's first three rows, row-major

  void add(const PoseGradient& v) {
    const float by_row[3] = {v.translation.x, v.translation.y, v.translation.z};
    for (int row = 0; row < 3; ++row) {
      rows[4 * row] += v.rotation.rows[row].x;
      rows[4 * row + 1] += v.rotation.rows[row].y;
      rows[4 * row + 2] += v.rotation.rows[row].z;
      rows[4 * row + 3] += by_row[row];
    }
  }
};

std::tuple<Tensor, Tensor, Tensor, Tensor, Tensor> project_backward(
    Tensor means, std::optional<Tensor> quats, std::optional<Tensor> scales, std::optional<Tensor> covars,
    std::optional<Tensor> opacities, Tensor viewmats, Tensor Ks, int64_t width, int64_t height, double eps2d,
    double near_plane, double far_plane, double radius_clip, bool antialiased, int64_t camera_model, Tensor radii,
    Tensor conics, Tensor compensations, Tensor v_means2d, Tensor v_depths, Tensor v_conics, Tensor v_compensations) {
  const ProjectOperands p = check_project(means, quats, scales, covars, opacities, viewmats, Ks, width, height, eps2d,
                                          near_plane, far_plane, radius_clip, antialiased, camera_model);
  const ProjectGradients g = check_project_gradients(p, radii, conics, compensations, v_means2d, v_depths, v_conics,
                                                     v_compensations);
  const Gaussians gaussians = p.pointers();
  const int32_t* radius = g.radii.const_data_ptr<int32_t>();
  const float* conic = g.conics.const_data_ptr<float>();
  const float* compensation = g.compensations.const_data_ptr<float>();
  const float* v_mean2d = g.v_means2d.const_data_ptr<float>();
  const float* v_depth = g.v_depths.const_data_ptr<float>();
  const float* v_conic = g.v_conics.const_data_ptr<float>();
  const float* v_compensation = g.v_compensations.const_data_ptr<float>();
  const GaussianGradients out = g.pointers();

  const std::vector<Camera> cameras = load_cameras(p);
  const int64_t chunks = (p.gaussians + kChunk - 1) / kChunk;
  std::vector<PoseSum> poses(chunks * p.images);
  parallel_dynamic(chunks, 1, [&](int64_t, int64_t chunk) {
    PoseSum* const pose_sums = poses.data() + chunk * p.images;
    const int64_t last = chunk * kChunk + kChunk;
    for (int64_t i = chunk * kChunk; i < (last < p.gaussians ? last : p.gaussians); ++i) {
      const Gaussians gaussian = gaussian_at(gaussians, i);
      GaussianGradient sums = {};
      Shape shape;
      const bool has_shape = load_shape(gaussian, shape);
      for (int64_t image = 0; has_shape && image < p.images; ++image) {
        const int64_t row = image * p.gaussians + i;
        if (radius[2 * row] <= 0 || radius[2 * row + 1] <= 0) continue;
        PoseGradient pose;
        project_gaussian_backward(
            cameras[image], p.settings, gaussian.means, shape,
            {conic[3 * row], conic[3 * row + 1], conic[3 * row + 2], compensation[row]},
            {v_mean2d[2 * row], v_mean2d[2 * row + 1], v_depth[row], v_conic[3 * row], v_conic[3 * row + 1],
             v_conic[3 * row + 2], v_compensation[row]},
            sums, pose);
        pose_sums[image].add(pose);
      }
      store_gradient(gaussian, sums, i, out);
    }
  });

  float* v_viewmat = g.v_viewmats.mutable_data_ptr<float>();
  for (int64_t image = 0; image < p.images; ++image) {
    PoseSum total;
    for (int64_t chunk = 0; chunk < chunks; ++chunk) {
      for (int k = 0; k < 12; ++k) total.rows[k] += poses[chunk * p.images + image].rows[k];
    }
    for (int k = 0; k < 16; ++k) v_viewmat[16 * image + k] = k < 12 ? static_cast<float>(total.rows[k]) : 0.0f;
  }
  return {g.v_means, g.v_quats, g.v_scales, g.v_covars, g.v_viewmats};
}

}  // namespace
}  // namespace splat

STABLE_TORCH_LIBRARY_IMPL(splat, CPU, m) {
  m.impl("project", TORCH_BOX(&splat::project));
  m.impl("project_backward", TORCH_BOX(&splat::project_backward));
}
