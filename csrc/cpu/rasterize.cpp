// splat::rasterize on the CPU: tiles are shared out among threads, each rendered in blocks of 16 x 16 pixels.
#include <torch/csrc/stable/library.h>

#include "../math/blend.h"
#include "../operators.h"
#include "instruction_set.h"
#include "parallel.h"
#include "rasterize_block.h"

namespace splat {
namespace {

using RasterizeBlock = void (*)(const BlockScene&, const BlockJob&);

RasterizeBlock block_function() {
#if defined(__x86_64__)
  switch (instruction_set()) {
    case InstructionSet::kAvx512:
      return avx512::rasterize_block;
    case InstructionSet::kAvx2:
      return avx2::rasterize_block;
    case InstructionSet::kBaseline:
      break;
  }
#endif
  return baseline::rasterize_block;
}

// The lists index memory, so they are not believed.
void check_lists(const RasterizeOperands& p) {
  const int32_t* ids = p.flatten_ids.const_data_ptr<int32_t>();
  for (int64_t i = 0; i < p.intersections; ++i) {
    STD_TORCH_CHECK(ids[i] >= 0 && ids[i] < p.count, "flatten_ids[", i, "] is ", ids[i], ", but there are ", p.count,
                    " Gaussians");
  }
  const int32_t* offsets = p.offsets.const_data_ptr<int32_t>();
  const int64_t tiles = p.tiles();
  int32_t previous = 0;
  for (int64_t i = 0; i < tiles; ++i) {
    STD_TORCH_CHECK(offsets[i] >= previous && offsets[i] <= p.intersections, "isect_offsets must ascend from 0 to the ",
                    p.intersections, " entries of flatten_ids; entry ", i, " is ", offsets[i], " after ", previous);
    previous = offsets[i];
  }
}

void fill_records(const RasterizeOperands& p, GaussianRecord* records) {
  const float* means = p.means2d.const_data_ptr<float>();
  const float* conics = p.conics.const_data_ptr<float>();
  const float* opacities = p.opacities.const_data_ptr<float>();
  torch::stable::parallel_for(0, p.count, 4096, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      // At most 126, so that the power of two remains a normal float.
      const float limit = minimum(visible_exponent(opacities[i]) + kExponentSlack, 126.0f);
      const ScaledConic conic = scaled_conic(conics[3 * i], conics[3 * i + 1], conics[3 * i + 2]);
      records[i] = {means[2 * i], means[2 * i + 1], conic, opacities[i], limit, 0.0f};
    }
  });
}

void rasterize_tiles(const RasterizeOperands& p, const GaussianRecord* records) {
  const BlockScene scene = {records,
                            p.colors.const_data_ptr<float>(),
                            p.flatten_ids.const_data_ptr<int32_t>(),
                            static_cast<int>(p.channels),
                            p.width,
                            p.out_colors.mutable_data_ptr<float>(),
                            p.out_alphas.mutable_data_ptr<float>(),
                            p.last_ids.mutable_data_ptr<int32_t>()};
  const int32_t* offsets = p.offsets.const_data_ptr<int32_t>();
  const float* backgrounds = data_or_null<float>(p.backgrounds);
  const RasterizeBlock rasterize_block = block_function();
  const int64_t per_image = static_cast<int64_t>(p.grid.rows) * p.grid.columns;
  const int64_t tiles = p.tiles();
  const int size = p.grid.tile_size;
  parallel_dynamic(tiles, 4, [&](int64_t tile) {
    const int64_t image = tile / per_image;
    const int tile_top = static_cast<int>(tile % per_image / p.grid.columns) * size;
    const int tile_left = static_cast<int>(tile % p.grid.columns) * size;
    const int tile_bottom = tile_top + size < p.height ? tile_top + size : p.height;
    const int tile_right = tile_left + size < p.width ? tile_left + size : p.width;
    const int32_t end = tile + 1 < tiles ? offsets[tile + 1] : static_cast<int32_t>(p.intersections);
    for (int top = tile_top; top < tile_bottom; top += kBlockSide) {
      for (int left = tile_left; left < tile_right; left += kBlockSide) {
        const int columns = tile_right - left < kBlockSide ? tile_right - left : kBlockSide;
        const int rows = tile_bottom - top < kBlockSide ? tile_bottom - top : kBlockSide;
        rasterize_block(scene, {left, top, columns, rows, image * p.width * p.height, offsets[tile], end,
                                backgrounds == nullptr ? nullptr : backgrounds + image * p.channels});
      }
    }
  });
}

std::tuple<Tensor, Tensor, Tensor> rasterize(Tensor means2d, Tensor conics, Tensor colors, Tensor opacities,
                                             std::optional<Tensor> backgrounds, int64_t width, int64_t height,
                                             int64_t tile_size, Tensor isect_offsets, Tensor flatten_ids) {
  const RasterizeOperands p = check_rasterize(means2d, conics, colors, opacities, backgrounds, width, height, tile_size,
                                              isect_offsets, flatten_ids);
  check_lists(p);
  const int64_t bytes = p.count * static_cast<int64_t>(sizeof(GaussianRecord));
  Tensor storage = empty_like_device({bytes}, ScalarType::Byte, means2d);
  GaussianRecord* records = reinterpret_cast<GaussianRecord*>(storage.mutable_data_ptr());
  fill_records(p, records);
  rasterize_tiles(p, records);
  return {p.out_colors, p.out_alphas, p.last_ids};
}

}  // namespace
}  // namespace splat

STABLE_TORCH_LIBRARY_IMPL(splat, CPU, m) { m.impl("rasterize", TORCH_BOX(&splat::rasterize)); }
