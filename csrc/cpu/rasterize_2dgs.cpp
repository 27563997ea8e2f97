// splat::rasterize_2dgs and its gradient on the CPU. Slots are as in rasterize_backward.cpp.
#include <algorithm>

#include "rasterize_tiles.h"
#include "surfel_block.h"

namespace splat {
namespace cpu {
namespace {

std::unique_ptr<Surfel[]> load_surfels(const Rasterize2dgsInputs& in) {
  return make_records<Surfel>(in.lists.count, [&](int64_t i) {
    return load_surfel(in.lists.means, in.ray_transforms, in.lists.opacities, i);
  });
}

SurfelScene surfel_scene(const Rasterize2dgsInputs& in, const Surfel* surfels) {
  return {surfels,
          in.lists.colors,
          in.depths,
          in.lists.flatten_ids,
          static_cast<int>(in.lists.channels),
          in.lists.width,
          in.lists.max_alpha};
}

// Adds a slot to the gradients of its Gaussian.
void add_slot(const float* slot, int64_t id, const Rasterize2dgsInputs& in, const Rasterize2dgsGradientOutputs& out) {
  const int64_t channels = in.lists.channels;
  if (slot[0] != 0.0f) out.opacities[id] += slot[0] / in.lists.opacities[id];
  for (int j = 0; j < 2; ++j) out.means[2 * id + j] += slot[1 + j];
  for (int j = 0; j < 2 && out.means_abs != nullptr; ++j) out.means_abs[2 * id + j] += slot[3 + j];
  for (int j = 0; j < 9; ++j) out.ray_transforms[9 * id + j] += j < 6 ? -slot[5 + j] : slot[5 + j];
  out.depths[id] += slot[14];
  for (int64_t c = 0; c < channels; ++c) out.colors[channels * id + c] += slot[kSurfelSums + c];
}

}  // namespace

void rasterize_2dgs(const Rasterize2dgsInputs& in, const Rasterize2dgsOutputs& out) {
  const auto surfels = load_surfels(in);
  const SurfelScene scene = surfel_scene(in, surfels.get());
  const auto rasterize_surfels = SPLAT_FOR_INSTRUCTION_SET(rasterize_surfels);
  for_each_tile(in.lists, [&](int64_t, int64_t, const auto& blocks) {
    blocks([&](const BlockJob& job) { rasterize_surfels(scene, job, out); });
  });
}

void rasterize_2dgs_backward(const Rasterize2dgsInputs& in, const Rasterize2dgsGradients& gradients,
                             const Rasterize2dgsGradientOutputs& out) {
  const auto surfels = load_surfels(in);
  const SurfelScene scene = surfel_scene(in, surfels.get());
  const int64_t channels = in.lists.channels, size = kSurfelSums + channels;
  const std::unique_ptr<float[]> slots(new float[static_cast<size_t>(in.lists.intersections * size)]);
  const auto rasterize_surfels_backward = SPLAT_FOR_INSTRUCTION_SET(rasterize_surfels_backward);
  const std::vector<int32_t> ends =
      walk_tiles(in.lists, [&](const BlockJob& job, int32_t filled, float* scratch) {
        return rasterize_surfels_backward(scene, job, gradients, slots.get(), filled, scratch);
      });
  const auto clear = [&](float* values, int64_t each, int64_t begin, int64_t end) {
    if (values != nullptr) std::fill(values + each * begin, values + each * end, 0.0f);
  };
  // Each thread reads all lists, and sums the slots of its own Gaussians.
  parallel_for(in.lists.count, 4096, [&](int64_t begin, int64_t end) {
    clear(out.means, 2, begin, end);
    clear(out.means_abs, 2, begin, end);
    clear(out.ray_transforms, 9, begin, end);
    clear(out.colors, channels, begin, end);
    clear(out.opacities, 1, begin, end);
    clear(out.depths, 1, begin, end);
    for_each_slot(in.lists, ends, begin, end,
                  [&](int64_t at, int64_t id) { add_slot(slots.get() + at * size, id, in, out); });
  });
}

}  // namespace cpu
}  // namespace splat
