// 2D Gaussians on CUDA.
#pragma once

#include "../cuda/host_functions.h"
#include "cuda_call.h"
#include "cuda_error.h"
#include "rasterize_2dgs_operands.h"

namespace splat {

class Cuda2dgs : CudaCall {
 public:
  using CudaCall::CudaCall;

  void rasterize_2dgs(const Rasterize2dgsOperands& p, const Rasterize2dgsImages& images) const {
    const Rasterize2dgsInputs in = p.inputs();
    const Tensor surfels = load_surfels(in, p.common.colors);
    check_cuda(launch_rasterize_2dgs(stream_, in, surfels.const_data_ptr<float>(), images.outputs()));
  }

  void rasterize_2dgs_backward(const Rasterize2dgsBackwardOperands& p) const {
    for (const Tensor* gradient :
         {&p.v_means2d, &p.v_means2d_abs, &p.v_ray_transforms, &p.v_colors, &p.v_opacities, &p.v_depths}) {
      clear(*gradient);
    }
    const Rasterize2dgsInputs in = p.forward.inputs();
    if (in.lists.intersections == 0) return;
    const Tensor surfels = load_surfels(in, p.forward.common.colors);
    check_cuda(
        launch_differentiate_2dgs(stream_, in, surfels.const_data_ptr<float>(), p.gradients(), p.outputs()));
  }

 private:
  Tensor load_surfels(const Rasterize2dgsInputs& in, const Tensor& like) const {
    const Tensor surfels = empty_like_device({in.lists.count, kSurfelFloats}, ScalarType::Float, like);
    check_cuda(launch_load_surfels(stream_, in, surfels.mutable_data_ptr<float>()));
    return surfels;
  }
};

}  // namespace splat
