// The camera models. To add one: a header like ortho.h, with its linearize_NAME and linearize_NAME_backward, a row here,
// and a row in splat/ops/camera_models.py. Everything else follows; tests/test_camera_models.py compares the tables.
#pragma once

#include "fisheye.h"
#include "ortho.h"
#include "pinhole.h"

namespace splat {

// In the order of their numbers, which are the values of the operators' camera_model; operators refuse others.
#define SPLAT_CAMERA_MODELS(MODEL) \
  MODEL(kPinhole, pinhole)         \
  MODEL(kOrtho, ortho)             \
  MODEL(kFisheye, fisheye)

enum CameraModel {
#define SPLAT_NUMBER(value, name) value,
  SPLAT_CAMERA_MODELS(SPLAT_NUMBER)
#undef SPLAT_NUMBER
  kCameraModelCount
};

// `centre`: in camera coordinates. The most usual model is what is left after all others, and needs no comparison.
SPLAT_HD Linearization linearize(const CameraParameters& camera, const ProjectionSettings& settings,
                                 const Vec3& centre) {
#define SPLAT_TRY(value, name) \
  if (value != kPinhole && settings.camera_model == value) return linearize_##name(camera, settings, centre);
  SPLAT_CAMERA_MODELS(SPLAT_TRY)
#undef SPLAT_TRY
  return linearize_pinhole(camera, settings, centre);
}

// The gradient by the centre, through the position in the image and the rows of the Jacobian.
SPLAT_HD Vec3 linearize_backward(const CameraParameters& camera, const ProjectionSettings& settings, const Vec3& centre,
                                 const Linearization& at, float v_x, float v_y, const Vec3& v_row_x,
                                 const Vec3& v_row_y) {
#define SPLAT_TRY(value, name)                               \
  if (value != kPinhole && settings.camera_model == value) \
    return linearize_##name##_backward(camera, settings, centre, at, v_x, v_y, v_row_x, v_row_y);
  SPLAT_CAMERA_MODELS(SPLAT_TRY)
#undef SPLAT_TRY
  return linearize_pinhole_backward(camera, settings, centre, at, v_x, v_y, v_row_x, v_row_y);
}

}  // namespace splat
