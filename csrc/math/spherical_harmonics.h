// Real spherical harmonics up to degree 4, in the order and signs of the 3D Gaussian splatting papers
// (polynomials: Sloan 2013, "Efficient Spherical Harmonic Evaluation", JCGT 2(2), appendix A).
#pragma once

#include "vec.h"

namespace splat {

constexpr int kMaxDegree = 4;

SPLAT_HD constexpr int base_count(int degree) { return (degree + 1) * (degree + 1); }

// Factors of the polynomials; harmonics that differ only by a rotation or a swap of axes share one.
namespace harmonics {
constexpr float k0 = 0.28209479177387814f;
constexpr float k1 = 0.4886025119029199f;
constexpr float k2Product = 1.0925484305920792f;  // xy, yz, xz
constexpr float k2Zonal = 0.9461746957575601f, k2ZonalConstant = 0.31539156525252005f;
constexpr float k2Difference = 0.5462742152960396f;  // xx - yy
constexpr float k3Sectoral = 0.5900435899266435f;
constexpr float k3Product = 2.890611442640554f;
constexpr float k3Order1 = 0.4570457994644658f;
constexpr float k3Zonal = 0.3731763325901154f;
constexpr float k3Difference = 1.445305721320277f;
constexpr float k4Product = 2.5033429417967046f;
constexpr float k4Order3 = 1.7701307697799304f;
constexpr float k4Order2Product = 0.9461746957575601f;
constexpr float k4Order1 = 0.6690465435572892f;
constexpr float k4Zonal = 0.10578554691520431f;
constexpr float k4Order2Difference = 0.47308734787878004f;
constexpr float k4Sectoral = 0.6258357354491761f;
}  // namespace harmonics

// One over the length of a direction; 0 for the zero vector, which stays zero that way.
SPLAT_HD float inverse_length(const float* direction) {
  const float norm2 = direction[0] * direction[0] + direction[1] * direction[1] + direction[2] * direction[2];
  return norm2 > 0.0f ? 1.0f / square_root(norm2) : 0.0f;
}

SPLAT_HD Vec3 normalized(const float* direction) {
  return scaled(inverse_length(direction), {direction[0], direction[1], direction[2]});
}

// The values of the basis at the unit direction d, base_count(kDegree) of them.
template <int kDegree>
SPLAT_HD void harmonics_basis(const Vec3& d, float* basis) {
  using namespace harmonics;
  const float x = d.x, y = d.y, z = d.z;
  basis[0] = k0;
  if constexpr (kDegree >= 1) {
    basis[1] = -k1 * y;
    basis[2] = k1 * z;
    basis[3] = -k1 * x;
  }
  const float xx = x * x, yy = y * y, zz = z * z;
  const float xy = x * y, yz = y * z, xz = x * z;
  if constexpr (kDegree >= 2) {
    basis[4] = k2Product * xy;
    basis[5] = -k2Product * yz;
    basis[6] = k2Zonal * zz - k2ZonalConstant;
    basis[7] = -k2Product * xz;
    basis[8] = k2Difference * (xx - yy);
  }
  if constexpr (kDegree >= 3) {
    const float five = 5.0f * zz - 1.0f;
    basis[9] = -k3Sectoral * y * (3.0f * xx - yy);
    basis[10] = k3Product * xy * z;
    basis[11] = -k3Order1 * y * five;
    basis[12] = k3Zonal * z * (5.0f * zz - 3.0f);
    basis[13] = -k3Order1 * x * five;
    basis[14] = k3Difference * z * (xx - yy);
    basis[15] = -k3Sectoral * x * (xx - 3.0f * yy);
  }
  if constexpr (kDegree >= 4) {
    const float seven = 7.0f * zz;
    basis[16] = k4Product * xy * (xx - yy);
    basis[17] = -k4Order3 * yz * (3.0f * xx - yy);
    basis[18] = k4Order2Product * xy * (seven - 1.0f);
    basis[19] = -k4Order1 * yz * (seven - 3.0f);
    basis[20] = k4Zonal * ((35.0f * zz - 30.0f) * zz + 3.0f);
    basis[21] = -k4Order1 * xz * (seven - 3.0f);
    basis[22] = k4Order2Difference * (xx - yy) * (seven - 1.0f);
    basis[23] = -k4Order3 * xz * (xx - 3.0f * yy);
    basis[24] = k4Sectoral * (xx * (xx - 3.0f * yy) - yy * (3.0f * xx - yy));
  }
}

// Coefficients are processed in groups of four bases, 12 floats. `wide`: their address is a multiple of 16, so that a
// GPU thread can move four floats at once; those of neighbouring threads are far away, so every memory access costs the
// same.
constexpr int kGroup = 4;

SPLAT_HD bool is_wide(const float* coeffs, int64_t bases) {
  return bases % kGroup == 0 && is_aligned(coeffs);
}

// Loads `count` <= kGroup bases.
SPLAT_HD void load_group(const float* coeffs, int count, bool wide, float* group) {
  if (wide && count == kGroup) {
    for (int i = 0; i < 3 * kGroup; i += 4) load_four(coeffs + i, group + i);
  } else {
    for (int i = 0; i < 3 * count; ++i) group[i] = coeffs[i];
  }
}

template <int kDegree>
SPLAT_HD void harmonics_color(const float* direction, const float* coeffs, bool wide, float* color) {
  constexpr int kCount = base_count(kDegree);
  float basis[kCount];
  harmonics_basis<kDegree>(normalized(direction), basis);
  float red = 0.0f, green = 0.0f, blue = 0.0f;
#pragma unroll
  for (int first = 0; first < kCount; first += kGroup) {
    const int count = kCount - first < kGroup ? kCount - first : kGroup;
    float group[3 * kGroup];
    load_group(coeffs + 3 * first, count, wide, group);
    for (int k = 0; k < count; ++k) {
      red += basis[first + k] * group[3 * k];
      green += basis[first + k] * group[3 * k + 1];
      blue += basis[first + k] * group[3 * k + 2];
    }
  }
  color[0] = red;
  color[1] = green;
  color[2] = blue;
}

// coeffs [bases, 3] -> color [3]. Preconditions: 0 <= degree <= kMaxDegree, base_count(degree) <= bases.
SPLAT_HD void spherical_harmonics_color(int degree, int64_t bases, const float* direction, const float* coeffs,
                                        float* color) {
  const bool wide = is_wide(coeffs, bases);
  switch (degree) {
    case 0: return harmonics_color<0>(direction, coeffs, wide, color);
    case 1: return harmonics_color<1>(direction, coeffs, wide, color);
    case 2: return harmonics_color<2>(direction, coeffs, wide, color);
    case 3: return harmonics_color<3>(direction, coeffs, wide, color);
    default: return harmonics_color<4>(direction, coeffs, wide, color);
  }
}

}  // namespace splat
