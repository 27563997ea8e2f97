// The launches of the kernels for single Gaussians.
#include "grid_launch.h"
#include "host_functions.h"
#include "project_kernel.cuh"
#include "spherical_harmonics_kernel.cuh"

namespace splat {

cudaError_t launch_project(cudaStream_t stream, const ProjectInputs& in, const ProjectionRows& out,
                           unsigned long long* invalid) {
  SPLAT_RETURN_ON_ERROR(cudaMemsetAsync(invalid, 0, sizeof *invalid, stream));
  return launch_each(stream, in.images * in.count, kernels::project, in, out, invalid);
}

int64_t pose_sum_count(int64_t gaussians) { return divide_up(gaussians, kernels::kProjectBackwardThreads); }

cudaError_t launch_project_backward(cudaStream_t stream, const ProjectInputs& in,
                                    const ProjectionGradientRows& gradients, const GaussianGradients& out,
                                    float* v_coeffs, float* pose_sums, float* v_viewmats) {
  const int64_t blocks = pose_sum_count(in.count);
  const auto kernel = v_viewmats == nullptr ? kernels::project_backward<false> : kernels::project_backward<true>;
  SPLAT_RETURN_ON_ERROR(
      launch_blocks(stream, blocks, kernels::kProjectBackwardThreads, kernel, in, gradients, out, v_coeffs, pose_sums));
  if (v_viewmats == nullptr) return cudaSuccess;
  return launch_blocks(stream, 16 * in.images, kernels::kPoseThreads, kernels::sum_poses, pose_sums, blocks, in.images,
                       v_viewmats);
}

cudaError_t launch_spherical_harmonics(cudaStream_t stream, const HarmonicsInputs& in, float* colors) {
  return launch_each(stream, in.images * in.gaussians, kernels::spherical_harmonics, in, colors);
}

cudaError_t launch_spherical_harmonics_backward(cudaStream_t stream, const HarmonicsInputs& in, const float* v_colors,
                                                float* v_directions, float* v_coeffs) {
  return launch_each(stream, set_count(in), kernels::spherical_harmonics_backward, in, v_colors, v_directions, v_coeffs);
}

}  // namespace splat
