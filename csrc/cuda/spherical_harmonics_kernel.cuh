#pragma once

#include "../math/spherical_harmonics_backward.h"

namespace splat {
namespace kernels {

struct HarmonicsInputs {
  const float *directions, *coeffs;  // [I, N, 3], [1 or I, N, bases, 3]
  const bool* mask;                  // [I, N] or null
  int64_t images, gaussians, bases;
  bool shared_coeffs;  // coeffs holds one set for all images
  int degree;
};

// One thread per image and Gaussian; colors [I, N, 3]. Preconditions: contiguous arrays of the shapes above,
// images * gaussians < 2^31, base_count(degree) <= bases.
__global__ void spherical_harmonics(HarmonicsInputs in, float* colors) {
  const int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i >= in.images * in.gaussians) return;
  float* color = colors + 3 * i;
  if (in.mask != nullptr && !in.mask[i]) {
    color[0] = color[1] = color[2] = 0.0f;
    return;
  }
  const int64_t set = in.shared_coeffs ? i % in.gaussians : i;
  spherical_harmonics_color(in.degree, in.bases, in.directions + 3 * i, in.coeffs + 3 * in.bases * set, color);
}

// One thread per set of coefficients, for all images that share it in their order: no atomics. v_colors and v_directions
// [I, N, 3], v_coeffs like coeffs. Preconditions as above.
__global__ void spherical_harmonics_backward(HarmonicsInputs in, const float* v_colors, float* v_directions,
                                             float* v_coeffs) {
  const int64_t set = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (set >= (in.shared_coeffs ? 1 : in.images) * in.gaussians) return;
  harmonics_set_backward(in.degree, in.bases, in.directions, in.coeffs + 3 * in.bases * set, in.mask, v_colors, set,
                         in.gaussians, in.shared_coeffs ? in.images : 1, v_directions,
                         v_coeffs + 3 * in.bases * set);
}

}  // namespace kernels
}  // namespace splat
