// The launches of the kernels for 2D Gaussians.
#include "host_functions.h"
#include "patch_launch.h"
#include "rasterize_2dgs_kernels.cuh"

namespace splat {

cudaError_t launch_load_surfels(cudaStream_t stream, const Rasterize2dgsInputs& in, float* surfels) {
  return launch_each(stream, in.lists.count, kernels::load_surfels, in, reinterpret_cast<Surfel*>(surfels));
}

cudaError_t launch_rasterize_2dgs(cudaStream_t stream, const Rasterize2dgsInputs& in, const float* surfels,
                                  const Rasterize2dgsOutputs& out) {
  const auto discs = reinterpret_cast<const Surfel*>(surfels);
  return launch_patches(stream, in.lists, kernels::kSurfelChannels, kernels::rasterize_2dgs, in, discs, out);
}

cudaError_t launch_differentiate_2dgs(cudaStream_t stream, const Rasterize2dgsInputs& in, const float* surfels,
                                      const Rasterize2dgsGradients& gradients,
                                      const Rasterize2dgsGradientOutputs& out) {
  const auto discs = reinterpret_cast<const Surfel*>(surfels);
  return launch_patches(stream, in.lists, kernels::kSurfelChannels, kernels::differentiate_2dgs, in, discs, gradients,
                        out);
}

}  // namespace splat
