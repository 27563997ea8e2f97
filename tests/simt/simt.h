// Runs CUDA kernels as host C++, to prove them without a GPU: every thread of a block is a fibre.
//
// This header is what nvcc knows by itself: keywords, built-in variables and functions. Those kernels that are wrong on
// purpose (broken_kernels.h) are compiled with it and -fsanitize=thread, whose calls at each access to memory come to
// engine.cpp, not to the sanitizer's library; PTX announces its accesses by itself (ptx.h).
#pragma once

#include <math.h>
#include <stdint.h>
#include <string.h>

#define __global__ static
#define __device__
#define __host__
#define __forceinline__ inline
#define __launch_bounds__(...)
// Static where it is local, as shared memory is, and allowed with `extern`; then the namespace must define it too. The
// gap behind each array makes an index that is too large miss the next one.
#define __shared__ __attribute__((aligned(65536))) thread_local

namespace simt {

struct Index {
  unsigned int x, y, z;
};

enum class BlockOp { kSync, kCount, kAnd, kOr };
enum class WarpOp { kSync, kBallot, kShuffle, kShuffleUp, kShuffleDown, kShuffleXor, kAdd, kMinimum, kMaximum, kMatch,
                    kActive };

Index thread_index();
Index block_index();
Index block_size();
Index grid_size();

// Waits for all threads of the block; `file` and `line` say which barrier it is.
int block_barrier(BlockOp op, int predicate, const char* file, int line);
// Waits for all lanes of the mask; `value` is this lane's part, `lane` a shuffle's argument.
uint64_t warp_collective(WarpOp op, unsigned int mask, uint64_t value, int lane, const char* file, int line);
// The lanes of this warp that are here when none of the block can go on without them.
unsigned int active_lanes(const char* file, int line);
// Announces an atomic access; must be followed by it without switching threads, which only collectives do.
void atomic_access(const void* address, int size);

template <class T>
T shuffle(WarpOp op, unsigned int mask, T value, int lane, const char* file, int line) {
  static_assert(sizeof(T) == 4 || sizeof(T) == 8, "CUDA shuffles words of 4 or 8 bytes");
  uint64_t bits = 0;
  __builtin_memcpy(&bits, &value, sizeof value);
  bits = warp_collective(op, mask, bits, lane, file, line);
  __builtin_memcpy(&value, &bits, sizeof value);
  return value;
}

template <class T, class Update>
__attribute__((no_sanitize("thread"))) T atomic(T* address, const Update& update) {
  atomic_access(address, sizeof(T));
  const T before = *address;
  *address = update(before);
  return before;
}

}  // namespace simt

#define threadIdx (simt::thread_index())
#define blockIdx (simt::block_index())
#define blockDim (simt::block_size())
#define gridDim (simt::grid_size())

// The place of a call, taken where the call is written.
#define SIMT_SITE const char *file = __builtin_FILE(), int line = __builtin_LINE()

inline void __syncthreads(SIMT_SITE) { simt::block_barrier(simt::BlockOp::kSync, 0, file, line); }
inline int __syncthreads_count(int predicate, SIMT_SITE) {
  return simt::block_barrier(simt::BlockOp::kCount, predicate, file, line);
}
inline int __syncthreads_and(int predicate, SIMT_SITE) {
  return simt::block_barrier(simt::BlockOp::kAnd, predicate, file, line);
}
inline int __syncthreads_or(int predicate, SIMT_SITE) {
  return simt::block_barrier(simt::BlockOp::kOr, predicate, file, line);
}

inline void __syncwarp(unsigned int mask = 0xffffffffu, SIMT_SITE) {
  simt::warp_collective(simt::WarpOp::kSync, mask, 0, 0, file, line);
}
inline unsigned int __activemask(SIMT_SITE) { return simt::active_lanes(file, line); }
inline unsigned int __ballot_sync(unsigned int mask, int predicate, SIMT_SITE) {
  return static_cast<unsigned int>(simt::warp_collective(simt::WarpOp::kBallot, mask, predicate != 0, 0, file, line));
}
inline int __any_sync(unsigned int mask, int predicate, SIMT_SITE) {
  return __ballot_sync(mask, predicate, file, line) != 0;
}
inline int __all_sync(unsigned int mask, int predicate, SIMT_SITE) {
  return __ballot_sync(mask, predicate, file, line) == mask;
}
template <class T>
T __shfl_sync(unsigned int mask, T value, int lane, SIMT_SITE) {
  return simt::shuffle(simt::WarpOp::kShuffle, mask, value, lane, file, line);
}
template <class T>
T __shfl_up_sync(unsigned int mask, T value, int step, SIMT_SITE) {
  return simt::shuffle(simt::WarpOp::kShuffleUp, mask, value, step, file, line);
}
template <class T>
T __shfl_down_sync(unsigned int mask, T value, int step, SIMT_SITE) {
  return simt::shuffle(simt::WarpOp::kShuffleDown, mask, value, step, file, line);
}
template <class T>
T __shfl_xor_sync(unsigned int mask, T value, int lanes, SIMT_SITE) {
  return simt::shuffle(simt::WarpOp::kShuffleXor, mask, value, lanes, file, line);
}
inline unsigned int __reduce_add_sync(unsigned int mask, unsigned int value, SIMT_SITE) {
  return static_cast<unsigned int>(simt::warp_collective(simt::WarpOp::kAdd, mask, value, 0, file, line));
}
inline unsigned int __reduce_min_sync(unsigned int mask, unsigned int value, SIMT_SITE) {
  return static_cast<unsigned int>(simt::warp_collective(simt::WarpOp::kMinimum, mask, value, 0, file, line));
}
inline unsigned int __reduce_max_sync(unsigned int mask, unsigned int value, SIMT_SITE) {
  return static_cast<unsigned int>(simt::warp_collective(simt::WarpOp::kMaximum, mask, value, 0, file, line));
}

inline float atomicAdd(float* address, float value) {
  return simt::atomic(address, [&](float before) { return before + value; });
}
inline int atomicAdd(int* address, int value) {
  return simt::atomic(address, [&](int before) { return before + value; });
}
inline unsigned int atomicAdd(unsigned int* address, unsigned int value) {
  return simt::atomic(address, [&](unsigned int before) { return before + value; });
}
inline unsigned long long atomicAdd(unsigned long long* address, unsigned long long value) {
  return simt::atomic(address, [&](unsigned long long before) { return before + value; });
}
inline int atomicMax(int* address, int value) {
  return simt::atomic(address, [&](int before) { return before < value ? value : before; });
}
inline int atomicMin(int* address, int value) {
  return simt::atomic(address, [&](int before) { return before > value ? value : before; });
}

inline int __popc(unsigned int bits) { return __builtin_popcount(bits); }
inline int __ffs(int bits) { return __builtin_ffs(bits); }
inline int __clz(int bits) { return bits == 0 ? 32 : __builtin_clz(static_cast<unsigned int>(bits)); }
