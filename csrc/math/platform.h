// What allows one header to be compiled by host compilers and by nvcc: the function qualifier and the few library
// functions in use.
//
// Every function has internal linkage. The rasterizer is compiled once per instruction set, and the linker could merge
// functions with external linkage across those objects, so that a copy compiled for a new CPU would run on an old one.
// For the same reason nothing here includes the C++ standard library, and structs have no member functions.
#pragma once

#include <stdint.h>

#if defined(__CUDACC__)
#define SPLAT_HD static __host__ __device__ __forceinline__
#else
#define SPLAT_HD static inline __attribute__((always_inline))
#endif

namespace splat {

SPLAT_HD float square_root(float x) {
#if defined(__CUDA_ARCH__)
  return sqrtf(x);
#else
  return __builtin_sqrtf(x);
#endif
}

SPLAT_HD float natural_log(float x) {
#if defined(__CUDA_ARCH__)
  return logf(x);
#else
  return __builtin_logf(x);
#endif
}

SPLAT_HD float round_up(float x) {
#if defined(__CUDA_ARCH__)
  return ceilf(x);
#else
  return __builtin_ceilf(x);
#endif
}

SPLAT_HD float round_down(float x) {
#if defined(__CUDA_ARCH__)
  return floorf(x);
#else
  return __builtin_floorf(x);
#endif
}

SPLAT_HD float minimum(float a, float b) { return a < b ? a : b; }

SPLAT_HD float maximum(float a, float b) { return a > b ? a : b; }

SPLAT_HD float absolute(float x) { return x < 0.0f ? -x : x; }

// Clamps to [low, high]; NaN gives low.
SPLAT_HD float clamp(float x, float low, float high) { return x > low ? (x < high ? x : high) : low; }

// False for infinities and NaN, also where the compiler may assume that comparisons do not trap.
SPLAT_HD bool is_finite(float x) { return absolute(x) <= 3.402823466e+38f; }

// The bits of a float as an unsigned integer. Floats that are not negative have the same order as their bits.
SPLAT_HD uint32_t float_bits(float x) {
#if defined(__CUDA_ARCH__)
  return __float_as_uint(x);
#else
  uint32_t bits;
  __builtin_memcpy(&bits, &x, sizeof bits);
  return bits;
#endif
}

// What one memory access can move if the address is a multiple of 16. It may alias any floats.
struct __attribute__((__may_alias__, __aligned__(16))) FourFloats {
  float values[4];
};

SPLAT_HD bool is_aligned(const float* values) { return reinterpret_cast<uintptr_t>(values) % sizeof(FourFloats) == 0; }

SPLAT_HD void load_four(const float* from, float* to) {
  const FourFloats four = *reinterpret_cast<const FourFloats*>(from);
  for (int i = 0; i < 4; ++i) to[i] = four.values[i];
}

SPLAT_HD void store_four(const float* from, float* to) {
  *reinterpret_cast<FourFloats*>(to) = {{from[0], from[1], from[2], from[3]}};
}

}  // namespace splat
