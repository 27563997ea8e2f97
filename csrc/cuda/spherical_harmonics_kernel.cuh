#pragma once

#include "../math/spherical_harmonics_rows.h"
#include "warp.cuh"

namespace splat {
namespace kernels {

// One thread per image and Gaussian; colors [I, N, 3]. Preconditions: contiguous arrays of the shapes in
// spherical_harmonics_rows.h, I N < 2^31.
__global__ void spherical_harmonics(HarmonicsInputs in, float* colors) {
  const int64_t row = thread_index();
  if (row < in.images * in.gaussians) harmonics_row(in, row, colors);
}

// One thread per set of coefficients, for all images that share it in their order: no atomics. v_colors and
// v_directions [I, N, 3], v_coeffs shaped like coeffs. Preconditions as above.
__global__ void spherical_harmonics_backward(HarmonicsInputs in, const float* v_colors, float* v_directions,
                                             float* v_coeffs) {
  const int64_t set = thread_index();
  if (set < set_count(in)) harmonics_set_backward(in, set, v_colors, v_directions, v_coeffs);
}

}  // namespace kernels
}  // namespace splat
