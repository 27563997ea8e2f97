// The inner loops of splat::image_loss and of its gradient on the CPU: a strip of an image's rows. Their source,
// image_loss_strip_source.h, is compiled once per instruction set.
#pragma once

#include "../math/image_loss_rows.h"

namespace splat {

// The rows of a strip: whole runs of kRunRows. With fewer, more are blurred twice; with more, threads have no work.
constexpr int kStripRows = 4 * kRunRows;

SPLAT_HD int64_t strips_per_image(const ImageLossInputs& in) { return divide_up(in.height, kStripRows); }

// A row of values, in whole registers of any instruction set.
SPLAT_HD int64_t row_span(const ImageLossInputs& in) { return divide_up(in.width * in.channels, 16) * 16; }

// Such a row with zeros on both sides for the window.
SPLAT_HD int64_t padded_span(const ImageLossInputs& in) { return row_span(in) + 2 * kWindowRadius * in.channels; }

// Floats of scratch memory that a strip needs.
SPLAT_HD int64_t strip_scratch(const ImageLossInputs& in) {
  return kWindowMeans * padded_span(in) + (kWindowTaps * kWindowMeans + 3) * row_span(in);
}

namespace baseline {
ImageLossSums image_loss_strip(const ImageLossInputs& in, int64_t strip, float* partials, float* scratch);
void image_loss_strip_backward(const ImageLossInputs& in, int64_t strip, const ImageLossGradients& gradients,
                               float* scratch);
}
namespace avx2 {
ImageLossSums image_loss_strip(const ImageLossInputs& in, int64_t strip, float* partials, float* scratch);
void image_loss_strip_backward(const ImageLossInputs& in, int64_t strip, const ImageLossGradients& gradients,
                               float* scratch);
}
namespace avx512 {
ImageLossSums image_loss_strip(const ImageLossInputs& in, int64_t strip, float* partials, float* scratch);
void image_loss_strip_backward(const ImageLossInputs& in, int64_t strip, const ImageLossGradients& gradients,
                               float* scratch);
}

}  // namespace splat
