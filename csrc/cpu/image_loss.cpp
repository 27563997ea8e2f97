// splat::image_loss and its gradient on the CPU, in strips that do not depend on the number of threads.
#include "functions.h"
#include "image_loss_strip.h"
#include "instruction_set.h"
#include "parallel.h"

namespace splat {
namespace cpu {
namespace {

// Calls work(strip, scratch) for each strip of all images.
template <class Work>
void for_each_strip(const ImageLossInputs& in, const Work& work) {
  const int64_t strips = in.images * strips_per_image(in), floats = strip_scratch(in);
  parallel_for(strips, 1, [&](int64_t begin, int64_t end) {
    const std::unique_ptr<float[]> scratch(new float[static_cast<size_t>(floats)]);
    for (int64_t strip = begin; strip < end; ++strip) work(strip, scratch.get());
  });
}

}  // namespace

void image_loss(const ImageLossInputs& in, const ImageLossOutputs& out) {
  std::vector<ImageLossSums> strips(static_cast<size_t>(in.images * strips_per_image(in)));
  const auto image_loss_strip = SPLAT_FOR_INSTRUCTION_SET(image_loss_strip);
  for_each_strip(in, [&](int64_t strip, float* scratch) {
    strips[strip] = image_loss_strip(in, strip, out.partials, scratch);
  });
  ImageLossSums sums = {};
  for (const ImageLossSums& strip : strips) {
    sums.absolute += strip.absolute;
    sums.similarity += strip.similarity;
    sums.counted += strip.counted;
  }
  finish_loss(in, sums, out);
}

void image_loss_backward(const ImageLossInputs& in, const ImageLossGradients& gradients) {
  const auto image_loss_strip_backward = SPLAT_FOR_INSTRUCTION_SET(image_loss_strip_backward);
  for_each_strip(in, [&](int64_t strip, float* scratch) {
    image_loss_strip_backward(in, strip, gradients, scratch);
  });
}

}  // namespace cpu
}  // namespace splat
