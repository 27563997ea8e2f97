// splat::rasterize_backward on the CPU.
//
// Each pair of tile and Gaussian has a slot, which only the tile writes, so that no two threads add to the same number
// and the order of the sums does not depend on timing. A second pass sums the slots of each Gaussian in the order of
// the lists. Memory is linear in the number of pairs.
#include <algorithm>
#include <tuple>
#include <vector>

#include <torch/csrc/stable/library.h>

#include "rasterize_tiles.h"

namespace splat {
namespace {

// Fills the slots. Returns, for each tile, the end of the part of its list that was filled.
std::vector<int32_t> fill_slots(const RasterizeBackwardOperands& p, float* slots) {
  const RasterizeOperands& forward = p.forward;
  const Tensor records = gaussian_records(forward);
  const BlockScene scene = block_scene(forward, records);
  const BlockGradients gradients = {p.alphas.const_data_ptr<float>(),
                                    p.last_ids.const_data_ptr<int32_t>(),
                                    p.v_images.const_data_ptr<float>(),
                                    p.v_alphas.const_data_ptr<float>(),
                                    p.absgrad,
                                    slots};
  const int64_t scratch_size = backward_scratch(scene.channels);
  const Tensor scratch = empty_like_device({torch::stable::get_num_threads() * scratch_size}, ScalarType::Float,
                                           forward.means2d);
  float* scratches = scratch.mutable_data_ptr<float>();
  const int32_t* offsets = forward.offsets.const_data_ptr<int32_t>();
  std::vector<int32_t> ends(static_cast<size_t>(forward.tiles()));
  const auto rasterize_block_backward = SPLAT_FOR_INSTRUCTION_SET(rasterize_block_backward);
  for_each_tile(forward, [&](int64_t worker, int64_t tile, const auto& blocks) {
    int32_t filled = offsets[tile];
    blocks([&](const BlockJob& job) {
      filled = rasterize_block_backward(scene, job, gradients, filled, scratches + worker * scratch_size);
    });
    ends[tile] = filled;
  });
  return ends;
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

void sum_slots(const RasterizeBackwardOperands& p, const float* slots, const std::vector<int32_t>& ends) {
  const RasterizeOperands& forward = p.forward;
  const int32_t* ids = forward.flatten_ids.const_data_ptr<int32_t>();
  const int32_t* offsets = forward.offsets.const_data_ptr<int32_t>();
  const int64_t channels = forward.channels;
  const int64_t size = slot_size(p.absgrad, static_cast<int>(channels));
  float* v_colors = p.v_colors.mutable_data_ptr<float>();
  float* v_absolute = p.absgrad ? p.v_means2d_abs.mutable_data_ptr<float>() : nullptr;
  const MomentsToGradients finish = {forward.conics.const_data_ptr<float>(), forward.opacities.const_data_ptr<float>(),
                                     p.v_means2d.mutable_data_ptr<float>(), p.v_conics.mutable_data_ptr<float>(),
                                     p.v_opacities.mutable_data_ptr<float>()};
  // Each thread reads all lists, and sums the slots of its own Gaussians.
  torch::stable::parallel_for(0, forward.count, 4096, [&](int64_t begin, int64_t end) {
    std::fill(finish.v_means2d + 2 * begin, finish.v_means2d + 2 * end, 0.0f);
    std::fill(finish.v_conics + 3 * begin, finish.v_conics + 3 * end, 0.0f);
    std::fill(finish.v_opacities + begin, finish.v_opacities + end, 0.0f);
    std::fill(v_colors + channels * begin, v_colors + channels * end, 0.0f);
    if (p.absgrad) std::fill(v_absolute + 2 * begin, v_absolute + 2 * end, 0.0f);
    for (size_t tile = 0; tile < ends.size(); ++tile) {
      for (int32_t at = offsets[tile]; at < ends[tile]; ++at) {
        const int64_t id = ids[at];
        if (id < begin || id >= end) continue;
        const float* slot = slots + at * size;
        finish.v_opacities[id] += slot[0];
        for (int j = 0; j < 2; ++j) finish.v_means2d[2 * id + j] += slot[1 + j];
        for (int j = 0; j < 3; ++j) finish.v_conics[3 * id + j] += slot[3 + j];
        slot += kMoments;
        if (p.absgrad) {
          for (int j = 0; j < 2; ++j) v_absolute[2 * id + j] += *slot++;
        }
        for (int64_t c = 0; c < channels; ++c) v_colors[channels * id + c] += slot[c];
      }
    }
    for (int64_t i = begin; i < end; ++i) finish(i);
  });
}

// The weight of the background in a pixel is its remaining transmittance.
void sum_backgrounds(const RasterizeBackwardOperands& p) {
  const RasterizeOperands& forward = p.forward;
  const int64_t channels = forward.channels, rows = forward.height, width = forward.width;
  const float* alphas = p.alphas.const_data_ptr<float>();
  const float* v_images = p.v_images.const_data_ptr<float>();
  float* v_backgrounds = p.v_backgrounds.mutable_data_ptr<float>();
  std::vector<double> sums(static_cast<size_t>(forward.images * rows * channels), 0.0);
  torch::stable::parallel_for(0, forward.images * rows, 16, [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      double* sum = sums.data() + row * channels;
      for (int64_t pixel = row * width; pixel < (row + 1) * width; ++pixel) {
        const float left = 1.0f - alphas[pixel];
        for (int64_t c = 0; c < channels; ++c) sum[c] += left * v_images[pixel * channels + c];
      }
    }
  });
  for (int64_t image = 0; image < forward.images; ++image) {
    for (int64_t c = 0; c < channels; ++c) {
      double sum = 0.0;
      for (int64_t row = image * rows; row < (image + 1) * rows; ++row) sum += sums[row * channels + c];
      v_backgrounds[image * channels + c] = static_cast<float>(sum);
    }
  }
}

std::tuple<Tensor, Tensor, Tensor, Tensor, Tensor, Tensor> rasterize_backward(
    Tensor means2d, Tensor conics, Tensor colors, Tensor opacities, std::optional<Tensor> backgrounds,
    std::optional<Tensor> masks, int64_t width, int64_t height, int64_t tile_size, Tensor isect_offsets,
    Tensor flatten_ids, Tensor alphas, Tensor last_ids, Tensor v_colors, Tensor v_alphas, bool absgrad,
    bool /*deterministic: it always is*/) {
  const RasterizeOperands forward = check_rasterize(means2d, conics, colors, opacities, backgrounds, masks, width,
                                                    height, tile_size, isect_offsets, flatten_ids);
  const RasterizeBackwardOperands p = check_rasterize_backward(forward, alphas, last_ids, v_colors, v_alphas, absgrad);
  check_lists(forward);
  const int64_t size = slot_size(absgrad, static_cast<int>(forward.channels));
  Tensor slots = empty_like_device({forward.intersections, size}, ScalarType::Float, means2d);
  float* slot_data = slots.mutable_data_ptr<float>();
  sum_slots(p, slot_data, fill_slots(p, slot_data));
  if (forward.backgrounds) sum_backgrounds(p);
  return {p.v_means2d, p.v_means2d_abs, p.v_conics, p.v_colors, p.v_opacities, p.v_backgrounds};
}

}  // namespace
}  // namespace splat

STABLE_TORCH_LIBRARY_IMPL(splat, CPU, m) { m.impl("rasterize_backward", TORCH_BOX(&splat::rasterize_backward)); }
