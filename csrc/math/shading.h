// The colour of a Gaussian as one camera sees it, max(0, 1/2 + sum_k Y_k(d / |d|) coeffs_k), with d from the camera's
// centre to the mean (Kerbl et al. 2023, "3D Gaussian Splatting", section 4); and its vector-Jacobian product.
#pragma once

#include "projection_backward.h"
#include "spherical_harmonics_backward.h"

namespace splat {

// The inverse, by Cramer's rule, transposed. The matrix of a viewmat need not be orthonormal.
SPLAT_HD Mat3 inverse_transposed(const Mat3& m) {
  const Vec3 x = cross(m.rows[1], m.rows[2]), y = cross(m.rows[2], m.rows[0]), z = cross(m.rows[0], m.rows[1]);
  const float inverse = 1.0f / dot(m.rows[0], x);
  return {{scaled(inverse, x), scaled(inverse, y), scaled(inverse, z)}};
}

SPLAT_HD Vec3 camera_centre(const CameraParameters& camera, const Mat3& inverse_transposed) {
  return scaled(-1.0f, multiply(camera.translation, inverse_transposed));
}

// coeffs [bases, 3] -> color [3]; returns whether it is finite, before the maximum. Negative values become -0, so that shade_backward can tell them from a colour that is
// exactly 0: the gradient of that one passes, as through torch.clamp_min, so that a black Gaussian can learn.
// Preconditions: 0 <= degree <= kMaxDegree, base_count(degree) <= bases.
SPLAT_HD bool shade(const CameraParameters& camera, int degree, int64_t bases, const float* mean, const float* coeffs,
                    float* color) {
  const Vec3 eye = camera_centre(camera, inverse_transposed(camera.rotation));
  const float direction[3] = {mean[0] - eye.x, mean[1] - eye.y, mean[2] - eye.z};
  spherical_harmonics_color(degree, bases, direction, coeffs, color);
  const bool finite = all_finite(color, 3);
  for (int c = 0; c < 3; ++c) color[c] = color[c] + 0.5f < 0.0f ? -0.0f : color[c] + 0.5f;
  return finite;
}

// Adds to `sums` and `pose`; adds to v_coeffs [base_count(degree), 3] if `add_up`, otherwise sets them. `color` is the
// result of shade.
SPLAT_HD void shade_backward(const CameraParameters& camera, int degree, int64_t bases, const float* mean,
                             const float* coeffs, const float* color, const float* v_color, bool add_up,
                             GaussianGradient& sums, PoseGradient& pose, float* v_coeffs) {
  const Mat3 inverse = inverse_transposed(camera.rotation);
  const Vec3 eye = camera_centre(camera, inverse);
  const float direction[3] = {mean[0] - eye.x, mean[1] - eye.y, mean[2] - eye.z};
  float v_unclamped[3], v_direction[3];
  for (int c = 0; c < 3; ++c) {
    const bool passes = color[c] >= 0.0f && float_bits(color[c]) != float_bits(-0.0f);
    v_unclamped[c] = passes ? v_color[c] : 0.0f;
  }
  spherical_harmonics_color_backward(degree, bases, direction, coeffs, v_unclamped, add_up, v_direction, v_coeffs);

  const Vec3 v = {v_direction[0], v_direction[1], v_direction[2]};
  sums.mean = add(sums.mean, v);
  // The centre is -R^-1 t, so it moves by -R^-1 (dR centre + dt), and the direction moves the opposite way.
  const Vec3 by_translation = multiply(inverse, v);
  pose.translation = add(pose.translation, by_translation);
  pose.rotation = {{add(pose.rotation.rows[0], scaled(by_translation.x, eye)),
                    add(pose.rotation.rows[1], scaled(by_translation.y, eye)),
                    add(pose.rotation.rows[2], scaled(by_translation.z, eye))}};
}

}  // namespace splat
