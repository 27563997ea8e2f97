// Launching the kernels that walk patches of pixels (patch_walk.cuh).
#pragma once

#include "channels.h"
#include "grid_launch.h"
#include "patch_walk.cuh"

namespace splat {

// Launches a kernel with the threads of patch_threads, once for each `most` channels; its last two arguments are the first
// of these and how many there are.
template <class Kernel, class... Arguments>
cudaError_t launch_patches(cudaStream_t stream, const RasterizeInputs& lists, int most, Kernel kernel,
                           const Arguments&... arguments) {
  return for_each_chunk(lists.channels, most, [&](auto, int64_t first, int channels) {
    return launch_each(stream, kernels::patch_threads(lists), kernel, arguments..., first, channels);
  });
}

}  // namespace splat
