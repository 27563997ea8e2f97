// One 2D Gaussian, a flat disc in space, in one pixel of an image (Huang et al. 2024, "2D Gaussian Splatting for
// Geometrically Accurate Radiance Fields"). Real is float, or a vector of floats in the CPU rasterizer.
//
// The ray transform is K [s_u t_u, s_v t_v, p] in camera space (equations 4 to 8), which brings a point (u, v, 1) of the
// disc, in standard deviations, to (x z, y z, z): its rows are u, v and w below.
#pragma once

#include "blend.h"
#include "finite.h"
#include "vec.h"

namespace splat {

// The inverse of the variance of the filter in the image, in pixels^-2, below which no disc is drawn thinner (equation 11).
constexpr float kFilterInverseVariance = 2.0f;

// A pixel's median depth is that of the last Gaussian in front of which it lets more than this through.
constexpr float kMedianTransmittance = 0.5f;

// A Gaussian as the rasterizers read it: a cache line.
struct alignas(64) Surfel {
  Vec3 u, v, w;
  float x, y, opacity;
  float left, top, right, bottom;  // in pixels; alpha is below kMinAlpha outside
};

// Half the extent of the disc of the radius sqrt(radius2) around `centre`, along the axis of the image whose row of the
// ray transform this is; and the centre's distance to the middle of that extent. The disc is in front of the camera, so
// `distance` is negative. Relative to the centre, because the terms are squares of what may be thousands of pixels.
SPLAT_HD void disc_extent(const Vec3& row, const Vec3& w, float centre, float radius2, float distance, float& middle,
                          float& extent) {
  const float a = row.x - centre * w.x, b = row.y - centre * w.y;
  middle = radius2 * (a * w.x + b * w.y) / distance;
  extent = square_root(maximum(0.0f, middle * middle - radius2 * (a * a + b * b) / distance));
}

// means [count, 2], ray_transforms [count, 9], opacities [count]. One that is not finite is nowhere.
SPLAT_HD Surfel load_surfel(const float* means, const float* ray_transforms, const float* opacities, int64_t i) {
  const float *mean = means + 2 * i, *m = ray_transforms + 9 * i;
  Surfel s = {{m[0], m[1], m[2]}, {m[3], m[4], m[5]}, {m[6], m[7], m[8]}, mean[0], mean[1], opacities[i], 1, 1, 0, 0};
  // The squared distance, in standard deviations, at which alpha is kMinAlpha.
  const float radius2 = 2.0f * (kLn2 * visible_exponent(s.opacity) + kExponentSlack);
  if (!(radius2 >= 0.0f) || !all_finite(mean, 2) || !all_finite(m, 9)) return s;
  const float distance = radius2 * (s.w.x * s.w.x + s.w.y * s.w.y) - s.w.z * s.w.z;
  s.left = s.top = -3.402823466e+38f;
  s.right = s.bottom = 3.402823466e+38f;
  // A disc that comes near the camera's plane may be anywhere.
  if (!(distance < -1e-4f * s.w.z * s.w.z)) return s;
  const float x = s.u.z / s.w.z, y = s.v.z / s.w.z, filter = square_root(radius2 / kFilterInverseVariance);
  float middle_x, middle_y, extent_x, extent_y;
  disc_extent(s.u, s.w, x, radius2, distance, middle_x, extent_x);
  disc_extent(s.v, s.w, y, radius2, distance, middle_y, extent_y);
  extent_x = 1.001f * extent_x + 0.01f + 1e-5f * absolute(x);
  extent_y = 1.001f * extent_y + 0.01f + 1e-5f * absolute(y);
  if (!is_finite(x + middle_x + extent_x) || !is_finite(y + middle_y + extent_y)) return s;
  s.left = minimum(x + middle_x - extent_x, s.x - filter);
  s.top = minimum(y + middle_y - extent_y, s.y - filter);
  s.right = maximum(x + middle_x + extent_x, s.x + filter);
  s.bottom = maximum(y + middle_y + extent_y, s.y + filter);
  return s;
}

// Where the ray of a pixel meets the disc's plane: the planes h_u and h_v that meet in the ray (equation 9), and the
// point (u, v) in standard deviations (equation 10), by 1 over the third component of their cross product, which is 0 if
// the ray is parallel to the plane.
template <class Real>
struct RayHit {
  Three<Real> h_u;
  Vec3 h_v;
  Real denominator, inverse, u, v;
};

// h_u depends on the column alone, and h_v on the row.
template <class Real>
SPLAT_HD Three<Real> column_plane(const Surfel& s, Real x) {
  return {x * s.w.x - s.u.x, x * s.w.y - s.u.y, x * s.w.z - s.u.z};
}

SPLAT_HD Vec3 row_plane(const Surfel& s, float y) { return combined(y, s.w, -1.0f, s.v); }

template <class Real>
SPLAT_HD RayHit<Real> hit_disc(const Three<Real>& h_u, const Vec3& h_v) {
  const Real denominator = h_u.x * h_v.y - h_u.y * h_v.x;
  const Real inverse = 1.0f / denominator;
  return {h_u, h_v, denominator, inverse, (h_u.y * h_v.z - h_u.z * h_v.y) * inverse,
          (h_u.z * h_v.x - h_u.x * h_v.z) * inverse};
}

// The squared distances whose smaller one counts: on the disc, and from its centre in the image, (dx, dy) pixels away.
template <class Real>
SPLAT_HD Real disc_distance2(const RayHit<Real>& hit) {
  return hit.u * hit.u + hit.v * hit.v;
}

template <class Real>
SPLAT_HD Real filter_distance2(Real dx, float dy) {
  return kFilterInverseVariance * (dx * dx + dy * dy);
}

// The gradients by h_u and h_v of a value whose derivative by ln(alpha) is `slope`, where the distance on the disc counts:
// the cross product's gradient is (a, b, c).
template <class Real>
struct PlaneGradients {
  Three<Real> h_u, h_v;
};

template <class Real>
SPLAT_HD PlaneGradients<Real> differentiate_hit(const RayHit<Real>& hit, Real slope) {
  const Real a = -slope * hit.u * hit.inverse, b = -slope * hit.v * hit.inverse, c = -(a * hit.u + b * hit.v);
  const Three<Real>& p = hit.h_u;
  const Vec3& q = hit.h_v;
  return {{q.y * c - q.z * b, q.z * a - q.x * c, q.x * b - q.y * a},
          {b * p.z - c * p.y, c * p.x - a * p.z, a * p.y - b * p.x}};
}

// What the pixels of a Gaussian add up to, in this order: by ln(opacity); by the centre, and the absolute values of that;
// by h_u, by h_v, and by w, which is x times the former and y times the latter; by the depth. Colours follow in a slot.
constexpr int kSurfelSums = 15;

// Depth distortion, sum over pairs of w_i w_j |z_i - z_j| (equation 13 without the square, in order of depth): what
// Gaussian i adds, by what is in front of it, and the derivatives of the whole by its weight and by its depth.
template <class Real>
SPLAT_HD Real distortion(Real weight, float depth, Real transmittance, Real depths_before) {
  return 2.0f * weight * (depth * (1.0f - transmittance) - depths_before);
}

// `depths` is the sum of weight and depth of all Gaussians, and `alpha` the sum of all weights.
template <class Real>
SPLAT_HD Real distortion_by_weight(float depth, Real transmittance, Real depths_before, Real depths, Real alpha) {
  return 2.0f * (2.0f * (depth * (1.0f - transmittance) - depths_before) + (depths - depth * alpha));
}

template <class Real>
SPLAT_HD Real distortion_by_depth(Real weight, Real transmittance, Real alpha) {
  return 2.0f * weight * (2.0f - 2.0f * transmittance + weight - alpha);
}

}  // namespace splat
