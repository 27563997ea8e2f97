// The kernels that the tests run: KERNEL(name in Python, function).
#pragma once

#include "simt.h"
// After it, what stands for nvcc.
#include "broken_kernels.h"
#include "cuda/find_finite_kernel.cuh"
#include "cuda/intersect_kernels.cuh"
#include "cuda/project_kernel.cuh"
#include "cuda/rasterize_differentiate_kernel.cuh"
#include "cuda/rasterize_kernel.cuh"
#include "cuda/rasterize_replay_kernels.cuh"
#include "cuda/rasterize_sums_kernels.cuh"
#include "cuda/spherical_harmonics_kernel.cuh"

// The numbers of channels that csrc/cuda/channels.h chooses from.
#define SIMT_FOR_CHANNELS(KERNEL, name)       \
  KERNEL(name##_3, splat::kernels::name<3>)   \
  KERNEL(name##_4, splat::kernels::name<4>)   \
  KERNEL(name##_8, splat::kernels::name<8>)   \
  KERNEL(name##_32, splat::kernels::name<32>)

#define SIMT_KERNELS(KERNEL)                                                \
  KERNEL(project, splat::kernels::project)                                  \
  KERNEL(project_backward, splat::kernels::project_backward)                \
  KERNEL(sum_poses, splat::kernels::sum_poses)                              \
  KERNEL(spherical_harmonics, splat::kernels::spherical_harmonics)          \
  KERNEL(spherical_harmonics_backward, splat::kernels::spherical_harmonics_backward) \
  KERNEL(find_finite, splat::kernels::find_finite)                          \
  KERNEL(count_tiles, splat::kernels::count_tiles)                          \
  KERNEL(order_counts, splat::kernels::order_counts)                        \
  KERNEL(emit_pairs, splat::kernels::emit_pairs)                            \
  KERNEL(write_keys, splat::kernels::write_keys)                            \
  KERNEL(find_offsets, splat::kernels::find_offsets)                        \
  SIMT_FOR_CHANNELS(KERNEL, rasterize)                                      \
  KERNEL(count_blocks, splat::kernels::count_blocks)                        \
  SIMT_FOR_CHANNELS(KERNEL, replay)                                         \
  SIMT_FOR_CHANNELS(KERNEL, differentiate)                                  \
  KERNEL(number_positions, splat::kernels::number_positions)                \
  KERNEL(sum_slots, splat::kernels::sum_slots)                              \
  KERNEL(slice_background, splat::kernels::slice_background)                \
  KERNEL(sum_slices, splat::kernels::sum_slices)                            \
  SIMT_BROKEN_KERNELS(KERNEL)

// Compiled with checks in kernels.cpp; others reach them by these pointers.
#define SIMT_DECLARE(name, function) extern decltype(&function) const simt_##name;
SIMT_KERNELS(SIMT_DECLARE)
#undef SIMT_DECLARE
