// The operators on single Gaussians on the CPU: splat::find_finite, project and spherical_harmonics, with their
// backward passes.
#include <atomic>
#include <tuple>
#include <vector>

#include <torch/csrc/stable/library.h>

#include "../find_finite_operands.h"
#include "../project_operands.h"
#include "parallel.h"

namespace splat {
namespace {

std::tuple<Tensor, Tensor> find_finite(Tensor means, std::optional<Tensor> quats, std::optional<Tensor> scales,
                                       std::optional<Tensor> covars, Tensor opacities, Tensor colors) {
  const FiniteOperands p = check_finite(means, quats, scales, covars, opacities, colors);
  const FiniteInputs in = p.inputs();
  bool* finite = p.finite.mutable_data_ptr<bool>();
  std::atomic<int64_t> invalid{0};
  torch::stable::parallel_for(0, p.count(), 4096, [&](int64_t begin, int64_t end) {
    int64_t found = 0;
    for (int64_t i = begin; i < end; ++i) {
      finite[i] = is_finite_gaussian(in, i);
      found += !finite[i];
    }
    invalid += found;
  });
  *p.invalid.mutable_data_ptr<int64_t>() = invalid;
  return {p.finite, p.invalid};
}

std::vector<CameraParameters> load_cameras(const ProjectOperands& p) {
  const float* viewmats = p.viewmats.const_data_ptr<float>();
  const float* intrinsics = p.intrinsics.const_data_ptr<float>();
  std::vector<CameraParameters> cameras;
  cameras.reserve(p.images);
  for (int64_t image = 0; image < p.images; ++image) {
    cameras.push_back(load_camera(viewmats + 16 * image, intrinsics + 9 * image));
  }
  return cameras;
}

std::tuple<Tensor, Tensor, Tensor, Tensor, Tensor, Tensor> project(
    Tensor means, std::optional<Tensor> quats, std::optional<Tensor> scales, std::optional<Tensor> covars,
    std::optional<Tensor> opacities, std::optional<Tensor> coeffs, Tensor viewmats, Tensor Ks, int64_t width,
    int64_t height, double eps2d, double near_plane, double far_plane, double radius_clip, bool antialiased,
    int64_t camera_model, int64_t degree) {
  const ProjectOperands p = check_project(means, quats, scales, covars, opacities, coeffs, viewmats, Ks, width, height,
                                          eps2d, near_plane, far_plane, radius_clip, antialiased, camera_model, degree);
  const ProjectResults r = allocate_project(p);
  const GaussianParameters gaussians = p.pointers();
  const Harmonics harmonics = p.harmonics();
  const ProjectionRows out = r.pointers();

  const std::vector<CameraParameters> cameras = load_cameras(p);
  for (int64_t image = 0; image < p.images; ++image) {
    const CameraParameters& camera = cameras[image];
    torch::stable::parallel_for(0, p.gaussians, 1024, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        project_row(camera, p.settings, gaussians, harmonics, image * p.gaussians + i, i, out);
      }
    });
  }
  return {r.radii, r.means2d, r.depths, r.conics, r.compensations, r.colors};
}

// The number of Gaussians whose gradients by the camera one thread sums. It does not depend on the number of threads,
// so that sums are always made in the same order.
constexpr int64_t kChunk = 1024;

// A sum over one chunk, or over all chunks.
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

