// splat::rasterize_along_rays and its gradient on the CPU. Slots are as in rasterize_backward.cpp.
#include <algorithm>

#include "rasterize_tiles.h"
#include "ray_block.h"

namespace splat {
namespace cpu {
namespace {

std::unique_ptr<RayGaussian[]> load_ray_gaussians(const AlongRaysInputs& in) {
  return make_records<RayGaussian>(in.lists.count, [&](int64_t i) { return load_ray_gaussian(in, i); });
}

RayScene ray_scene(const AlongRaysInputs& in, const RayGaussian* gaussians) {
  return {block_scene(in.lists, nullptr), gaussians, &in};
}

}  // namespace

void rasterize_along_rays(const AlongRaysInputs& in, const RasterizeOutputs& out) {
  const auto gaussians = load_ray_gaussians(in);
  const RayScene scene = ray_scene(in, gaussians.get());
  const BlockImages images = {out.colors, out.alphas, out.last_ids};
  const auto rasterize_rays = SPLAT_FOR_INSTRUCTION_SET(rasterize_rays);
  for_each_tile(in.lists, [&](int64_t, int64_t, const auto& blocks) {
    blocks([&](const BlockJob& job) { rasterize_rays(scene, job, images); });
  });
}

void rasterize_along_rays_backward(const AlongRaysInputs& in, const RasterizeGradients& gradients,
                                   const AlongRaysGradientOutputs& out) {
  const auto gaussians = load_ray_gaussians(in);
  const RayScene scene = ray_scene(in, gaussians.get());
  const int64_t channels = in.lists.channels, size = kRaySums + channels;
  const std::unique_ptr<float[]> slots(new float[static_cast<size_t>(in.lists.intersections * size)]);
  const std::unique_ptr<float[]> sums(new float[static_cast<size_t>(in.lists.count * kRaySums)]);
  const BlockGradients block_gradients = {gradients.drawn_alphas, gradients.last_ids, gradients.colors,
                                          gradients.alphas,       false,              slots.get()};
  const auto rasterize_rays_backward = SPLAT_FOR_INSTRUCTION_SET(rasterize_rays_backward);
  const std::vector<int32_t> ends =
      walk_tiles(in.lists, [&](const BlockJob& job, int32_t filled, float* scratch) {
        return rasterize_rays_backward(scene, job, block_gradients, filled, scratch);
      });
  // Each thread reads all lists, and sums the slots of its own Gaussians.
  parallel_for(in.lists.count, 4096, [&](int64_t begin, int64_t end) {
    std::fill(sums.get() + kRaySums * begin, sums.get() + kRaySums * end, 0.0f);
    std::fill(out.colors + channels * begin, out.colors + channels * end, 0.0f);
    for_each_slot(in.lists, ends, begin, end, [&](int64_t at, int64_t id) {
      const float* slot = slots.get() + at * size;
      for (int j = 0; j < kRaySums; ++j) sums[kRaySums * id + j] += slot[j];
      for (int64_t c = 0; c < channels; ++c) out.colors[channels * id + c] += slot[kRaySums + c];
    });
  });
  parallel_for(in.sets * in.gaussians, 4096, [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) finish_along_rays(in, row, sums.get(), out);
  });
}

}  // namespace cpu
}  // namespace splat
