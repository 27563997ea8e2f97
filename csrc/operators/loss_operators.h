// The operators of the loss of images.
#pragma once

#include "image_loss_operands.h"
#include "operators.h"

namespace splat {

template <class Device>
struct RunLoss {
  static auto image_loss(const Device& device, const ImageLossOperands& p, bool gradient) {
    const ImageLossResults r = allocate_image_loss(p, gradient);
    device.image_loss(p, r);
    return std::tuple(r.value, r.weights, r.partials);
  }

  static Tensor image_loss_backward(const Device& device, const ImageLossBackwardOperands& p) {
    device.image_loss_backward(p);
    return p.v_image;
  }
};

template <class Device, class Library>
void implement_loss(Library& m) {
  using Run = RunLoss<Device>;
  SPLAT_OPERATOR(image_loss);
  SPLAT_OPERATOR(image_loss_backward);
}

}  // namespace splat
