// One 3D Gaussian along the ray of a pixel (Wu et al. 2025, "3DGUT", section 4.2): its largest value there. Real is float,
// or a vector of floats in the CPU rasterizer.
//
// With M the Gaussian's frame, which makes it a unit sphere at the origin, the ray from o along d is that from
// u = M (o - mean) along g = M d, whose distance from the origin is |u x g| / |g|. The frame is turned so that u is
// (0, 0, distance) for the origin that an image's rays share, or most of them: that leaves two products of d in |u x g|.
#pragma once

#include "blend.h"
#include "finite.h"
#include "rasterize_along_rays_rows.h"
#include "vec.h"

namespace splat {

// A Gaussian in an image as the rasterizers read it: a cache line.
struct alignas(64) RayGaussian {
  Vec3 a, b, c;     // the rows of the turned frame
  float distance;   // of the origin that rays share, in standard deviations
  float opacity;
  float limit;      // above this exponent alpha is below kMinAlpha; negative if the Gaussian is not visible
  // It is visible only where sqrt((a.d)^2 + (b.d)^2) <= reach |c.d|; what an error of d adds to that, by its length.
  float reach, margin;
};

SPLAT_HD float length(const Vec3& v) { return square_root(dot(v, v)); }

// The ray of pixel `at`: origin and direction.
SPLAT_HD const float* ray_of(const AlongRaysInputs& in, int64_t at) { return in.rays + 6 * at; }

// The origin that the rays of an image share, if they share one: that of its middle.
SPLAT_HD Vec3 image_origin(const AlongRaysInputs& in, int64_t image) {
  const int64_t width = in.lists.width, height = in.lists.height;
  const float* ray = ray_of(in, (image * height + height / 2) * width + width / 2);
  return all_finite(ray, 3) ? Vec3{ray[0], ray[1], ray[2]} : Vec3{0.0f, 0.0f, 0.0f};
}

// The row of means and frames that has a Gaussian of the lists.
SPLAT_HD int64_t row_of(const AlongRaysInputs& in, int64_t id) {
  return id / (in.cameras * in.gaussians) * in.gaussians + id % in.gaussians;
}

// Where a frame is turned to: the rows are orthonormal, the last is along u.
struct Turn {
  Mat3 frame, rows;
  Vec3 offset;  // from the mean to the origin
  float distance;
};

SPLAT_HD Turn turn_of(const AlongRaysInputs& in, int64_t id) {
  const int64_t row = row_of(in, id);
  const float *mean = in.means + 3 * row, *m = in.frames + 9 * row;
  const Vec3 origin = image_origin(in, id / in.gaussians);
  Turn turn;
  turn.frame = {{{m[0], m[1], m[2]}, {m[3], m[4], m[5]}, {m[6], m[7], m[8]}}};
  turn.offset = {origin.x - mean[0], origin.y - mean[1], origin.z - mean[2]};
  const Vec3 u = multiply(turn.frame, turn.offset);
  turn.distance = length(u);
  const Vec3 n = turn.distance > 0.0f ? scaled(1.0f / turn.distance, u) : Vec3{0.0f, 0.0f, 1.0f};
  // Two vectors beside n, without a branch (Duff et al. 2017, "Building an Orthonormal Basis, Revisited").
  const float sign = n.z < 0.0f ? -1.0f : 1.0f, p = -1.0f / (sign + n.z), q = n.x * n.y * p;
  turn.rows = {{{1.0f + sign * n.x * n.x * p, sign * q, -sign * n.x}, {q, sign + n.y * n.y * p, -n.y}, n}};
  return turn;
}

// One that is not finite is nowhere.
SPLAT_HD RayGaussian load_ray_gaussian(const AlongRaysInputs& in, int64_t id) {
  const int64_t row = row_of(in, id);
  const Turn turn = turn_of(in, id);
  RayGaussian g = {};
  g.a = multiply(turn.rows.rows[0], turn.frame);
  g.b = multiply(turn.rows.rows[1], turn.frame);
  g.c = multiply(turn.rows.rows[2], turn.frame);
  g.distance = turn.distance;
  g.opacity = in.lists.opacities[id];
  // At most 126, so that the power of two is still a normal float.
  g.limit = minimum(visible_exponent(g.opacity) + kExponentSlack, 126.0f);
  const float squared = turn.distance * turn.distance, radius2 = 2.0f * kLn2 * g.limit, beyond = squared - radius2;
  g.reach = beyond > 1e-3f * squared ? 1.0001f * square_root(radius2 / beyond) : __builtin_huge_valf();
  g.margin = g.reach * length(g.c) + square_root(dot(g.a, g.a) + dot(g.b, g.b));
  // With squares that are finite, products with directions are finite too.
  const float size2 = dot(g.a, g.a) + dot(g.b, g.b) + dot(g.c, g.c);
  if (!all_finite(in.means + 3 * row, 3) || !is_finite(size2) || !is_finite(squared)) g.limit = -1.0f;
  return g;
}

// A Gaussian along a ray: g, the exponent, as in blend.h, 1 / |g|^2, and |u x g|^2 / |g|^2 without a factor; of rays without
// a common origin, u and u x g too. Without a direction the exponent is NaN.
template <class Real>
struct RayView {
  Three<Real> g;
  Real exponent, inverse, squared;
  Three<Real> u, across;
};

// `fused` in this file: what computes a b + c, rounded once where the processor can.
template <class Real, class Fused>
SPLAT_HD Real dot(const Vec3& a, const Real* v, const Fused& fused) {
  return fused(a.z, v[2], fused(a.y, v[1], a.x * v[0]));
}

// `ray`: where it starts, from the origin that rays share, and its direction. The former is not read unless kMoving.
template <bool kMoving, class Real, class Fused>
SPLAT_HD RayView<Real> view_along(const RayGaussian& g, const Real* ray, const Fused& fused) {
  RayView<Real> view;
  view.g = {dot(g.a, ray + 3, fused), dot(g.b, ray + 3, fused), dot(g.c, ray + 3, fused)};
  const Real &x = view.g.x, &y = view.g.y, &z = view.g.z;
  const Real beside = fused(x, x, y * y);
  view.inverse = 1.0f / fused(z, z, beside);
  if (kMoving) {
    view.u = {dot(g.a, ray, fused), dot(g.b, ray, fused), dot(g.c, ray, fused) + g.distance};
    const Three<Real>& u = view.u;
    view.across = {u.y * z - u.z * y, u.z * x - u.x * z, u.x * y - u.y * x};
    const Three<Real>& w = view.across;
    view.squared = (w.x * w.x + w.y * w.y + w.z * w.z) * view.inverse;
    view.exponent = (0.5f * kLog2E) * view.squared;
  } else {
    view.squared = beside * view.inverse;
    view.exponent = (0.5f * kLog2E * g.distance * g.distance) * view.squared;
  }
  return view;
}

// Where a view with kMoving is nearest to the mean: how many directions behind the ray's origin.
template <class Real>
SPLAT_HD Real nearest_behind(const RayView<Real>& view) {
  return (view.u.x * view.g.x + view.u.y * view.g.y + view.u.z * view.g.z) * view.inverse;
}

// Adds what follows from `slope`, the derivative by ln(alpha), to sums: by ln(opacity), by u, and by the rows of the turned
// frame with their signs changed. With t along the ray where it is nearest, at r = u - t g, the derivatives of |r|^2 are
// 2 r by u and -2 t r by g.
template <bool kMoving, class Real, class Fused>
SPLAT_HD void add_ray_sums(const RayGaussian& g, const RayView<Real>& view, const Real* ray, Real slope, Real* sums,
                           const Fused& fused) {
  const Real &x = view.g.x, &y = view.g.y, &z = view.g.z;
  Real t, by_u[3];
  if (kMoving) {
    const Three<Real>& w = view.across;
    const Real scale = -slope * view.inverse;
    t = nearest_behind(view);
    by_u[0] = scale * (y * w.z - z * w.y);
    by_u[1] = scale * (z * w.x - x * w.z);
    by_u[2] = scale * (x * w.y - y * w.x);
  } else {
    t = g.distance * view.inverse * z;
    by_u[0] = slope * t * x;
    by_u[1] = slope * t * y;
    by_u[2] = -g.distance * view.squared * slope;
  }
  sums[0] += slope;
  for (int i = 0; i < 3; ++i) {
    sums[1 + i] += by_u[i];
    const Real by_g = t * by_u[i];
    for (int j = 0; j < 3; ++j) {
      Real& sum = sums[4 + 3 * i + j];
      sum = fused(by_g, ray[3 + j], sum);
      if (kMoving) sum -= by_u[i] * ray[j];
    }
  }
}

// Adds what follows from `slope`, the derivative by nearest_behind, to the sums of add_ray_sums.
template <class Real, class Fused>
SPLAT_HD void add_nearest_sums(const RayView<Real>& view, const Real* ray, Real slope, Real* sums, const Fused& fused) {
  const Real g[3] = {view.g.x, view.g.y, view.g.z}, u[3] = {view.u.x, view.u.y, view.u.z};
  const Real scale = slope * view.inverse, twice = 2.0f * nearest_behind(view);
  for (int i = 0; i < 3; ++i) {
    const Real by_u = scale * g[i], by_g = scale * (u[i] - twice * g[i]);
    sums[1 + i] += by_u;
    for (int j = 0; j < 3; ++j) sums[4 + 3 * i + j] -= fused(by_g, ray[3 + j], by_u * ray[j]);
  }
}

SPLAT_HD bool is_normal(const AlongRaysInputs& in, int64_t channel) {
  return in.normal_channel >= 0 && channel >= in.normal_channel && channel < in.normal_channel + 3;
}

// The gradients of Gaussian `row`, by the sums [count, kRaySums] of it in all cameras.
SPLAT_HD void finish_along_rays(const AlongRaysInputs& in, int64_t row, const float* all_sums,
                                const AlongRaysGradientOutputs& out) {
  const int64_t first = row / in.gaussians * in.cameras * in.gaussians + row % in.gaussians;
  float mean[3] = {}, frame[9] = {};
  for (int64_t camera = 0; camera < in.cameras; ++camera) {
    const int64_t id = first + camera * in.gaussians;
    const float* sums = all_sums + kRaySums * id;
    out.opacities[id] = sums[0] == 0.0f ? 0.0f : sums[0] / in.lists.opacities[id];
    bool any = false;
    for (int j = 1; j < kRaySums; ++j) any |= sums[j] != 0.0f;
    if (!any) continue;  // the numbers may not be finite
    const Turn turn = turn_of(in, id);
    const float offset[3] = {turn.offset.x, turn.offset.y, turn.offset.z};
    const Vec3 by_u = multiply(Vec3{sums[1], sums[2], sums[3]}, turn.rows);
    const Vec3 by_offset = multiply(by_u, turn.frame);
    mean[0] -= by_offset.x;
    mean[1] -= by_offset.y;
    mean[2] -= by_offset.z;
    for (int j = 0; j < 3; ++j) {
      const Vec3 column = multiply(Vec3{sums[4 + j], sums[7 + j], sums[10 + j]}, turn.rows);
      frame[j] += by_u.x * offset[j] - column.x;
      frame[3 + j] += by_u.y * offset[j] - column.y;
      frame[6 + j] += by_u.z * offset[j] - column.z;
    }
  }
  for (int j = 0; j < 3; ++j) out.means[3 * row + j] = mean[j];
  for (int j = 0; j < 9; ++j) out.frames[9 * row + j] = frame[j];
}

}  // namespace splat
