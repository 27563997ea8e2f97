// The arrays of splat::image_loss and of its gradient, and the sums that make the loss.
//
// Shapes: I images of H x W pixels with D channels each.
#pragma once

#include "integers.h"
#include "ssim.h"

namespace splat {

struct ImageLossInputs {
  const float *image, *target;     // [I, H, W, D]
  const bool* mask;                // [I, H, W] or null; where false, both images are taken for 0
  int64_t images, channels;
  int width, height;
  int margin;                      // SSIM is not counted so near to the edge
  float absolute_weight, ssim_weight;
};

SPLAT_HD int64_t value_count(const ImageLossInputs& in) {
  return in.images * in.height * in.width * in.channels;
}

// Whether SSIM is counted in a pixel of the image, apart from the mask.
SPLAT_HD bool in_margins(const ImageLossInputs& in, int row, int column) {
  return row >= in.margin && row < in.height - in.margin && column >= in.margin && column < in.width - in.margin;
}

// The values of a column in so many rows are summed in single precision, all else in double: that makes the bits of the
// result the same, in whatever order.
constexpr int kRunRows = 8;

struct ImageLossSums {
  double absolute, similarity;  // of |x - y| and of SSIM
  double counted;               // values whose SSIM is counted
};

struct ImageLossOutputs {
  float* value;     // []
  float* weights;   // [2]: of the absolute difference and of SSIM in each value, with which the gradient begins
  float* partials;  // [kPartials, I, H, W, D]: of SSIM by its means, 0 where it is not counted; null if nobody needs it
};

SPLAT_HD void finish_loss(const ImageLossInputs& in, const ImageLossSums& sums, const ImageLossOutputs& out) {
  const double by_absolute = in.absolute_weight / static_cast<double>(value_count(in));
  const double by_similarity = in.ssim_weight / sums.counted;
  *out.value = static_cast<float>(by_absolute * sums.absolute + by_similarity * sums.similarity);
  out.weights[0] = static_cast<float>(by_absolute);
  out.weights[1] = static_cast<float>(by_similarity);
}

struct ImageLossGradients {
  const float *weights, *partials;  // results of the forward pass
  const float* v_value;             // [], incoming
  float* v_image;                   // [I, H, W, D], output
};

}  // namespace splat
