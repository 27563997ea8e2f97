#pragma once

#include "../math/find_finite_rows.h"
#include "warp.cuh"

namespace splat {
namespace kernels {

// One thread per Gaussian: finite [B, N], and the number of those that are not, added to *invalid. Preconditions:
// contiguous arrays of the shapes in find_finite_rows.h, B N < 2^31, whole warps.
__global__ void find_finite(FiniteInputs in, bool* finite, unsigned long long* invalid) {
  const int64_t i = thread_index();
  const bool exists = i < in.scenes * in.gaussians;
  const bool good = exists && is_finite_gaussian(in, i);
  if (exists) finite[i] = good;
  const unsigned int bad = __ballot_sync(kAllLanes, exists && !good);
  if (threadIdx.x % kWarp == 0 && bad != 0) atomicAdd(invalid, static_cast<unsigned long long>(__popc(bad)));
}

}  // namespace kernels
}  // namespace splat
