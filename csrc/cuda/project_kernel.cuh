#pragma once

#include "../math/project_rows.h"
#include "host_functions.h"
#include "warp.cuh"

namespace splat {
namespace kernels {

// One thread per image and Gaussian. Adds to *invalid the rows that are left out because a number is not finite.
// Preconditions: contiguous arrays of the shapes above, I N < 2^31, whole warps.
__global__ void project(ProjectInputs in, ProjectionRows out, unsigned long long* invalid) {
  const int64_t row = thread_index();
  bool finite = true;
  if (row < in.images * in.count) {
    const int64_t image = row / in.count, i = row % in.count;
    const CameraParameters camera = load_camera(in.viewmats + 16 * image, in.intrinsics + 9 * image);
    finite = project_row(camera, in, row, i, out);
  }
  const unsigned int bad = __ballot_sync(kAllLanes, !finite);
  if (threadIdx.x % kWarp == 0 && bad != 0) atomicAdd(invalid, static_cast<unsigned long long>(__popc(bad)));
}

// Small blocks, because each thread uses many registers: three of these fit on a multiprocessor, but not two larger
// ones.
constexpr int kProjectBackwardThreads = 128;
constexpr int kProjectBackwardWarps = kProjectBackwardThreads / kWarp;

// Thread k < kPoseEntries gets the sum of values[k] over the block. All threads of the block must call it, in full
// warps.
static __device__ __forceinline__ float sum_block(const float* values, float (*warp_sums)[kPoseEntries]) {
  const int thread = static_cast<int>(threadIdx.x);
  for (int k = 0; k < kPoseEntries; ++k) {
    const float sum = warp_sum(values[k]);
    if (thread % kWarp == 0) warp_sums[thread / kWarp][k] = sum;
  }
  __syncthreads();
  float sum = 0.0f;
  for (int warp = 0; thread < kPoseEntries && warp < kProjectBackwardWarps; ++warp) sum += warp_sums[warp][thread];
  __syncthreads();
  return sum;
}

// One thread per Gaussian, for all images in their order: no atomics, and the same sums every time. Each block's sums
// of the gradients by the poses go to pose_sums [blocks, I, 12], if they are wanted; v_coeffs is shaped like the
// coefficients. Preconditions as above, and blocks of kProjectBackwardThreads.
template <bool kPoses>
__global__ void __launch_bounds__(kProjectBackwardThreads, 3)
    project_backward(ProjectInputs in, ProjectionGradientRows gradients, GaussianGradients out, float* v_coeffs,
                     float* pose_sums) {
  __shared__ float warp_sums[kProjectBackwardWarps][kPoseEntries];
  const int64_t i = thread_index();
  // Threads beyond the last Gaussian take part in the sums.
  const bool exists = i < in.count;
  const GaussianParameters gaussian = gaussian_at(in.gaussians, exists ? i : 0);
  GaussianGradient sums = {};
  for (int64_t image = 0; image < in.images; ++image) {
    PoseGradient pose = {};
    if (exists) {
      const CameraParameters camera = load_camera(in.viewmats + 16 * image, in.intrinsics + 9 * image);
      project_row_backward(camera, in.settings, gaussian, in.harmonics, gradients, image * in.count + i, i, sums, pose,
                           v_coeffs);
    }
    if constexpr (kPoses) {
      const Vec3* r = pose.rotation.rows;
      float values[kPoseEntries] = {r[0].x, r[0].y, r[0].z, pose.translation.x, r[1].x, r[1].y,
                                    r[1].z, pose.translation.y, r[2].x, r[2].y, r[2].z, pose.translation.z};
      const float sum = sum_block(values, warp_sums);
      if (threadIdx.x < kPoseEntries) {
        pose_sums[(blockIdx.x * in.images + image) * kPoseEntries + threadIdx.x] = sum;
      }
    }
  }
  if (exists) finish_backward(gaussian, in.harmonics, sums, i, out, v_coeffs);
}

constexpr int kPoseThreads = 128;

// One block of kPoseThreads per entry of a viewmat, blockIdx.x = 16 image + entry: the sum over pose_sums [blocks, I,
// 12], in a fixed order. v_viewmats [I, 4, 4]; their last rows are 0.
__global__ void sum_poses(const float* pose_sums, int64_t blocks, int64_t images, float* v_viewmats) {
  __shared__ double partial[kPoseThreads];
  const int64_t image = blockIdx.x / 16;
  const int entry = blockIdx.x % 16;
  double sum = 0.0;
  if (entry < kPoseEntries) {
    for (int64_t block = threadIdx.x; block < blocks; block += kPoseThreads) {
      sum += pose_sums[(block * images + image) * kPoseEntries + entry];
    }
  }
  partial[threadIdx.x] = sum;
  for (int step = kPoseThreads / 2; step > 0; step /= 2) {
    __syncthreads();
    if (static_cast<int>(threadIdx.x) < step) partial[threadIdx.x] += partial[threadIdx.x + step];
  }
  if (threadIdx.x == 0) v_viewmats[blockIdx.x] = static_cast<float>(partial[0]);
}

}  // namespace kernels
}  // namespace splat
