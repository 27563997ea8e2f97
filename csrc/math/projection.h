// A 3D Gaussian as one camera sees it: EWA splatting (Zwicker et al. 2002) with a pinhole camera.
#pragma once

#include "constants.h"
#include "vec.h"

namespace splat {

struct Camera {
  Mat3 rotation;  // world to camera
  Vec3 translation;
  float fx, fy, cx, cy;  // pixels
};

struct ProjectionSettings {
  int width, height;  // pixels
  float eps2d;        // added to the diagonal of the 2D covariance, pixels^2
  float near_plane, far_plane;
  float radius_clip;  // pixels
  bool antialiased;
};

struct Projection {
  int radius_x, radius_y;    // pixels; 0 where culled
  float x, y, depth;         // centre in pixels, distance along the camera's z axis
  float a, b, c;             // conic: inverse of the blurred 2D covariance, [[a, b], [b, c]]
  float compensation;        // opacity factor that undoes the blur's gain in area (Yu et al. 2024, "Mip-Splatting", section
                             // 4.2); 1 without antialiasing
};

// viewmat: 4x4 row-major, world to camera. k: 3x3 row-major intrinsics, without skew.
SPLAT_HD Camera load_camera(const float* viewmat, const float* k) {
  return {{{{viewmat[0], viewmat[1], viewmat[2]},
            {viewmat[4], viewmat[5], viewmat[6]},
            {viewmat[8], viewmat[9], viewmat[10]}}},
          {viewmat[3], viewmat[7], viewmat[11]},
          k[0], k[4], k[2], k[5]};
}

// The two rows of J W R S, whose product with its own transpose is the 2D covariance. J is the projection's Jacobian at
// the Gaussian's centre, pulled in to the frustum's margin; W the camera's rotation; R S the Gaussian's axes.
struct CovarianceRoot {
  Vec3 row_x, row_y;
};

SPLAT_HD CovarianceRoot covariance_root(const Camera& camera, const ProjectionSettings& settings, const Vec3& centre,
                                        const Mat3& axes, const float* scale) {
  const float inverse_z = 1.0f / centre.z;
  const float width = static_cast<float>(settings.width), height = static_cast<float>(settings.height);
  const float margin_x = kFrustumMargin * 0.5f * width / camera.fx;
  const float margin_y = kFrustumMargin * 0.5f * height / camera.fy;
  const float tan_x = minimum((width - camera.cx) / camera.fx + margin_x,
                              maximum(-(camera.cx / camera.fx + margin_x), centre.x * inverse_z));
  const float tan_y = minimum((height - camera.cy) / camera.fy + margin_y,
                              maximum(-(camera.cy / camera.fy + margin_y), centre.y * inverse_z));
  const Mat3& w = camera.rotation;
  const float jx = camera.fx * inverse_z, jy = camera.fy * inverse_z;
  const Vec3 jw_x = {jx * (w.rows[0].x - tan_x * w.rows[2].x), jx * (w.rows[0].y - tan_x * w.rows[2].y),
                     jx * (w.rows[0].z - tan_x * w.rows[2].z)};
  const Vec3 jw_y = {jy * (w.rows[1].x - tan_y * w.rows[2].x), jy * (w.rows[1].y - tan_y * w.rows[2].y),
                     jy * (w.rows[1].z - tan_y * w.rows[2].z)};
  Vec3 row_x = multiply(jw_x, axes), row_y = multiply(jw_y, axes);
  row_x = {row_x.x * scale[0], row_x.y * scale[1], row_x.z * scale[2]};
  row_y = {row_y.x * scale[0], row_y.y * scale[1], row_y.z * scale[2]};
  return {row_x, row_y};
}

// How many standard deviations a Gaussian of this opacity reaches before its alpha falls under the smallest visible one
// (Radl et al. 2024, "StopThePop", section B.2). Precondition: opacity >= kMinAlpha.
SPLAT_HD float extent(float opacity) {
  return minimum(kMaxExtent, square_root(2.0f * natural_log(opacity / kMinAlpha)));
}

// mean [3], quat [4] (w, x, y, z), scale [3]; opacity may be null, then the extent is kMaxExtent.
// Returns false, and all zeros, for a Gaussian that this camera does not see.
SPLAT_HD bool project_gaussian(const Camera& camera, const ProjectionSettings& settings, const float* mean,
                               const float* quat, const float* scale, const float* opacity, Projection& out) {
  out = {0, 0, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f};
  Vec3 centre = multiply(camera.rotation, Vec3{mean[0], mean[1], mean[2]});
  centre = {centre.x + camera.translation.x, centre.y + camera.translation.y, centre.z + camera.translation.z};
  if (!(centre.z >= settings.near_plane && centre.z <= settings.far_plane)) return false;

  const CovarianceRoot root = covariance_root(camera, settings, centre, rotation(quat), scale);
  const float xx = dot(root.row_x, root.row_x), xy = dot(root.row_x, root.row_y), yy = dot(root.row_y, root.row_y);
  // det(A A^T) is the squared length of the cross product of A's rows (Lagrange). Unlike xx yy - xy xy, it and the
  // blurred determinant are sums of squares: no cancellation for needles.
  const Vec3 normal = cross(root.row_x, root.row_y);
  const float determinant = dot(normal, normal);
  const float blurred = determinant + settings.eps2d * (xx + yy) + settings.eps2d * settings.eps2d;
  if (!(blurred > 0.0f)) return false;

  float compensation = 1.0f;
  if (settings.antialiased) compensation = square_root(determinant / blurred);  // both are sums of squares
  float reach = kMaxExtent;
  if (opacity != nullptr) {
    const float effective = *opacity * compensation;
    if (!(effective >= kMinAlpha)) return false;
    reach = extent(effective);
  }
  const float radius_x = round_up(reach * square_root(xx + settings.eps2d));
  const float radius_y = round_up(reach * square_root(yy + settings.eps2d));
  if (radius_x <= settings.radius_clip && radius_y <= settings.radius_clip) return false;

  const float x = camera.fx * (centre.x / centre.z) + camera.cx;
  const float y = camera.fy * (centre.y / centre.z) + camera.cy;
  if (x + radius_x <= 0.0f || x - radius_x >= static_cast<float>(settings.width)) return false;
  if (y + radius_y <= 0.0f || y - radius_y >= static_cast<float>(settings.height)) return false;

  const float a = (yy + settings.eps2d) / blurred, b = -xy / blurred, c = (xx + settings.eps2d) / blurred;
  if (!(is_finite(x) && is_finite(y) && is_finite(radius_x) && is_finite(radius_y))) return false;
  if (!(is_finite(a) && is_finite(b) && is_finite(c))) return false;
  out = {static_cast<int>(minimum(radius_x, kMaxRadius)), static_cast<int>(minimum(radius_y, kMaxRadius)),
         x, y, centre.z, a, b, c, compensation};
  return true;
}

}  // namespace splat
