// The orthographic camera: a point is seen at (x, y), whatever its depth; focal lengths are pixels per unit.
#pragma once

#include "camera.h"

namespace splat {

SPLAT_HD Linearization linearize_ortho(const CameraParameters& camera, const ProjectionSettings&, const Vec3& centre) {
  return {camera.fx * centre.x + camera.cx, camera.fy * centre.y + camera.cy, {camera.fx, 0.0f, 0.0f},
          {0.0f, camera.fy, 0.0f}};
}

SPLAT_HD Vec3 linearize_ortho_backward(const CameraParameters& camera, const ProjectionSettings&, const Vec3&,
                                       const Linearization&, float v_x, float v_y, const Vec3&, const Vec3&) {
  return {camera.fx * v_x, camera.fy * v_y, 0.0f};
}

}  // namespace splat
