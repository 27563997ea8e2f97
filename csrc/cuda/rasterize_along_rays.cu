// The launches of the kernels in rasterize_along_rays_kernels.cuh.
#include "channels.h"
#include "grid_launch.h"
#include "host_functions.h"
#include "rasterize_along_rays_kernels.cuh"

namespace splat {

cudaError_t launch_load_ray_gaussians(cudaStream_t stream, const AlongRaysInputs& in, float* gaussians) {
  return launch_each(stream, in.lists.count, kernels::load_ray_gaussians, in, reinterpret_cast<RayGaussian*>(gaussians));
}

cudaError_t launch_rasterize_along_rays(cudaStream_t stream, const AlongRaysInputs& in, const float* gaussians,
                                        const RasterizeOutputs& out) {
  const auto loaded = reinterpret_cast<const RayGaussian*>(gaussians);
  return for_each_chunk(in.lists.channels, kernels::kRayChannels, [&](auto, int64_t first, int channels) {
    return launch_each(stream, kernels::patch_threads(in.lists), kernels::rasterize_rays, in, loaded, out, first,
                       channels);
  });
}

cudaError_t launch_differentiate_along_rays(cudaStream_t stream, const AlongRaysInputs& in, const float* gaussians,
                                            const RasterizeGradients& gradients, float* sums,
                                            const AlongRaysGradientOutputs& out) {
  const auto loaded = reinterpret_cast<const RayGaussian*>(gaussians);
  SPLAT_RETURN_ON_ERROR(for_each_chunk(in.lists.channels, kernels::kRayChannels, [&](auto, int64_t first, int channels) {
    return launch_each(stream, kernels::patch_threads(in.lists), kernels::differentiate_rays, in, loaded, gradients,
                       out.colors, sums, first, channels);
  }));
  return launch_each(stream, in.sets * in.gaussians, kernels::finish_rays, in, sums, out);
}

}  // namespace splat
