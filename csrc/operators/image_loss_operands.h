// Arguments, checked and contiguous, and outputs, allocated, of image_loss and image_loss_backward, on the CPU and on
// CUDA.
//
// Shapes: as in image_loss_rows.h.
#pragma once

#include "../math/image_loss_rows.h"
#include "checks.h"

namespace splat {

struct ImageLossOperands {
  Tensor image, target;        // [I, H, W, D]
  std::optional<Tensor> mask;  // [I, H, W]
  int margin;
  float absolute_weight, ssim_weight;

  ImageLossInputs inputs() const {
    return {image.const_data_ptr<float>(),
            target.const_data_ptr<float>(),
            data_or_null<bool>(mask),
            image.size(0),
            image.size(3),
            static_cast<int>(image.size(2)),
            static_cast<int>(image.size(1)),
            margin,
            absolute_weight,
            ssim_weight};
  }
};

inline ImageLossOperands check_image_loss(const Tensor& image, const Tensor& target, const std::optional<Tensor>& mask,
                                          double absolute_weight, double ssim_weight, int64_t margin) {
  constexpr auto f32 = ScalarType::Float;
  const int64_t images = checked_size(image, "image", 0, 4), height = image.size(1), width = image.size(2);
  checked_int(height, "the height of image", 1, kMaxImageSide);
  checked_int(width, "the width of image", 1, kMaxImageSide);
  const int64_t channels = checked_int(image.size(3), "the number of channels of image", 1, kMaxChannels);
  return {checked(image, "image", f32, {images, height, width, channels}, image),
          checked(target, "target", f32, {images, height, width, channels}, image),
          checked(mask, "mask", ScalarType::Bool, {images, height, width}, image),
          checked_int(margin, "margin", 0, kMaxImageSide),
          static_cast<float>(absolute_weight),
          static_cast<float>(ssim_weight)};
}

struct ImageLossResults {
  Tensor value, weights, partials;  // [], [2], [kPartials, I, H, W, D] or, without gradient, [0]

  ImageLossOutputs pointers() const {
    return {value.mutable_data_ptr<float>(), weights.mutable_data_ptr<float>(),
            partials.numel() == 0 ? nullptr : partials.mutable_data_ptr<float>()};
  }
};

inline ImageLossResults allocate_image_loss(const ImageLossOperands& p, bool gradient) {
  constexpr auto f32 = ScalarType::Float;
  const Tensor& like = p.image;
  const int64_t images = like.size(0), height = like.size(1), width = like.size(2), channels = like.size(3);
  return {empty_like_device({}, f32, like), empty_like_device({2}, f32, like),
          gradient ? empty_like_device({kPartials, images, height, width, channels}, f32, like)
                   : empty_like_device({0}, f32, like)};
}

struct ImageLossBackwardOperands {
  ImageLossOperands forward;
  Tensor weights, partials, v_value;
  Tensor v_image;  // output

  ImageLossGradients gradients() const {
    return {weights.const_data_ptr<float>(), partials.const_data_ptr<float>(), v_value.const_data_ptr<float>(),
            v_image.mutable_data_ptr<float>()};
  }
};

inline ImageLossBackwardOperands check_image_loss_backward(const Tensor& image, const Tensor& target,
                                                           const std::optional<Tensor>& mask, const Tensor& weights,
                                                           const Tensor& partials, const Tensor& v_value) {
  constexpr auto f32 = ScalarType::Float;
  // What the weights and the partials were made with is in them.
  const ImageLossOperands p = check_image_loss(image, target, mask, 0, 0, 0);
  const int64_t images = image.size(0), height = image.size(1), width = image.size(2), channels = image.size(3);
  return {p,
          checked(weights, "weights", f32, {2}, image),
          checked(partials, "partials", f32, {kPartials, images, height, width, channels}, image),
          checked(v_value, "v_value", f32, {}, image),
          empty_like_device({images, height, width, channels}, f32, image)};
}

}  // namespace splat