std::tuple<Tensor, Tensor, Tensor, Tensor, Tensor, Tensor> project_backward(
    Tensor means, std::optional<Tensor> quats, std::optional<Tensor> scales, std::optional<Tensor> covars,
    std::optional<Tensor> opacities, std::optional<Tensor> coeffs, Tensor viewmats, Tensor Ks, int64_t width,
    int64_t height, double eps2d, double near_plane, double far_plane, double radius_clip, bool antialiased,
    int64_t camera_model, int64_t degree, Tensor radii, Tensor conics, Tensor compensations, Tensor colors,
    Tensor v_means2d, Tensor v_depths, Tensor v_conics, Tensor v_compensations, Tensor v_colors) {
  const ProjectOperands p = check_project(means, quats, scales, covars, opacities, coeffs, viewmats, Ks, width, height,
                                          eps2d, near_plane, far_plane, radius_clip, antialiased, camera_model, degree);
  const ProjectGradients g = check_project_gradients(p, radii, conics, compensations, colors, v_means2d, v_depths,
                                                     v_conics, v_compensations, v_colors);
  const GaussianParameters gaussians = p.pointers();
  const Harmonics harmonics = p.harmonics();
  const ProjectionGradientRows in = g.rows();
  const GaussianGradients out = g.pointers();
  float* const v_coeffs = g.v_coeffs.mutable_data_ptr<float>();

  const std::vector<CameraParameters> cameras = load_cameras(p);
  const int64_t chunks = divide_up(p.gaussians, kChunk);
  std::vector<PoseSum> poses(chunks * p.images);
  parallel_dynamic(chunks, 1, [&](int64_t, int64_t chunk) {
    PoseSum* const pose_sums = poses.data() + chunk * p.images;
    const int64_t last = chunk * kChunk + kChunk;
    for (int64_t i = chunk * kChunk; i < (last < p.gaussians ? last : p.gaussians); ++i) {
      const GaussianParameters gaussian = gaussian_at(gaussians, i);
      GaussianGradient sums = {};
      for (int64_t image = 0; image < p.images; ++image) {
        PoseGradient pose;
        if (project_row_backward(cameras[image], p.settings, gaussian, harmonics, in, image * p.gaussians + i, i, sums,
                                 pose, v_coeffs)) {
          pose_sums[image].add(pose);
        }
      }
      finish_backward(gaussian, harmonics, sums, i, out, v_coeffs);
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
  return {g.v_means, g.v_quats, g.v_scales, g.v_covars, g.v_coeffs, g.v_viewmats};
}

Tensor spherical_harmonics(int64_t degree, Tensor directions, Tensor coeffs, std::optional<Tensor> mask) {
  const HarmonicsOperands p = check_spherical_harmonics(degree, directions, coeffs, mask);
  const Tensor result = empty_like_device({p.images, p.gaussians, 3}, ScalarType::Float, p.directions);
  const HarmonicsInputs in = p.inputs();
  float* colors = result.mutable_data_ptr<float>();
  torch::stable::parallel_for(0, p.images * p.gaussians, 1024, [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) harmonics_row(in, row, colors);
  });
  return result;
}

std::tuple<Tensor, Tensor> spherical_harmonics_backward(int64_t degree, Tensor directions, Tensor coeffs,
                                                        std::optional<Tensor> mask, Tensor v_colors) {
  const HarmonicsOperands p = check_spherical_harmonics(degree, directions, coeffs, mask);
  const HarmonicsGradients g = check_harmonics_gradients(p, v_colors);
  const HarmonicsInputs in = p.inputs();
  const float* v_color = g.v_colors.const_data_ptr<float>();
  float* v_directions = g.v_directions.mutable_data_ptr<float>();
  float* v_coeffs = g.v_coeffs.mutable_data_ptr<float>();
  // One thread makes all sums of a set, over the images that share it, in their order.
  torch::stable::parallel_for(0, set_count(in), 256, [&](int64_t begin, int64_t end) {
    for (int64_t set = begin; set < end; ++set) harmonics_set_backward(in, set, v_color, v_directions, v_coeffs);
  });
  return {g.v_directions, g.v_coeffs};
}

}  // namespace
}  // namespace splat

STABLE_TORCH_LIBRARY_IMPL(splat, CPU, m) {
  m.impl("find_finite", TORCH_BOX(&splat::find_finite));
  m.impl("project", TORCH_BOX(&splat::project));
  m.impl("project_backward", TORCH_BOX(&splat::project_backward));
  m.impl("spherical_harmonics", TORCH_BOX(&splat::spherical_harmonics));
  m.impl("spherical_harmonics_backward", TORCH_BOX(&splat::spherical_harmonics_backward));
}
