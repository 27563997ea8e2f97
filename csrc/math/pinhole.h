// The pinhole camera: a point is seen at (x / z, y / z). Its Jacobian is taken at a point at most a margin outside of the
// image, since it grows without bound (constants.h).
#pragma once

#include "camera.h"

namespace splat {

// The x / z and y / z at which a perspective projection is linearised, clamped to the frustum with its margin.
struct Tangents {
  float x, y;
  bool x_inside, y_inside;  // not clamped
};

SPLAT_HD Tangents clamped_tangents(const CameraParameters& camera, const ProjectionSettings& settings,
                                   const Vec3& centre) {
  const float inverse_z = 1.0f / centre.z;
  const float width = static_cast<float>(settings.width), height = static_cast<float>(settings.height);
  const float margin_x = kFrustumMargin * 0.5f * width / camera.fx;
  const float margin_y = kFrustumMargin * 0.5f * height / camera.fy;
  const float x = centre.x * inverse_z, y = centre.y * inverse_z;
  const float x_high = (width - camera.cx) / camera.fx + margin_x, x_low = -(camera.cx / camera.fx + margin_x);
  const float y_high = (height - camera.cy) / camera.fy + margin_y, y_low = -(camera.cy / camera.fy + margin_y);
  return {minimum(x_high, maximum(x_low, x)), minimum(y_high, maximum(y_low, y)), x <= x_high && x >= x_low,
          y <= y_high && y >= y_low};
}

SPLAT_HD Linearization linearize_pinhole(const CameraParameters& camera, const ProjectionSettings& settings,
                                         const Vec3& centre) {
  const Tangents at = clamped_tangents(camera, settings, centre);
  const float jx = camera.fx / centre.z, jy = camera.fy / centre.z;
  return {camera.fx * (centre.x / centre.z) + camera.cx, camera.fy * (centre.y / centre.z) + camera.cy,
          {jx, 0.0f, -jx * at.x}, {0.0f, jy, -jy * at.y}};
}

SPLAT_HD Vec3 linearize_pinhole_backward(const CameraParameters& camera, const ProjectionSettings& settings,
                                         const Vec3& centre, const Linearization&, float v_x, float v_y,
                                         const Vec3& v_row_x, const Vec3& v_row_y) {
  // Rows fx (1 / z, 0, -t / z) and fy (0, 1 / z, -t / z), t = x / z or y / z, or constant beyond the frustum's margin.
  const Tangents tangents = clamped_tangents(camera, settings, centre);
  const float inverse_z = 1.0f / centre.z;
  const float x = centre.x * inverse_z, y = centre.y * inverse_z;
  const float jx = camera.fx * inverse_z, jy = camera.fy * inverse_z;
  // Gradients by t where it varies: the position in the image depends on the true x / z, the Jacobian on the clamped
  // one.
  const float v_tx = camera.fx * v_x - (tangents.x_inside ? jx * v_row_x.z : 0.0f);
  const float v_ty = camera.fy * v_y - (tangents.y_inside ? jy * v_row_y.z : 0.0f);
  const float by_inverse_z = jx * (v_row_x.x - tangents.x * v_row_x.z) + jy * (v_row_y.y - tangents.y * v_row_y.z);
  return {v_tx * inverse_z, v_ty * inverse_z, -inverse_z * (v_tx * x + v_ty * y + by_inverse_z)};
}

}  // namespace splat
