// Vectors of floats, as the sources of the CPU's inner loops use them. Those are included once per instruction set, by
// lanes_baseline.cpp, lanes_avx2.cpp and lanes_avx512.cpp: SPLAT_ISA is the namespace, SPLAT_LANES the floats in a
// register.
//
// Rules for this file and those sources: no C++ standard library and only functions with internal linkage (see
// math/platform.h); only operations that IEEE 754 rounds correctly, fused where `fused` says so and nowhere else
// (-ffp-contract=off), so that AVX2, AVX-512 and NEON give the same numbers to the last bit.
#pragma once

#if defined(__SSE2__)
#include <immintrin.h>
#elif defined(__aarch64__)
#include <arm_neon.h>
#endif

#include "../math/platform.h"

namespace splat {
namespace SPLAT_ISA {
namespace {

constexpr int kLanes = SPLAT_LANES;

typedef float Floats __attribute__((vector_size(4 * kLanes)));
typedef int32_t Ints __attribute__((vector_size(4 * kLanes)));
typedef uint32_t Words __attribute__((vector_size(4 * kLanes)));

// AVX-512 compares into a register of one bit per lane; elsewhere, a true lane has all bits set.
#if SPLAT_LANES == 16
typedef __mmask16 Mask;
SPLAT_HD Mask greater(Floats a, Floats b) { return _mm512_cmp_ps_mask((__m512)a, (__m512)b, _CMP_GT_OQ); }
SPLAT_HD Mask at_least(Floats a, Floats b) { return _mm512_cmp_ps_mask((__m512)a, (__m512)b, _CMP_GE_OQ); }
SPLAT_HD Mask at_least(Ints a, int32_t b) { return _mm512_cmpge_epi32_mask((__m512i)a, _mm512_set1_epi32(b)); }
SPLAT_HD uint32_t bits(Mask mask) { return mask; }
SPLAT_HD Floats select(Mask mask, Floats a, Floats b) { return (Floats)_mm512_mask_mov_ps((__m512)b, mask, (__m512)a); }
SPLAT_HD Ints select(Mask mask, Ints a, Ints b) { return (Ints)_mm512_mask_mov_epi32((__m512i)b, mask, (__m512i)a); }
SPLAT_HD Floats negate_where(Mask mask, Floats x) {
  return (Floats)_mm512_mask_xor_ps((__m512)x, mask, (__m512)x, _mm512_set1_ps(-0.0f));
}
SPLAT_HD Floats smaller(Floats a, Floats b) { return (Floats)_mm512_min_ps((__m512)a, (__m512)b); }
SPLAT_HD Mask between_zero_and(Floats limit, Floats x) { return _mm512_cmple_epu32_mask((__m512i)x, (__m512i)limit); }
SPLAT_HD Floats fused(Floats a, Floats b, Floats c) { return (Floats)_mm512_fmadd_ps((__m512)a, (__m512)b, (__m512)c); }
SPLAT_HD Floats add_product_where(Mask mask, Floats a, Floats b, Floats c) {
  return (Floats)_mm512_mask3_fmadd_ps((__m512)a, (__m512)b, (__m512)c, mask);
}
#else
typedef Ints Mask;
SPLAT_HD Mask greater(Floats a, Floats b) { return a > b; }
SPLAT_HD Mask at_least(Floats a, Floats b) { return a >= b; }
SPLAT_HD Mask at_least(Ints a, int32_t b) { return a >= b; }
SPLAT_HD uint32_t bits(Mask mask) {
#if SPLAT_LANES == 8
  return static_cast<uint32_t>(_mm256_movemask_ps((__m256)mask));
#elif defined(__SSE2__)
  return static_cast<uint32_t>(_mm_movemask_ps((__m128)mask));
#elif defined(__aarch64__)
  const uint32x4_t places = {1, 2, 4, 8};
  return vaddvq_u32(vandq_u32((uint32x4_t)mask, places));
#else
  return (mask[0] & 1) | (mask[1] & 2) | (mask[2] & 4) | (mask[3] & 8);
#endif
}
SPLAT_HD Floats select(Mask mask, Floats a, Floats b) { return mask ? a : b; }
SPLAT_HD Ints select(Mask mask, Ints a, Ints b) { return mask ? a : b; }
SPLAT_HD Floats negate_where(Mask mask, Floats x) { return (Floats)((Words)x ^ ((Words)mask & 0x80000000u)); }
// `b` where one is NaN.
SPLAT_HD Floats smaller(Floats a, Floats b) { return a < b ? a : b; }
// 0 <= x <= limit, by the bits of both: false for -0 and NaN.
SPLAT_HD Mask between_zero_and(Floats limit, Floats x) { return ((Ints)x >= 0) & ((Ints)limit >= (Ints)x); }
// a * b + c, rounded once; twice on an x86-64 without AVX2.
SPLAT_HD Floats fused(Floats a, Floats b, Floats c) {
#if SPLAT_LANES == 8
  return (Floats)_mm256_fmadd_ps((__m256)a, (__m256)b, (__m256)c);
#elif defined(__aarch64__)
  return (Floats)vfmaq_f32((float32x4_t)c, (float32x4_t)a, (float32x4_t)b);
#else
  return a * b + c;
#endif
}
// fused(a, b, c) where the mask is true, else c.
SPLAT_HD Floats add_product_where(Mask mask, Floats a, Floats b, Floats c) { return select(mask, fused(a, b, c), c); }
#endif

SPLAT_HD bool any(Mask mask) { return bits(mask) != 0; }

// Subtracting zero changes nothing, and the compiler knows it; adding zero would change -0.
SPLAT_HD Floats splat_lanes(float x) { return x - Floats{}; }

SPLAT_HD Floats magnitude(Floats x) { return (Floats)((Words)x & 0x7fffffffu); }

}  // namespace
}  // namespace SPLAT_ISA
}  // namespace splat
