// The launches of the kernels for Gaussians along rays.
#include "host_functions.h"
#include "patch_launch.h"
#include "rasterize_along_rays_kernels.cuh"

namespace splat {

cudaError_t launch_load_ray_gaussians(cudaStream_t stream, const AlongRaysInputs& in, float* gaussians) {
  return launch_each(stream, in.lists.count, kernels::load_ray_gaussians, in, reinterpret_cast<RayGaussian*>(gaussians));
}

cudaError_t launch_rasterize_along_rays(cudaStream_t stream, const AlongRaysInputs& in, const float* gaussians,
                                        const RasterizeOutputs& out) {
  const auto loaded = reinterpret_cast<const RayGaussian*>(gaussians);
  return launch_patches(stream, in.lists, kernels::kRayChannels, kernels::rasterize_rays, in, loaded, out);
}

cudaError_t launch_differentiate_along_rays(cudaStream_t stream, const AlongRaysInputs& in, const float* gaussians,
                                            const RasterizeGradients& gradients, float* sums,
                                            const AlongRaysGradientOutputs& out) {
  const auto loaded = reinterpret_cast<const RayGaussian*>(gaussians);
  SPLAT_RETURN_ON_ERROR(launch_patches(stream, in.lists, kernels::kRayChannels, kernels::differentiate_rays, in, loaded,
                                       gradients, out.colors, sums));
  return launch_each(stream, in.sets * in.gaussians, kernels::finish_rays, in, sums, out);
}

}  // namespace splat
