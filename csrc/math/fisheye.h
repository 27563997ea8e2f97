// The equidistant fisheye camera: a point at the angle theta from the axis is seen at the distance theta from the
// principal point (Kannala and Brandt 2006, "A Generic Camera Model and Calibration Method for Conventional,
// Wide-Angle, and Fish-Eye Lenses", equation 4; gsplat 1.5.3's fisheye).
//
// With rho^2 = x^2 + y^2 the image of (x, y, z) is (x g, y g), where g = theta / rho. Everything else follows from g
// and its derivatives by rho^2. Each is smooth on the axis, but a quotient of two numbers that vanish there. gsplat
// adds 1e-7 to avoid 0 / 0, which loses all digits; here a series is used near the axis.
#pragma once

#include "camera.h"

namespace splat {

struct Fisheye {
  float g;  // theta / rho
  float h;  // 2 dg / d rho^2
  float k;  // 2 dh / d rho^2
  float i;  // 1 / (rho^2 + z^2)
};

// The angle of (x, y) from the x axis, for y >= 0. The library function's results differ between machines.
SPLAT_HD float angle_from_axis(float x, float y) {
  constexpr float kPi = 3.14159265358979f;
  constexpr float kTanPi8 = 0.414213562f;
  const float across = absolute(x);
  const bool steep = y > across;
  float m = steep ? across / y : y / across;  // 0 to 1
  const bool wide = m > kTanPi8;
  if (wide) m = (m - 1.0f) / (m + 1.0f);  // arctan m = pi / 4 + arctan((m - 1) / (m + 1))
  // arctan m = m - m^3 / 3 + m^5 / 5 - ..., |m| <= tan(pi / 8)
  const float m2 = m * m;
  float sum = 0.0f;
  for (int n = 8; n >= 0; --n) sum = 1.0f / static_cast<float>(2 * n + 1) - m2 * sum;
  float angle = m * sum;
  if (wide) angle += 0.25f * kPi;
  if (steep) angle = 0.5f * kPi - angle;
  return x < 0.0f ? kPi - angle : angle;
}

SPLAT_HD Fisheye fisheye(const Vec3& centre) {
  const float z = centre.z, rho2 = centre.x * centre.x + centre.y * centre.y;
  const float i = 1.0f / (rho2 + z * z);
  constexpr float kSeries = 0.05f;
  if (z > 0.0f && rho2 < kSeries * z * z) {
    // g = (1 / z) sum (-q)^n / (2n + 1) with q = rho^2 / z^2, the series of the arctangent; h and k term by term.
    const float inverse_z = 1.0f / z;
    const float q = rho2 * inverse_z * inverse_z;
    float g = 0.0f, h = 0.0f, k = 0.0f;
    for (int n = 6; n >= 0; --n) {
      const float m = static_cast<float>(n);
      g = 1.0f / (2.0f * m + 1.0f) - q * g;
      h = -(2.0f * m + 2.0f) / (2.0f * m + 3.0f) - q * h;
      k = 2.0f * (m + 1.0f) * (2.0f * m + 4.0f) / (2.0f * m + 5.0f) - q * k;
    }
    const float inverse_z2 = inverse_z * inverse_z;
    return {inverse_z * g, inverse_z * inverse_z2 * h, inverse_z * inverse_z2 * inverse_z2 * k, i};
  }
  const float rho = square_root(rho2);
  const float g = angle_from_axis(z, rho) / rho;
  // g and h are homogeneous in (rho, z), of degrees -1 and -3, and dg/dz = -i, dh/dz = 2 i^2: Euler's theorem.
  const float h = (z * i - g) / rho2;
  return {g, h, -(3.0f * h + 2.0f * z * i * i) / rho2, i};
}

// The rows of the derivative of the image by (x, y, z), for focal lengths of 1.
SPLAT_HD void fisheye_jacobian(const Vec3& centre, const Fisheye& f, Vec3& row_x, Vec3& row_y) {
  const float mixed = centre.x * centre.y * f.h;
  row_x = {f.g + centre.x * centre.x * f.h, mixed, -centre.x * f.i};
  row_y = {mixed, f.g + centre.y * centre.y * f.h, -centre.y * f.i};
}

// The second derivatives of x g by (x, y, z), times v; of y g with x and y swapped.
SPLAT_HD Vec3 fisheye_curvature(float x, float y, float z, const Fisheye& f, const Vec3& v) {
  const float i2 = 2.0f * f.i * f.i;
  const Sym3 second = {x * (3.0f * f.h + x * x * f.k), y * (f.h + x * x * f.k), x * x * i2 - f.i,
                       x * (f.h + y * y * f.k),        x * y * i2,              x * z * i2};
  return multiply(second, v);
}

SPLAT_HD Linearization linearize_fisheye(const CameraParameters& camera, const ProjectionSettings&, const Vec3& centre) {
  const Fisheye f = fisheye(centre);
  Vec3 row_x, row_y;
  fisheye_jacobian(centre, f, row_x, row_y);
  return {camera.fx * (centre.x * f.g) + camera.cx, camera.fy * (centre.y * f.g) + camera.cy,
          scaled(camera.fx, row_x), scaled(camera.fy, row_y)};
}

SPLAT_HD Vec3 linearize_fisheye_backward(const CameraParameters& camera, const ProjectionSettings&, const Vec3& centre,
                                         const Linearization& at, float v_x, float v_y, const Vec3& v_row_x,
                                         const Vec3& v_row_y) {
  const Fisheye f = fisheye(centre);
  const Vec3 by_x = fisheye_curvature(centre.x, centre.y, centre.z, f, v_row_x);
  const Vec3 swapped = fisheye_curvature(centre.y, centre.x, centre.z, f, {v_row_y.y, v_row_y.x, v_row_y.z});
  const Vec3 by_y = {swapped.y, swapped.x, swapped.z};
  return add(combined(v_x, at.row_x, v_y, at.row_y), combined(camera.fx, by_x, camera.fy, by_y));
}

}  // namespace splat
