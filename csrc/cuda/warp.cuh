// What kernels share: the index of a thread, sums over a warp, bisection, arithmetic.
#pragma once

#include "../math/platform.h"

namespace splat {
namespace kernels {

constexpr int kWarp = 32;
constexpr unsigned int kAllLanes = 0xffffffffu;

// The index of this thread in the launch.
static __device__ __forceinline__ int64_t thread_index() {
  return static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
}

// Sets this thread's share of numbers to 0.
template <class T>
static __device__ __forceinline__ void clear(T* numbers, int64_t count) {
  const int64_t threads = int64_t{gridDim.x} * blockDim.x;
  for (int64_t i = thread_index(); i < count; i += threads) numbers[i] = 0;
}

// The sum over the warp, in lane 0. Always added in the same order.
template <class T>
static __device__ __forceinline__ T warp_sum(T value) {
  for (int step = kWarp / 2; step > 0; step /= 2) value += __shfl_down_sync(kAllLanes, value, step);
  return value;
}

// The sum over this lane and those below it.
static __device__ __forceinline__ int inclusive_sum(int value) {
  for (int step = 1; step < kWarp; step *= 2) {
    const int below = __shfl_up_sync(kAllLanes, value, step);
    if (static_cast<int>(threadIdx.x % kWarp) >= step) value += below;
  }
  return value;
}

// The first lane whose value is above `limit`, which may differ between lanes; the last lane if there is none.
// Precondition: values ascend.
static __device__ __forceinline__ int first_above(int value, int limit) {
  int lane = 0;
  for (int step = kWarp / 2; step > 0; step /= 2) {
    if (__shfl_sync(kAllLanes, value, lane + step - 1) <= limit) lane += step;
  }
  return lane;
}

// A value that another lane has, of 32-bit words.
template <class T>
static __device__ __forceinline__ T from_lane(const T& value, int lane) {
  static_assert(sizeof(T) % sizeof(int) == 0, "whole words");
  int words[sizeof(T) / sizeof(int)];
  __builtin_memcpy(words, &value, sizeof value);
  for (int& word : words) word = __shfl_sync(kAllLanes, word, lane);
  T found;
  __builtin_memcpy(&found, words, sizeof found);
  return found;
}

// The position of the first of the keys [count] that is not less than `key`; `count` if there is none. Precondition:
// those that are less come first.
SPLAT_HD int64_t lower_bound(const uint32_t* keys, int64_t count, int64_t key) {
  int64_t low = 0, high = count;
  while (low < high) {
    const int64_t middle = low + (high - low) / 2;
    if (keys[middle] < key) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return low;
}

// a * b + c rounded once. Files that use it are compiled without contraction, so that whatever decides about a blend is
// the same in every kernel and on the CPU; sums use this fused operation explicitly.
SPLAT_HD float fused(float a, float b, float c) {
#if defined(__CUDA_ARCH__)
  return fmaf(a, b, c);
#else
  return __builtin_fmaf(a, b, c);
#endif
}

// 2^x, with a relative error of 2^-22; 0 where the result would be subnormal.
static __device__ __forceinline__ float power_of_two(float x) {
#if defined(__CUDA_ARCH__)
  float power;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(power) : "f"(x));
  return power;
#else
  return __builtin_exp2f(x);
#endif
}

// 1 / x, with a relative error of 2^-23, for x of ordinary size.
static __device__ __forceinline__ float reciprocal(float x) {
#if defined(__CUDA_ARCH__)
  float inverse;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(inverse) : "f"(x));
  return inverse;
#else
  return 1.0f / x;
#endif
}

// a * b in 64 bits.
static __device__ __forceinline__ int64_t wide_product(int32_t a, int32_t b) {
#if defined(__CUDA_ARCH__)
  int64_t product;
  asm("mul.wide.s32 %0, %1, %2;" : "=l"(product) : "r"(a), "r"(b));
  return product;
#else
  return int64_t{a} * b;
#endif
}

// Adds to a number in global memory; without being told so, nvcc makes code for other memory too.
static __device__ __forceinline__ void add_to_global(float* to, float value) {
#if defined(__CUDA_ARCH__)
  asm volatile("red.relaxed.gpu.global.add.f32 [%0], %1;" ::"l"(__cvta_generic_to_global(to)), "f"(value) : "memory");
#else
  atomicAdd(to, value);
#endif
}

// A word of global memory, of 32 or 64 bits, that other blocks read and write meanwhile: the whole of it, in no order
// with other words.
static __device__ __forceinline__ uint32_t load_relaxed(const uint32_t* from) {
#if defined(__CUDA_ARCH__)
  uint32_t value;
  asm volatile("ld.relaxed.gpu.global.u32 %0, [%1];" : "=r"(value) : "l"(__cvta_generic_to_global(from)) : "memory");
  return value;
#else
  return *from;
#endif
}

static __device__ __forceinline__ unsigned long long load_relaxed(const unsigned long long* from) {
#if defined(__CUDA_ARCH__)
  unsigned long long value;
  asm volatile("ld.relaxed.gpu.global.u64 %0, [%1];" : "=l"(value) : "l"(__cvta_generic_to_global(from)) : "memory");
  return value;
#else
  return *from;
#endif
}

static __device__ __forceinline__ void store_relaxed(uint32_t* to, uint32_t value) {
#if defined(__CUDA_ARCH__)
  asm volatile("st.relaxed.gpu.global.u32 [%0], %1;" ::"l"(__cvta_generic_to_global(to)), "r"(value) : "memory");
#else
  *to = value;
#endif
}

static __device__ __forceinline__ void store_relaxed(unsigned long long* to, unsigned long long value) {
#if defined(__CUDA_ARCH__)
  asm volatile("st.relaxed.gpu.global.u64 [%0], %1;" ::"l"(__cvta_generic_to_global(to)), "l"(value) : "memory");
#else
  *to = value;
#endif
}

}  // namespace kernels
}  // namespace splat
