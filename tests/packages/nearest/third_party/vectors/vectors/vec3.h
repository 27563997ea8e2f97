// A vector of three floats, for the host and for the device.
#pragma once

#ifdef __CUDACC__
#define VECTORS_BOTH __host__ __device__
#else
#define VECTORS_BOTH
#endif

namespace vectors {

struct Vec3 {
  float x, y, z;
};

VECTORS_BOTH inline float squared_distance(Vec3 a, Vec3 b) {
  return (a.x - b.x) * (a.x - b.x) + (a.y - b.y) * (a.y - b.y) + (a.z - b.z) * (a.z - b.z);
}

}  // namespace vectors
