// What splat::spherical_harmonics and its backward pass do for one Gaussian, on arrays of the operator's shapes.
//
// Shapes: I images, N Gaussians, K coefficients per channel. A row is image * N + Gaussian.
#pragma once

#include "spherical_harmonics_backward.h"

namespace splat {

struct HarmonicsInputs {
  const float *directions, *coeffs;  // [I, N, 3], [1 or I, N, K, 3]
  const bool* mask;                  // [I, N] or null
  int64_t images, gaussians, bases;  // I, N, K >= base_count(degree)
  bool shared_coeffs;                // coeffs holds one set for all images
  int degree;                        // 0 to kMaxDegree
};

// The number of sets of coefficients, counted for each Gaussian.
SPLAT_HD int64_t set_count(const HarmonicsInputs& in) { return (in.shared_coeffs ? 1 : in.images) * in.gaussians; }

// Writes row `row` of colors [I, N, 3].
SPLAT_HD void harmonics_row(const HarmonicsInputs& in, int64_t row, float* colors) {
  float* color = colors + 3 * row;
  if (in.mask != nullptr && !in.mask[row]) {
    color[0] = color[1] = color[2] = 0.0f;
    return;
  }
  const int64_t set = in.shared_coeffs ? row % in.gaussians : row;
  spherical_harmonics_color(in.degree, in.bases, in.directions + 3 * row, in.coeffs + 3 * in.bases * set, color);
}

// The gradients of set `set`, for all images that share it, in their order: v_coeffs is shaped like the
// coefficients, v_colors and v_directions are [I, N, 3]. Masked rows get 0.
SPLAT_HD void harmonics_set_backward(const HarmonicsInputs& in, int64_t set, const float* v_colors,
                                     float* v_directions, float* v_coeffs) {
  const float* coeffs = in.coeffs + 3 * in.bases * set;
  float* v_set = v_coeffs + 3 * in.bases * set;
  bool add_up = false;
  for (int64_t image = 0; image < (in.shared_coeffs ? in.images : 1); ++image) {
    const int64_t row = set + image * in.gaussians;
    if (in.mask != nullptr && !in.mask[row]) {
      for (int c = 0; c < 3; ++c) v_directions[3 * row + c] = 0.0f;
      continue;
    }
    spherical_harmonics_color_backward(in.degree, in.bases, in.directions + 3 * row, coeffs, v_colors + 3 * row, add_up,
                                       v_directions + 3 * row, v_set);
    add_up = true;
  }
  clear_coeffs(v_set, add_up ? base_count(in.degree) : 0, in.bases);
}

}  // namespace splat
