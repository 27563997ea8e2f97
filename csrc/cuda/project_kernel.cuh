#pragma once

#include "../math/projection.h"

namespace splat {
namespace kernels {

struct ProjectInputs {
  const float *means, *quats, *scales;  // [N, 3], [N, 4], [N, 3]
  const float* opacities;               // [N] or null
  const float *viewmats, *intrinsics;   // [I, 4, 4], [I, 3, 3]
  int64_t images, gaussians;
  ProjectionSettings settings;
};

struct ProjectOutputs {
  int32_t* radii;                                        // [I, N, 2]
  float *means2d, *depths, *conics, *compensations;  // [I, N, 2], [I, N], [I, N, 3], [I, N]
};

// One thread per image and Gaussian. Preconditions: contiguous arrays of the shapes above, images * gaussians < 2^31.
__global__ void project(ProjectInputs in, ProjectOutputs out) {
  const int64_t row = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (row >= in.images * in.gaussians) return;
  const int64_t image = row / in.gaussians, i = row % in.gaussians;
  const Camera camera = load_camera(in.viewmats + 16 * image, in.intrinsics + 9 * image);
  Projection g;
  project_gaussian(camera, in.settings, in.means + 3 * i, in.quats + 4 * i, in.scales + 3 * i,
                   in.opacities == nullptr ? nullptr : in.opacities + i, g);
  out.radii[2 * row] = g.radius_x;
  out.radii[2 * row + 1] = g.radius_y;
  out.means2d[2 * row] = g.x;
  out.means2d[2 * row + 1] = g.y;
  out.depths[row] = g.depth;
  out.conics[3 * row] = g.a;
  out.conics[3 * row + 1] = g.b;
  out.conics[3 * row + 2] = g.c;
  out.compensations[row] = g.compensation;
}

}  // namespace kernels
}  // namespace splat
