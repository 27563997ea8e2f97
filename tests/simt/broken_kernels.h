// Kernels that are wrong, each in one way, to show that the errors are found; and some that are right and nearly wrong.
// `in` has 64 numbers and `out` 64 for each block; blocks have 64 threads.
#pragma once

#include "simt.h"

namespace simt_broken {

__global__ void read_past_the_end(const float* in, float* out) { out[threadIdx.x] = in[threadIdx.x + 1]; }

__global__ void write_before_the_start(const float* in, float* out) {
  const float value = in[threadIdx.x];
  out[static_cast<int>(threadIdx.x) - 1] = value;
}

__global__ void read_null(const float* in, float* out) {
  if (threadIdx.x == 9) out[9] = *(in - reinterpret_cast<intptr_t>(in) / 4);
}

__global__ void shared_past_the_end(const float* in, float* out) {
  __shared__ float line[64];
  line[threadIdx.x + 1] = in[threadIdx.x];
  __syncthreads();
  out[threadIdx.x] = line[threadIdx.x];
}

__global__ void dynamic_past_the_end(const float* in, float* out) {
  extern __shared__ float dynamic[];
  dynamic[threadIdx.x] = in[threadIdx.x];
  __syncthreads();
  out[threadIdx.x] = dynamic[63 - threadIdx.x];
}

__global__ void shared_not_written(const float* in, float* out) {
  __shared__ float line[64];
  if (threadIdx.x != 5 || blockIdx.x == 0) line[threadIdx.x] = in[threadIdx.x];
  __syncthreads();
  out[64 * blockIdx.x + threadIdx.x] = line[threadIdx.x];
}

__global__ void shared_without_barrier(const float* in, float* out) {
  __shared__ float line[64];
  line[threadIdx.x] = in[threadIdx.x];
  out[threadIdx.x] = line[63 - threadIdx.x];
}

__global__ void shared_overwritten_early(const float* in, float* out) {
  __shared__ float line[64];
  for (int turn = 0; turn < 2; ++turn) {
    line[threadIdx.x] = in[threadIdx.x];
    __syncthreads();
    out[threadIdx.x] = line[63 - threadIdx.x];
  }
}

__global__ void warp_without_barrier(const float* in, float* out) {
  __shared__ float line[64];
  line[threadIdx.x] = in[threadIdx.x];
  __ballot_sync(0xffffffffu, 1);  // no barrier for memory
  out[threadIdx.x] = line[threadIdx.x ^ 1];
}

__global__ void two_threads_write(const float* in, float* out) { out[threadIdx.x / 2] = in[threadIdx.x]; }

__global__ void two_blocks_write(const float* in, float* out) { out[threadIdx.x] = in[threadIdx.x]; }

__global__ void atomic_and_plain(const float* in, float* out) {
  if (threadIdx.x < 63) {
    atomicAdd(out, in[threadIdx.x]);
  } else {
    out[0] = 1.0f;
  }
}

__global__ void barrier_after_return(const float* in, float* out) {
  if (threadIdx.x == 40) return;
  __syncthreads();
  out[threadIdx.x] = in[threadIdx.x];
}

__global__ void two_barriers(const float* in, float* out) {
  if (threadIdx.x < 32) {
    __syncthreads();
  } else {
    __syncthreads();
  }
  out[threadIdx.x] = in[threadIdx.x];
}

__global__ void ballot_without_all(const float* in, float* out) {
  if (threadIdx.x % 32 == 7) return;
  out[threadIdx.x] = __ballot_sync(0xffffffffu, in[threadIdx.x] > 0) != 0;
}

__global__ void warps_at_different_functions(const float* in, float* out) {
  if (threadIdx.x % 2 == 0) {
    out[threadIdx.x] = __any_sync(0xffffffffu, in[threadIdx.x] > 0);
  } else {
    out[threadIdx.x] = __any_sync(0xffffffffu, in[threadIdx.x] < 0);
  }
}

__global__ void mask_leaves_itself_out(const float* in, float* out) {
  out[threadIdx.x] = __shfl_sync(0xfffffffeu, in[threadIdx.x], 1);
}

__global__ void shuffle_from_outside(const float* in, float* out) {
  if (threadIdx.x % 32 >= 16) return;
  out[threadIdx.x] = __shfl_sync(0x0000ffffu, in[threadIdx.x], 20);
}

__global__ void warp_overwrites_early(const float* in, float* out) {
  __shared__ float line[64];
  line[threadIdx.x] = in[threadIdx.x];
  __syncwarp();
  out[threadIdx.x] = line[threadIdx.x / 32 * 32];
  if (threadIdx.x % 32 == 31) line[threadIdx.x - 31] = 0;
}

__global__ void warps_read_and_one_overwrites(const float* in, float* out) {
  __shared__ float line[64];
  line[threadIdx.x] = in[threadIdx.x];
  __syncthreads();
  if (threadIdx.x < 32) __syncwarp();
  out[threadIdx.x] = line[5];
  __syncwarp();
  if (threadIdx.x == 40) line[5] = 0;
}

// Right: every function that kernels may call, at work.
__global__ void all_is_well(const float* in, float* out) {
  __shared__ float line[64];
  __shared__ int largest, smallest;
  const unsigned int all = 0xffffffffu;
  const int thread = static_cast<int>(threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z));
  const int lane = thread % 32;
  if (thread == 0) largest = smallest = 0;
  line[thread] = in[thread];
  __syncwarp();
  const float neighbour = line[thread ^ 1], first_of_warp = line[thread - lane];
  __syncwarp();
  if (lane == 31) line[thread - lane] = first_of_warp;
  __syncthreads();
  atomicMax(&largest, thread);
  atomicMin(&smallest, -thread);
  bool good = neighbour == in[thread ^ 1];
  good = good && __syncthreads_count(lane == 3) == 2 && __syncthreads_and(thread < 64) && !__syncthreads_and(thread < 63);
  good = good && __syncthreads_or(thread == 50) && !__syncthreads_or(thread > 63);
  good = good && largest == 63 && smallest == -63;
  good = good && __ballot_sync(all, lane == 4 || lane == 31) == 0x80000010u && __popc(0x80000010u) == 2;
  good = good && __ffs(0x10) == 5 && __any_sync(all, lane == 9) && !__all_sync(all, lane == 9);
  good = good && __shfl_sync(all, lane, 7) == 7 && __shfl_xor_sync(all, lane, 3) == (lane ^ 3);
  good = good && __shfl_up_sync(all, lane, 1) == (lane == 0 ? 0 : lane - 1);
  good = good && __shfl_down_sync(all, static_cast<long long>(lane), 2) == (lane > 29 ? lane : lane + 2);
  const auto number = static_cast<unsigned int>(lane);
  good = good && __reduce_add_sync(all, number) == 496 && __reduce_max_sync(all, number) == 31;
  good = good && __reduce_min_sync(all, number + 5) == 5 && (__activemask() >> lane & 1) == 1;
  if (lane < 4) good = good && __ballot_sync(0xfu, lane < 2) == 3;
  const unsigned int block = blockIdx.x + gridDim.x * (blockIdx.y + gridDim.y * blockIdx.z);
  out[block * 64 + static_cast<unsigned int>(thread)] = good;
}

}  // namespace simt_broken

