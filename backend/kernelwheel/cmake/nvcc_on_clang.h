// Included before each source where clang is in nvcc's place: what nvcc's own headers give host code, and clang's do not.
#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <new>

// clang makes those of CUDA's headers for the GPU alone.
#define NVCC_ON_CLANG_OF_INTEGERS(name, sign, type)                                                                    \
  static inline __host__ type name(type a, type b) { return a sign b ? a : b; }                                        \
  static inline __host__ unsigned type name(unsigned type a, unsigned type b) { return a sign b ? a : b; }             \
  static inline __host__ unsigned type name(type a, unsigned type b) { return name((unsigned type)a, b); }             \
  static inline __host__ unsigned type name(unsigned type a, type b) { return name(a, (unsigned type)b); }
#define NVCC_ON_CLANG_OF_NUMBERS(name, sign)                                                                           \
  NVCC_ON_CLANG_OF_INTEGERS(name, sign, int)                                                                           \
  NVCC_ON_CLANG_OF_INTEGERS(name, sign, long)                                                                          \
  NVCC_ON_CLANG_OF_INTEGERS(name, sign, long long)                                                                     \
  static inline __host__ float name(float a, float b) { return f##name##f(a, b); }                                     \
  static inline __host__ double name(double a, double b) { return f##name(a, b); }                                     \
  static inline __host__ double name(float a, double b) { return f##name(a, b); }                                      \
  static inline __host__ double name(double a, float b) { return f##name(a, b); }
NVCC_ON_CLANG_OF_NUMBERS(min, <)
NVCC_ON_CLANG_OF_NUMBERS(max, >)
#undef NVCC_ON_CLANG_OF_NUMBERS
#undef NVCC_ON_CLANG_OF_INTEGERS

// libdevice's square root is an approximation unless nvcc says otherwise (libdevice user's guide, "__CUDA_PREC_SQRT"),
// and clang has no way to say it. clang's own root is IEEE's.
#if NVCC_PREC_SQRT
extern "C" inline __device__ float __nv_sqrtf(float x) { return __builtin_sqrtf(x); }
#endif
