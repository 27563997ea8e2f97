// A 3D Gaussian as one camera sees it: EWA splatting (Zwicker et al. 2002, "EWA Splatting", section 5), for the cameras
// of gsplat 1.5.3.
#pragma once

#include "camera_models.h"
#include "finite.h"

namespace splat {

// The parameters of N Gaussians, or of one: either quats and scales or covars; the others are null.
struct GaussianParameters {
  const float* means;      // [N, 3]
  const float* quats;      // [N, 4] w, x, y, z
  const float* scales;     // [N, 3]
  const float* covars;     // [N, 6] xx, xy, xz, yy, yz, zz
  const float* opacities;  // [N]; if null, the extent is kMaxExtent
};

SPLAT_HD GaussianParameters gaussian_at(const GaussianParameters& all, int64_t i) {
  return {all.means + 3 * i, all.quats == nullptr ? nullptr : all.quats + 4 * i,
          all.scales == nullptr ? nullptr : all.scales + 3 * i, all.covars == nullptr ? nullptr : all.covars + 6 * i,
          all.opacities == nullptr ? nullptr : all.opacities + i};
}

// `g` is one Gaussian.
SPLAT_HD bool is_finite_gaussian(const GaussianParameters& g) {
  return all_finite(g.means, 3) && all_finite(g.quats, 4) && all_finite(g.scales, 3) && all_finite(g.covars, 6) &&
         all_finite(g.opacities, 1);
}

struct Projection {
  int radius_x, radius_y;  // pixels; 0 if culled
  float x, y, depth;       // centre in pixels, distance along the camera's z axis
  float a, b, c;           // conic: inverse of the blurred 2D covariance, [[a, b], [b, c]]
  float compensation;      // opacity factor that undoes the blur's gain in area (Yu et al. 2024, "Mip-Splatting",
                           // section 4.2); 1 without antialiasing
};

// A 3D covariance: A C A^T. From quats and scales the axes A are the Gaussian's own, and C has the squares of the
// scales on its diagonal; from covars A is the identity.
struct Shape {
  Mat3 axes;
  Sym3 covariance;
  bool is_covariance;  // known to have no negative eigenvalue
};

// Returns false if the quaternion of the Gaussian is not a rotation.
SPLAT_HD bool load_shape(const GaussianParameters& g, Shape& shape) {
  if (g.covars != nullptr) {
    shape = {{{{1.0f, 0.0f, 0.0f}, {0.0f, 1.0f, 0.0f}, {0.0f, 0.0f, 1.0f}}},
             {g.covars[0], g.covars[1], g.covars[2], g.covars[3], g.covars[4], g.covars[5]},
             false};
    return true;
  }
  Quaternion unit;
  float inverse_length;
  if (!unit_quaternion(g.quats, unit, inverse_length)) return false;
  const float x = g.scales[0], y = g.scales[1], z = g.scales[2];
  shape = {rotation(unit), {x * x, 0.0f, 0.0f, y * y, 0.0f, z * z}, true};
  return true;
}

// The covariance M in the image, before and after the blur, and its factors: M = F C F^T with F = J W A, where J
// is the projection's Jacobian, W the camera's rotation and A C A^T the 3D covariance.
struct Footprint {
  Vec3 frame_x, frame_y;    // rows of F
  Vec3 spread_x, spread_y;  // rows of F C
  Vec3 normal;              // cross product of the rows of F
  float xx, xy, yy;         // M
  float determinant;        // of M; 0 if it is negative
  float blurred;            // of M + eps2d I; not positive if that is no ellipse
};

// Whether a determinant is negative by more than rounding can make of the 0 of a needle or a disk.
SPLAT_HD bool is_indefinite(const Footprint& f, const Shape& shape, float determinant) {
  if (shape.is_covariance || !(determinant < 0.0f)) return false;
  const Sym3& c = shape.covariance;
  const float size2 = c.xx * c.xx + c.yy * c.yy + c.zz * c.zz + 2.0f * (c.xy * c.xy + c.xz * c.xz + c.yz * c.yz);
  return determinant < -kDeterminantRounding * size2 * dot(f.frame_x, f.frame_x) * dot(f.frame_y, f.frame_y);
}

SPLAT_HD Footprint footprint(const CameraParameters& camera, const Linearization& at, const Shape& shape, float eps2d) {
  Footprint f;
  f.frame_x = multiply(multiply(at.row_x, camera.rotation), shape.axes);
  f.frame_y = multiply(multiply(at.row_y, camera.rotation), shape.axes);
  f.spread_x = multiply(shape.covariance, f.frame_x);
  f.spread_y = multiply(shape.covariance, f.frame_y);
  f.normal = cross(f.frame_x, f.frame_y);
  f.xx = dot(f.frame_x, f.spread_x);
  f.xy = dot(f.frame_x, f.spread_y);
  f.yy = dot(f.frame_y, f.spread_y);
  // det(F C F^T) by Cauchy and Binet. Unlike xx yy - xy xy it does not cancel for needles, and the blurred determinant
  // of a covariance is a sum of non-negative terms. A NaN stays NaN.
  const float determinant = dot(f.normal, cross(f.spread_x, f.spread_y));
  f.determinant = maximum(0.0f, determinant);
  f.blurred = (is_indefinite(f, shape, determinant) ? determinant : f.determinant) + eps2d * (f.xx + f.yy) +
              eps2d * eps2d;
  return f;
}

// How many standard deviations a Gaussian of this opacity extends before its alpha falls below the smallest visible one
// (Radl et al. 2024, "StopThePop", section B.2). Precondition: opacity >= kMinAlpha.
SPLAT_HD float extent(float opacity) {
  return minimum(kMaxExtent, square_root(2.0f * natural_log(opacity / kMinAlpha)));
}

// `g` is one Gaussian. Returns false, and all zeros, for one that is not visible to this camera; `finite` says whether
// that is because of a parameter which is not finite. Those of a Gaussian that is too near or too far are not read.
SPLAT_HD bool project_gaussian(const CameraParameters& camera, const ProjectionSettings& settings,
                               const GaussianParameters& g, Projection& out, bool& finite) {
  out = {0, 0, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f};
  const Vec3 centre = to_camera(camera, g.means);
  finite = all_finite(g.means, 3);
  if (!(centre.z >= settings.near_plane && centre.z <= settings.far_plane)) return false;
  finite = is_finite_gaussian(g);
  if (!finite) return false;
  Shape shape;
  if (!load_shape(g, shape)) return false;

  const Linearization at = linearize(camera, settings, centre);
  const Footprint f = footprint(camera, at, shape, settings.eps2d);
  if (!(f.blurred > 0.0f)) return false;

  float compensation = 1.0f;
  if (settings.antialiased) compensation = square_root(f.determinant / f.blurred);
  float reach = kMaxExtent;
  if (g.opacities != nullptr) {
    const float effective = *g.opacities * compensation;
    if (!(effective >= kMinAlpha && is_finite(effective))) return false;
    reach = extent(effective);
  }
  const float radius_x = round_up(reach * square_root(f.xx + settings.eps2d));
  const float radius_y = round_up(reach * square_root(f.yy + settings.eps2d));
  if (radius_x <= settings.radius_clip && radius_y <= settings.radius_clip) return false;
  if (at.x + radius_x <= 0.0f || at.x - radius_x >= static_cast<float>(settings.width)) return false;
  if (at.y + radius_y <= 0.0f || at.y - radius_y >= static_cast<float>(settings.height)) return false;

  const float a = (f.yy + settings.eps2d) / f.blurred, b = -f.xy / f.blurred, c = (f.xx + settings.eps2d) / f.blurred;
  if (!(is_finite(at.x) && is_finite(at.y) && is_finite(radius_x) && is_finite(radius_y))) return false;
  if (!(is_finite(a) && is_finite(b) && is_finite(c))) return false;
  out = {static_cast<int>(minimum(radius_x, kMaxRadius)), static_cast<int>(minimum(radius_y, kMaxRadius)),
         at.x, at.y, centre.z, a, b, c, compensation};
  return true;
}

}  // namespace splat
