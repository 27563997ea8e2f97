// A camera, and what every camera model makes of a point.
#pragma once

#include "constants.h"
#include "vec.h"

namespace splat {

struct CameraParameters {
  Mat3 rotation;  // world to camera
  Vec3 translation;
  float fx, fy, cx, cy;  // pixels; orthographic: pixels per unit
};

struct ProjectionSettings {
  int width, height;  // pixels
  float eps2d;        // added to the diagonal of the 2D covariance, pixels^2
  float near_plane, far_plane;
  float radius_clip;  // pixels
  bool antialiased;
  int camera_model;  // a CameraModel, camera_models.h
};

// viewmat: 4x4 row-major, world to camera. k: 3x3 row-major intrinsics, without skew.
SPLAT_HD CameraParameters load_camera(const float* viewmat, const float* k) {
  return {{{{viewmat[0], viewmat[1], viewmat[2]},
            {viewmat[4], viewmat[5], viewmat[6]},
            {viewmat[8], viewmat[9], viewmat[10]}}},
          {viewmat[3], viewmat[7], viewmat[11]},
          k[0], k[4], k[2], k[5]};
}

SPLAT_HD Vec3 to_camera(const CameraParameters& camera, const float* mean) {
  return add(multiply(camera.rotation, Vec3{mean[0], mean[1], mean[2]}), camera.translation);
}

// The image of a point, and how it moves with the point (in camera coordinates).
struct Linearization {
  float x, y;          // pixels
  Vec3 row_x, row_y;   // the Jacobian
};

}  // namespace splat
