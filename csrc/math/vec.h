// Small vectors and matrices, and the rotation of a quaternion.
#pragma once

#include "platform.h"

namespace splat {

struct Vec3 {
  float x, y, z;
};

// Row-major: `rows[0]` is the first row.
struct Mat3 {
  Vec3 rows[3];
};

SPLAT_HD float dot(const Vec3& a, const Vec3& b) { return a.x * b.x + a.y * b.y + a.z * b.z; }

SPLAT_HD Vec3 cross(const Vec3& a, const Vec3& b) {
  return {a.y * b.z - a.z * b.y, a.z * b.x - a.x * b.z, a.x * b.y - a.y * b.x};
}

SPLAT_HD Vec3 multiply(const Mat3& m, const Vec3& v) {
  return {dot(m.rows[0], v), dot(m.rows[1], v), dot(m.rows[2], v)};
}

// v^T m, a row vector.
SPLAT_HD Vec3 multiply(const Vec3& v, const Mat3& m) {
  return {v.x * m.rows[0].x + v.y * m.rows[1].x + v.z * m.rows[2].x,
          v.x * m.rows[0].y + v.y * m.rows[1].y + v.z * m.rows[2].y,
          v.x * m.rows[0].z + v.y * m.rows[1].z + v.z * m.rows[2].z};
}

// Rotation matrix of a quaternion (w, x, y, z) of any length but zero, for which the result is not finite.
SPLAT_HD Mat3 rotation(const float* quat) {
  const float norm2 = quat[0] * quat[0] + quat[1] * quat[1] + quat[2] * quat[2] + quat[3] * quat[3];
  const float inverse_norm = 1.0f / square_root(norm2);
  const float w = quat[0] * inverse_norm, x = quat[1] * inverse_norm;
  const float y = quat[2] * inverse_norm, z = quat[3] * inverse_norm;
  return {{{1.0f - 2.0f * (y * y + z * z), 2.0f * (x * y - w * z), 2.0f * (x * z + w * y)},
           {2.0f * (x * y + w * z), 1.0f - 2.0f * (x * x + z * z), 2.0f * (y * z - w * x)},
           {2.0f * (x * z - w * y), 2.0f * (y * z + w * x), 1.0f - 2.0f * (x * x + y * y)}}};
}

}  // namespace splat
