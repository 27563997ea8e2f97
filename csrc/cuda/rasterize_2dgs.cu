// The launches of the kernels in rasterize_2dgs_kernels.cuh.
#include "channels.h"
#include "grid_launch.h"
#include "host_functions.h"
#include "rasterize_2dgs_kernels.cuh"

namespace splat {

cudaError_t launch_load_surfels(cudaStream_t stream, const Rasterize2dgsInputs& in, float* surfels) {
  return launch_each(stream, in.lists.count, kernels::load_surfels, in, reinterpret_cast<Surfel*>(surfels));
}

cudaError_t launch_rasterize_2dgs(cudaStream_t stream, const Rasterize2dgsInputs& in, const float* surfels,
                                  const Rasterize2dgsOutputs& out) {
  const auto discs = reinterpret_cast<const Surfel*>(surfels);
  return for_each_chunk(in.lists.channels, kernels::kSurfelChannels, [&](auto, int64_t first, int channels) {
    return launch_each(stream, kernels::patch_threads(in.lists), kernels::rasterize_2dgs, in, discs, out, first,
                       channels);
  });
}

cudaError_t launch_differentiate_2dgs(cudaStream_t stream, const Rasterize2dgsInputs& in, const float* surfels,
                                      const Rasterize2dgsGradients& gradients,
                                      const Rasterize2dgsGradientOutputs& out) {
  const auto discs = reinterpret_cast<const Surfel*>(surfels);
  return for_each_chunk(in.lists.channels, kernels::kSurfelChannels, [&](auto, int64_t first, int channels) {
    return launch_each(stream, kernels::patch_threads(in.lists), kernels::differentiate_2dgs, in, discs, gradients, out,
                       first, channels);
  });
}

}  // namespace splat
