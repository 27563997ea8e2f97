// What splat::project does for one image and one Gaussian, on arrays of the operator's shapes.
//
// Shapes: I images, N Gaussians, K coefficients per channel, D channels. A row is image * N + Gaussian.
#pragma once

#include "shading.h"

namespace splat {

// Coefficients of spherical harmonics, for all images together or for each.
struct Harmonics {
  const float* coeffs;  // [1 or I, N, K, 3]; null if there are no colours
  int64_t bases;        // K >= base_count(degree)
  int degree;           // 0 to kMaxDegree
  bool shared;          // one set for all images
};

SPLAT_HD int64_t coeffs_offset(const Harmonics& h, int64_t row, int64_t i) { return 3 * h.bases * (h.shared ? i : row); }

// Colours that are blended as they are, for all images together or for each. A Gaussian with one that is not finite is
// left out.
struct DirectColors {
  const float* values;  // [1 or I, N, D]; null if there are none
  int64_t channels;     // D
  bool shared;          // one set for all images
};

struct ProjectInputs {
  GaussianParameters gaussians;        // N
  Harmonics harmonics;                 // of N Gaussians, or of I N
  DirectColors colors;                 // null if there are harmonics
  const float *viewmats, *intrinsics;  // [I, 4, 4], [I, 3, 3]
  int64_t images, count;               // I, N
  ProjectionSettings settings;
};

struct ProjectionRows {
  int32_t* radii;                                    // [I, N, 2]
  float *means2d, *depths, *conics, *compensations;  // [I, N, 2], [I, N], [I, N, 3], [I, N]
  float* colors;                                     // [I, N, 3], or null if there are none
};

// Whether an image shows the Gaussian of a row: the radii [I, N, 2] of one that it does not are 0.
SPLAT_HD bool is_shown(const int32_t* radii, int64_t row) { return radii[2 * row] > 0 && radii[2 * row + 1] > 0; }

SPLAT_HD void store_projection(const Projection& g, int64_t row, const ProjectionRows& out) {
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

// Whether Gaussian `i`, which row `row` shows, has finite colours; writes the one that harmonics give.
SPLAT_HD bool has_finite_color(const CameraParameters& camera, const ProjectInputs& in,
                               const GaussianParameters& gaussian, int64_t row, int64_t i, const ProjectionRows& out) {
  const Harmonics& harmonics = in.harmonics;
  if (harmonics.coeffs != nullptr) {
    return shade(camera, harmonics.degree, harmonics.bases, gaussian.means,
                 harmonics.coeffs + coeffs_offset(harmonics, row, i), out.colors + 3 * row);
  }
  const DirectColors& direct = in.colors;
  const int64_t first = direct.channels * (direct.shared ? i : row);
  return direct.values == nullptr || all_finite(direct.values + first, direct.channels);
}

// Writes row `row`, which is one of Gaussian `i`: zeros if the image does not show it. Returns false if it is left out
// because a number is not finite: one of its parameters, or of the colours that the image would show.
SPLAT_HD bool project_row(const CameraParameters& camera, const ProjectInputs& in, int64_t row, int64_t i,
                          const ProjectionRows& out) {
  const GaussianParameters gaussian = gaussian_at(in.gaussians, i);
  Projection g;
  bool finite;
  const bool seen = project_gaussian(camera, in.settings, gaussian, g, finite);
  store_projection(g, row, out);
  if (seen) finite = has_finite_color(camera, in, gaussian, row, i, out);
  if (seen && !finite) store_projection({}, row, out);
  if (in.harmonics.coeffs != nullptr && !(seen && finite)) set_zero(out.colors + 3 * row, 3);
  return finite;
}

struct ProjectionGradientRows {
  const int32_t* radii;                          // results of project, as above
  const float *conics, *compensations, *colors;
  const float *v_means2d, *v_depths, *v_conics;  // gradients with respect to those; null for 0
  const float *v_compensations, *v_colors;
};

SPLAT_HD float entry_or_zero(const float* values, int64_t i) { return values == nullptr ? 0.0f : values[i]; }

// The gradients that Gaussian `i` gets through row `row`: adds to `sums`, sets `pose`, and writes to v_coeffs, which is
// shaped like the coefficients; for coefficients that images share it adds. Must be called for the rows of a Gaussian
// in their order. Returns false, without setting `pose`, if the Gaussian is not visible in the image.
SPLAT_HD bool project_row_backward(const CameraParameters& camera, const ProjectionSettings& settings,
                                   const GaussianParameters& gaussian, const Harmonics& harmonics,
                                   const ProjectionGradientRows& in, int64_t row, int64_t i, GaussianGradient& sums,
                                   PoseGradient& pose, float* v_coeffs) {
  Shape shape;
  const bool seen = is_shown(in.radii, row) && load_shape(gaussian, shape);
  const bool add_up = harmonics.shared && sums.seen;
  if (seen) {
    const float* conic = in.conics + 3 * row;
    project_gaussian_backward(camera, settings, gaussian.means, shape,
                              {conic[0], conic[1], conic[2], in.compensations[row]},
                              {entry_or_zero(in.v_means2d, 2 * row), entry_or_zero(in.v_means2d, 2 * row + 1),
                               entry_or_zero(in.v_depths, row), entry_or_zero(in.v_conics, 3 * row),
                               entry_or_zero(in.v_conics, 3 * row + 1), entry_or_zero(in.v_conics, 3 * row + 2),
                               entry_or_zero(in.v_compensations, row)},
                              sums, pose);
  }
  if (harmonics.coeffs == nullptr) return seen;

  const int64_t offset = coeffs_offset(harmonics, row, i);
  const bool shaded = seen && in.v_colors != nullptr;
  if (shaded) {
    shade_backward(camera, harmonics.degree, harmonics.bases, gaussian.means, harmonics.coeffs + offset,
                   in.colors + 3 * row, in.v_colors + 3 * row, add_up, sums, pose, v_coeffs + offset);
  }
  // Clear the coefficients of higher degrees, or all of them if the Gaussian is not visible.
  if (!add_up && (seen || !harmonics.shared)) {
    clear_coeffs(v_coeffs + offset, shaded ? base_count(harmonics.degree) : 0, harmonics.bases);
  }
  return seen;
}

// Must be called after all rows of Gaussian `i`.
SPLAT_HD void finish_backward(const GaussianParameters& gaussian, const Harmonics& harmonics,
                              const GaussianGradient& sums, int64_t i, const GaussianGradients& out, float* v_coeffs) {
  store_gradient(gaussian, sums, i, out);
  if (harmonics.coeffs != nullptr && harmonics.shared && !sums.seen) {
    clear_coeffs(v_coeffs + 3 * harmonics.bases * i, 0, harmonics.bases);
  }
}

}  // namespace splat
