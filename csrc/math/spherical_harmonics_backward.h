// The vector-Jacobian product of spherical_harmonics.h: color = sum_k Y_k(d / |d|) coeffs_k.
#pragma once

#include "spherical_harmonics.h"

namespace splat {

// sum_k v[k] grad Y_k, the gradients of the polynomials of harmonics_basis by x, y, z.
template <int kDegree>
SPLAT_HD Vec3 harmonics_basis_backward(const Vec3& d, const float* v) {
  using namespace harmonics;
  const float x = d.x, y = d.y, z = d.z;
  Vec3 sum = {0.0f, 0.0f, 0.0f};
  if constexpr (kDegree >= 1) sum = {-k1 * v[3], -k1 * v[1], k1 * v[2]};
  if constexpr (kDegree >= 2) {
    sum.x += k2Product * (y * v[4] - z * v[7]) + 2.0f * k2Difference * x * v[8];
    sum.y += k2Product * (x * v[4] - z * v[5]) - 2.0f * k2Difference * y * v[8];
    sum.z += 2.0f * k2Zonal * z * v[6] - k2Product * (y * v[5] + x * v[7]);
  }
  const float xx = x * x, yy = y * y, zz = z * z;
  const float xy = x * y, yz = y * z, xz = x * z;
  const float difference = xx - yy;
  if constexpr (kDegree >= 3) {
    const float five = 5.0f * zz - 1.0f;
    sum.x += -k3Sectoral * (6.0f * xy * v[9] + 3.0f * difference * v[15]) + k3Product * yz * v[10] -
             k3Order1 * five * v[13] + 2.0f * k3Difference * xz * v[14];
    sum.y += -k3Sectoral * (3.0f * difference * v[9] - 6.0f * xy * v[15]) + k3Product * xz * v[10] -
             k3Order1 * five * v[11] - 2.0f * k3Difference * yz * v[14];
    sum.z += k3Product * xy * v[10] - 10.0f * k3Order1 * (yz * v[11] + xz * v[13]) +
             k3Zonal * (15.0f * zz - 3.0f) * v[12] + k3Difference * difference * v[14];
  }
  if constexpr (kDegree >= 4) {
    const float seven = 7.0f * zz;
    const float across_y = y * (3.0f * xx - yy), across_x = x * (xx - 3.0f * yy), xyz = xy * z;
    sum.x += k4Product * across_y * v[16] - k4Order3 * (6.0f * xyz * v[17] + 3.0f * z * difference * v[23]) +
             k4Order2Product * y * (seven - 1.0f) * v[18] - k4Order1 * z * (seven - 3.0f) * v[21] +
             2.0f * k4Order2Difference * x * (seven - 1.0f) * v[22] + 4.0f * k4Sectoral * across_x * v[24];
    sum.y += k4Product * across_x * v[16] - k4Order3 * (3.0f * z * difference * v[17] - 6.0f * xyz * v[23]) +
             k4Order2Product * x * (seven - 1.0f) * v[18] - k4Order1 * z * (seven - 3.0f) * v[19] -
             2.0f * k4Order2Difference * y * (seven - 1.0f) * v[22] - 4.0f * k4Sectoral * across_y * v[24];
    sum.z += -k4Order3 * (across_y * v[17] + across_x * v[23]) + 14.0f * k4Order2Product * xyz * v[18] -
             3.0f * k4Order1 * (seven - 1.0f) * (y * v[19] + x * v[21]) + k4Zonal * z * (140.0f * zz - 60.0f) * v[20] +
             14.0f * k4Order2Difference * z * difference * v[22];
  }
  return sum;
}

SPLAT_HD void store_group(const float* group, int count, bool wide, float* v_coeffs) {
  if (wide && count == kGroup) {
    for (int i = 0; i < 3 * kGroup; i += 4) store_four(group + i, v_coeffs + i);
  } else {
    for (int i = 0; i < 3 * count; ++i) v_coeffs[i] = group[i];
  }
}

// Zeros for the coefficients [used, bases) of one set.
SPLAT_HD void clear_coeffs(float* v_coeffs, int64_t used, int64_t bases) {
  int64_t i = 3 * used;
  if (is_wide(v_coeffs, bases) && i % 4 == 0) {
    const float zeros[4] = {};
    for (; i < 3 * bases; i += 4) store_four(zeros, v_coeffs + i);
  }
  for (; i < 3 * bases; ++i) v_coeffs[i] = 0.0f;
}

template <int kDegree>
SPLAT_HD void harmonics_color_backward(const float* direction, const float* coeffs, bool wide, const float* v_color,
                                       bool add_up, float* v_direction, float* v_coeffs, bool v_wide) {
  constexpr int kCount = base_count(kDegree);
  const float inverse = inverse_length(direction);
  const Vec3 d = scaled(inverse, {direction[0], direction[1], direction[2]});
  float v_basis[kCount];
#pragma unroll
  for (int first = 0; first < kCount; first += kGroup) {
    const int count = kCount - first < kGroup ? kCount - first : kGroup;
    float group[3 * kGroup];
    load_group(coeffs + 3 * first, count, wide, group);
    for (int k = 0; k < count; ++k) {
      v_basis[first + k] =
          group[3 * k] * v_color[0] + group[3 * k + 1] * v_color[1] + group[3 * k + 2] * v_color[2];
    }
  }
  // Through d / |d|, only the part perpendicular to d remains.
  const Vec3 v_d = harmonics_basis_backward<kDegree>(d, v_basis);
  const Vec3 tangent = combined(inverse, v_d, -inverse * dot(v_d, d), d);
  v_direction[0] = tangent.x;
  v_direction[1] = tangent.y;
  v_direction[2] = tangent.z;

  // All coefficients are loaded by now: a load after a store waits for it, as both might be of one address.
  float basis[kCount];
  harmonics_basis<kDegree>(d, basis);
#pragma unroll
  for (int first = 0; first < kCount; first += kGroup) {
    const int count = kCount - first < kGroup ? kCount - first : kGroup;
    float v_group[3 * kGroup] = {};
    if (add_up) load_group(v_coeffs + 3 * first, count, v_wide, v_group);
    for (int k = 0; k < count; ++k) {
      for (int c = 0; c < 3; ++c) {
        const float v = basis[first + k] * v_color[c];
        v_group[3 * k + c] = add_up ? v_group[3 * k + c] + v : v;
      }
    }
    store_group(v_group, count, v_wide, v_coeffs + 3 * first);
  }
}

// v_color [3] -> v_direction [3] and the first base_count(degree) rows of v_coeffs [bases, 3], to which it adds if
// `add_up`, and which it sets otherwise. Preconditions: 0 <= degree <= kMaxDegree, base_count(degree) <= bases.
SPLAT_HD void spherical_harmonics_color_backward(int degree, int64_t bases, const float* direction,
                                                 const float* coeffs, const float* v_color, bool add_up,
                                                 float* v_direction, float* v_coeffs) {
  const bool wide = is_wide(coeffs, bases), v_wide = is_wide(v_coeffs, bases);
  switch (degree) {
    case 0: return harmonics_color_backward<0>(direction, coeffs, wide, v_color, add_up, v_direction, v_coeffs, v_wide);
    case 1: return harmonics_color_backward<1>(direction, coeffs, wide, v_color, add_up, v_direction, v_coeffs, v_wide);
    case 2: return harmonics_color_backward<2>(direction, coeffs, wide, v_color, add_up, v_direction, v_coeffs, v_wide);
    case 3: return harmonics_color_backward<3>(direction, coeffs, wide, v_color, add_up, v_direction, v_coeffs, v_wide);
    default: return harmonics_color_backward<4>(direction, coeffs, wide, v_color, add_up, v_direction, v_coeffs, v_wide);
  }
}

}  // namespace splat
