// Real spherical harmonics up to degree 4, in the order and signs of the 3D Gaussian splatting papers
// (polynomials: Sloan 2013, "Efficient Spherical Harmonic Evaluation", JCGT 2(2), appendix A).
#pragma once

#include "vec.h"

namespace splat {

constexpr int kMaxDegree = 4;
constexpr int kMaxBases = (kMaxDegree + 1) * (kMaxDegree + 1);

SPLAT_HD int base_count(int degree) { return (degree + 1) * (degree + 1); }

// A direction of length 1; the zero vector stays zero.
SPLAT_HD Vec3 normalized(const float* direction) {
  const float norm2 = direction[0] * direction[0] + direction[1] * direction[1] + direction[2] * direction[2];
  const float inverse = norm2 > 0.0f ? 1.0f / square_root(norm2) : 0.0f;
  return {direction[0] * inverse, direction[1] * inverse, direction[2] * inverse};
}

// Writes the first base_count(degree) values of the basis at the unit direction d. Precondition: 0 <= degree <= 4.
SPLAT_HD void spherical_harmonics_basis(int degree, const Vec3& d, float* basis) {
  const float x = d.x, y = d.y, z = d.z;
  basis[0] = 0.28209479177387814f;
  if (degree < 1) return;
  basis[1] = -0.4886025119029199f * y;
  basis[2] = 0.4886025119029199f * z;
  basis[3] = -0.4886025119029199f * x;
  if (degree < 2) return;
  const float xx = x * x, yy = y * y, zz = z * z;
  const float xy = x * y, yz = y * z, xz = x * z;
  basis[4] = 1.0925484305920792f * xy;
  basis[5] = -1.0925484305920792f * yz;
  basis[6] = 0.9461746957575601f * zz - 0.31539156525252005f;
  basis[7] = -1.0925484305920792f * xz;
  basis[8] = 0.5462742152960396f * (xx - yy);
  if (degree < 3) return;
  const float five = 5.0f * zz - 1.0f;
  basis[9] = -0.5900435899266435f * y * (3.0f * xx - yy);
  basis[10] = 2.890611442640554f * xy * z;
  basis[11] = -0.4570457994644658f * y * five;
  basis[12] = 0.3731763325901154f * z * (5.0f * zz - 3.0f);
  basis[13] = -0.4570457994644658f * x * five;
  basis[14] = 1.445305721320277f * z * (xx - yy);
  basis[15] = -0.5900435899266435f * x * (xx - 3.0f * yy);
  if (degree < 4) return;
  const float seven = 7.0f * zz;
  basis[16] = 2.5033429417967046f * xy * (xx - yy);
  basis[17] = -1.7701307697799304f * yz * (3.0f * xx - yy);
  basis[18] = 0.9461746957575601f * xy * (seven - 1.0f);
  basis[19] = -0.6690465435572892f * yz * (seven - 3.0f);
  basis[20] = 0.10578554691520431f * ((35.0f * zz - 30.0f) * zz + 3.0f);
  basis[21] = -0.6690465435572892f * xz * (seven - 3.0f);
  basis[22] = 0.47308734787878004f * (xx - yy) * (seven - 1.0f);
  basis[23] = -1.7701307697799304f * xz * (xx - 3.0f * yy);
  basis[24] = 0.6258357354491761f * (xx * (xx - 3.0f * yy) - yy * (3.0f * xx - yy));
}

// coeffs [>= base_count(degree), 3] -> color [3].
SPLAT_HD void spherical_harmonics_color(int degree, const float* direction, const float* coeffs, float* color) {
  float basis[kMaxBases];
  spherical_harmonics_basis(degree, normalized(direction), basis);
  float red = 0.0f, green = 0.0f, blue = 0.0f;
  for (int k = 0; k < base_count(degree); ++k) {
    red += basis[k] * coeffs[3 * k];
    green += basis[k] * coeffs[3 * k + 1];
    blue += basis[k] * coeffs[3 * k + 2];
  }
  color[0] = red;
  color[1] = green;
  color[2] = blue;
}

}  // namespace splat
