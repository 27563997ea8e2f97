// splat::rasterize_backward on the CPU.
//
// Each pair of tile and Gaussian has a slot, which only the tile writes, so that no two threads add to the same number
// and the order of the sums does not depend on timing. A second pass sums the slots of each Gaussian in the order of
// the lists. Memory is linear in the number of pairs.
#include <algorithm>

#include "rasterize_tiles.h"

namespace splat {
namespace cpu {
namespace {

// Fills the slots. Returns, for each tile, the end of the part of its list that was filled.
std::vector<int32_t> fill_slots(const RasterizeInputs& in, const RasterizeGradients& gradients, bool absolute,
                                float* slots) {
  const auto records = gaussian_records(in);
  const BlockScene scene = block_scene(in, records.get());
  const BlockGradients block_gradients = {gradients.drawn_alphas, gradients.last_ids, gradients.colors,
                                          gradients.alphas,       absolute,           slots};
  const auto rasterize_block_backward = SPLAT_FOR_INSTRUCTION_SET(rasterize_block_backward);
  return walk_tiles(in, [&](const BlockJob& job, int32_t filled, float* scratch) {
    return rasterize_block_backward(scene, job, block_gradients, filled, scratch);
  });
}

// Turns the sums over the pixels of a Gaussian into the gradients of its parameters.
struct MomentsToGradients {
  const float *conics, *opacities;
  float *v_means2d, *v_conics, *v_opacities;  // hold the moments first

  void operator()(int64_t i) const {
    float *mean = v_means2d + 2 * i, *conic = v_conics + 3 * i, *opacity = v_opacities + i;
    // ln(alpha) = ln(opacity) - (a dx^2 + c dy^2) / 2 - b dx dy. If nothing was added the parameters may be infinite,
    // and the gradient is zero anyway.
    if (*opacity != 0.0f) *opacity /= opacities[i];
    if (mean[0] != 0.0f || mean[1] != 0.0f) {
      const float a = conics[3 * i], b = conics[3 * i + 1], c = conics[3 * i + 2];
      const float x = mean[0], y = mean[1];
      mean[0] = -(a * x + b * y);
      mean[1] = -(b * x + c * y);
    }
    conic[0] *= -0.5f;
    conic[1] = -conic[1];
    conic[2] *= -0.5f;
  }
};

void sum_slots(const RasterizeInputs& in, const float* slots, const std::vector<int32_t>& ends,
               const RasterizeGradientOutputs& out) {
  const int64_t channels = in.channels;
  const int64_t size = slot_size(out.means_abs != nullptr, static_cast<int>(channels));
  const MomentsToGradients finish = {in.conics, in.opacities, out.means, out.conics, out.opacities};
  // Each thread reads all lists, and sums the slots of its own Gaussians.
  parallel_for(in.count, 4096, [&](int64_t begin, int64_t end) {
    std::fill(out.means + 2 * begin, out.means + 2 * end, 0.0f);
    std::fill(out.conics + 3 * begin, out.conics + 3 * end, 0.0f);
    std::fill(out.opacities + begin, out.opacities + end, 0.0f);
    std::fill(out.colors + channels * begin, out.colors + channels * end, 0.0f);
    if (out.means_abs != nullptr) std::fill(out.means_abs + 2 * begin, out.means_abs + 2 * end, 0.0f);
    for_each_slot(in, ends, begin, end, [&](int64_t at, int64_t id) {
      const float* slot = slots + at * size;
      out.opacities[id] += slot[0];
      for (int j = 0; j < 2; ++j) out.means[2 * id + j] += slot[1 + j];
      for (int j = 0; j < 3; ++j) out.conics[3 * id + j] += slot[3 + j];
      slot += kMoments;
      if (out.means_abs != nullptr) {
        for (int j = 0; j < 2; ++j) out.means_abs[2 * id + j] += *slot++;
      }
      for (int64_t c = 0; c < channels; ++c) out.colors[channels * id + c] += slot[c];
    });
    for (int64_t i = begin; i < end; ++i) finish(i);
  });
}

}  // namespace

void rasterize_backward(const RasterizeInputs& in, const RasterizeGradients& gradients,
                        const RasterizeGradientOutputs& out) {
  const bool absolute = out.means_abs != nullptr;
  const int64_t size = slot_size(absolute, static_cast<int>(in.channels));
  const std::unique_ptr<float[]> slots(new float[static_cast<size_t>(in.intersections * size)]);
  sum_slots(in, slots.get(), fill_slots(in, gradients, absolute, slots.get()), out);
}

// The weight of the background in a pixel is its remaining transmittance.
void sum_backgrounds(const RasterizeInputs& in, int64_t images, const RasterizeGradients& gradients,
                     float* v_backgrounds) {
  const int64_t channels = in.channels, rows = in.height, width = in.width;
  std::vector<double> sums(static_cast<size_t>(images * rows * channels), 0.0);
  parallel_for(images * rows, 16, [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      double* sum = sums.data() + row * channels;
      for (int64_t pixel = row * width; pixel < (row + 1) * width; ++pixel) {
        const float left = 1.0f - gradients.drawn_alphas[pixel];
        for (int64_t c = 0; c < channels; ++c) sum[c] += left * gradients.colors[pixel * channels + c];
      }
    }
  });
  for (int64_t image = 0; image < images; ++image) {
    for (int64_t c = 0; c < channels; ++c) {
      double sum = 0.0;
      for (int64_t row = image * rows; row < (image + 1) * rows; ++row) sum += sums[row * channels + c];
      v_backgrounds[image * channels + c] = static_cast<float>(sum);
    }
  }
}

}  // namespace cpu
}  // namespace splat
