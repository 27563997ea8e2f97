// Gaussians along rays on CUDA.
#pragma once

#include "../cuda/host_functions.h"
#include "cuda_call.h"
#include "cuda_error.h"
#include "rasterize_along_rays_operands.h"

namespace splat {

class CudaRays : CudaCall {
 public:
  using CudaCall::CudaCall;

  void rasterize_along_rays(const AlongRaysOperands& p, const RasterizeImages& images) const {
    const AlongRaysInputs in = p.inputs();
    const Tensor gaussians = load_ray_gaussians(in, p.common.colors);
    check_cuda(launch_rasterize_along_rays(stream_, in, gaussians.const_data_ptr<float>(), images.outputs()));
  }

  void rasterize_along_rays_backward(const AlongRaysBackwardOperands& p) const {
    const AlongRaysInputs in = p.forward.inputs();
    const Tensor& like = p.forward.common.colors;
    const Tensor gaussians = load_ray_gaussians(in, like);
    const Tensor sums = empty_like_device({in.lists.count, kRaySums}, ScalarType::Float, like);
    clear(sums);
    clear(p.v_colors);
    check_cuda(launch_differentiate_along_rays(stream_, in, gaussians.const_data_ptr<float>(), p.gradients(),
                                               sums.mutable_data_ptr<float>(), p.outputs()));
  }

 private:
  Tensor load_ray_gaussians(const AlongRaysInputs& in, const Tensor& like) const {
    const Tensor gaussians = empty_like_device({in.lists.count, kRayGaussianFloats}, ScalarType::Float, like);
    check_cuda(launch_load_ray_gaussians(stream_, in, gaussians.mutable_data_ptr<float>()));
    return gaussians;
  }
};

}  // namespace splat
