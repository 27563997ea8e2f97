// splat::rasterize on the CPU.
#include <tuple>

#include <torch/csrc/stable/library.h>

#include "rasterize_tiles.h"

namespace splat {
namespace {

std::tuple<Tensor, Tensor, Tensor> rasterize(Tensor means2d, Tensor conics, Tensor colors, Tensor opacities,
                                             std::optional<Tensor> backgrounds, std::optional<Tensor> masks,
                                             int64_t width, int64_t height, int64_t tile_size, Tensor isect_offsets,
                                             Tensor flatten_ids) {
  const RasterizeOperands p = check_rasterize(means2d, conics, colors, opacities, backgrounds, masks, width, height,
                                              tile_size, isect_offsets, flatten_ids);
  check_lists(p);
  const Tensor records = gaussian_records(p);
  const RasterizeImages images = empty_images(p);
  const BlockScene scene = block_scene(p, records);
  const BlockImages out = {images.colors.mutable_data_ptr<float>(), images.alphas.mutable_data_ptr<float>(),
                           images.last_ids.mutable_data_ptr<int32_t>()};
  const auto rasterize_block = SPLAT_FOR_INSTRUCTION_SET(rasterize_block);
  for_each_tile(p, [&](int64_t, int64_t, const auto& blocks) {
    blocks([&](const BlockJob& job) { rasterize_block(scene, job, out); });
  });
  return {images.colors, images.alphas, images.last_ids};
}

}  // namespace
}  // namespace splat

STABLE_TORCH_LIBRARY_IMPL(splat, CPU, m) { m.impl("rasterize", TORCH_BOX(&splat::rasterize)); }
