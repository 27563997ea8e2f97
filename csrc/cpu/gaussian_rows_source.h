// Source of project_rows and project_rows_backward; lanes.h says how it is compiled.
#include "gaussian_rows.h"

namespace splat {
namespace SPLAT_ISA {
namespace {

SPLAT_HD void add_pose(const PoseGradient& v, PoseSum& sum) {
  const float by_row[3] = {v.translation.x, v.translation.y, v.translation.z};
  for (int row = 0; row < 3; ++row) {
    sum.rows[4 * row] += v.rotation.rows[row].x;
    sum.rows[4 * row + 1] += v.rotation.rows[row].y;
    sum.rows[4 * row + 2] += v.rotation.rows[row].z;
    sum.rows[4 * row + 3] += by_row[row];
  }
}

}  // namespace

int64_t project_rows(const CameraParameters& seen_by, const ProjectInputs& inputs, int64_t image, int64_t begin,
                     int64_t end, const ProjectionRows& out) {
  // Copies, which nothing that is written can change: what depends on them alone is computed once.
  const CameraParameters camera = seen_by;
  const ProjectInputs in = inputs;
  int64_t invalid = 0;
  for (int64_t i = begin; i < end; ++i) invalid += !project_row(camera, in, image * in.count + i, i, out);
  return invalid;
}

void project_rows_backward(const CameraParameters* cameras, const ProjectInputs& in,
                           const ProjectionGradientRows& gradients, int64_t begin, int64_t end,
                           const GaussianGradients& out, float* v_coeffs, PoseSum* pose_sums) {
  for (int64_t i = begin; i < end; ++i) {
    const GaussianParameters gaussian = gaussian_at(in.gaussians, i);
    GaussianGradient sums = {};
    for (int64_t image = 0; image < in.images; ++image) {
      PoseGradient pose;
      const bool seen = project_row_backward(cameras[image], in.settings, gaussian, in.harmonics, gradients,
                                             image * in.count + i, i, sums, pose, v_coeffs);
      if (seen && pose_sums != nullptr) add_pose(pose, pose_sums[image]);
    }
    finish_backward(gaussian, in.harmonics, sums, i, out, v_coeffs);
  }
}

}  // namespace SPLAT_ISA
}  // namespace splat
