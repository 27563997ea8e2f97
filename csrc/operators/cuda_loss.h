// The loss of images on CUDA.
#pragma once

#include "../cuda/host_functions.h"
#include "cuda_call.h"
#include "cuda_error.h"
#include "image_loss_operands.h"

namespace splat {

class CudaLoss : CudaCall {
 public:
  using CudaCall::CudaCall;

  void image_loss(const ImageLossOperands& p, const ImageLossResults& r) const {
    const ImageLossInputs in = p.inputs();
    constexpr int64_t kSums = sizeof(ImageLossSums) / sizeof(double);
    const Tensor sums = empty_like_device({loss_sum_count(in), kSums}, ScalarType::Double, p.image);
    check_cuda(launch_image_loss(stream_, in, static_cast<ImageLossSums*>(sums.mutable_data_ptr()), r.pointers()));
  }

  void image_loss_backward(const ImageLossBackwardOperands& p) const {
    check_cuda(launch_image_loss_backward(stream_, p.forward.inputs(), p.gradients()));
  }
};

}  // namespace splat