#define SIMT_BROKEN_KERNELS(KERNEL)    \
  KERNEL(read_past_the_end)            \
  KERNEL(write_before_the_start)       \
  KERNEL(read_null)                    \
  KERNEL(shared_past_the_end)          \
  KERNEL(dynamic_past_the_end)         \
  KERNEL(shared_not_written)           \
  KERNEL(shared_without_barrier)       \
  KERNEL(shared_overwritten_early)     \
  KERNEL(warp_without_barrier)         \
  KERNEL(warp_overwrites_early)        \
  KERNEL(warps_read_and_one_overwrites) \
  KERNEL(two_threads_write)            \
  KERNEL(two_blocks_write)             \
  KERNEL(atomic_and_plain)             \
  KERNEL(barrier_after_return)         \
  KERNEL(two_barriers)                 \
  KERNEL(ballot_without_all)           \
  KERNEL(warps_at_different_functions) \
  KERNEL(mask_leaves_itself_out)       \
  KERNEL(shuffle_from_outside)         \
  KERNEL(all_is_well)

// Compiled with checks in broken_kernels.cpp; others reach them by these pointers.
#define SIMT_DECLARE(name) extern void (*const simt_##name)(const float*, float*);
SIMT_BROKEN_KERNELS(SIMT_DECLARE)
#undef SIMT_DECLARE
