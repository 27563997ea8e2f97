// Small vectors and matrices, and the rotation of a quaternion.
#pragma once

#include "platform.h"

namespace splat {

struct Vec3 {
  float x, y, z;
};

// The same of vectors of floats, in the CPU rasterizers.
template <class Real>
struct Three {
  Real x, y, z;
};

// Row-major: `rows[0]` is the first row.
struct Mat3 {
  Vec3 rows[3];
};

// A symmetric matrix, by its upper triangle.
struct Sym3 {
  float xx, xy, xz, yy, yz, zz;
};

SPLAT_HD Vec3 add(const Vec3& a, const Vec3& b) { return {a.x + b.x, a.y + b.y, a.z + b.z}; }

SPLAT_HD Vec3 scaled(float s, const Vec3& v) { return {s * v.x, s * v.y, s * v.z}; }

// s a + t b
SPLAT_HD Vec3 combined(float s, const Vec3& a, float t, const Vec3& b) {
  return {s * a.x + t * b.x, s * a.y + t * b.y, s * a.z + t * b.z};
}

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

SPLAT_HD Vec3 multiply(const Sym3& m, const Vec3& v) {
  return {m.xx * v.x + m.xy * v.y + m.xz * v.z, m.xy * v.x + m.yy * v.y + m.yz * v.z,
          m.xz * v.x + m.yz * v.y + m.zz * v.z};
}

struct Quaternion {
  float w;
  Vec3 v;
};

// Normalises a quaternion (w, x, y, z); also gives one over its length. Returns false for one that is not a rotation:
// zero, or so short or long that the square of its length is not a normal number.
SPLAT_HD bool unit_quaternion(const float* quat, Quaternion& unit, float& inverse_length) {
  const float length2 = quat[0] * quat[0] + quat[1] * quat[1] + quat[2] * quat[2] + quat[3] * quat[3];
  if (!(length2 >= 1.175494351e-38f && is_finite(length2))) return false;
  inverse_length = 1.0f / square_root(length2);
  unit = {quat[0] * inverse_length,
          {quat[1] * inverse_length, quat[2] * inverse_length, quat[3] * inverse_length}};
  return true;
}

SPLAT_HD Mat3 rotation(const Quaternion& unit) {
  const float w = unit.w, x = unit.v.x, y = unit.v.y, z = unit.v.z;
  return {{{1.0f - 2.0f * (y * y + z * z), 2.0f * (x * y - w * z), 2.0f * (x * z + w * y)},
           {2.0f * (x * y + w * z), 1.0f - 2.0f * (x * x + z * z), 2.0f * (y * z - w * x)},
           {2.0f * (x * z - w * y), 2.0f * (y * z + w * x), 1.0f - 2.0f * (x * x + y * y)}}};
}

}  // namespace splat
