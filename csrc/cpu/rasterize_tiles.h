// What rasterize and rasterize_backward on the CPU share: the Gaussians as the blocks read them, and the tiles,
// distributed among threads and cut into blocks of 16 x 16 pixels.
#pragma once

#include "../rasterize_operands.h"
#include "instruction_set.h"
#include "parallel.h"
#include "rasterize_block.h"

namespace splat {

// Selects the function {baseline, avx2, avx512} for the instruction set in use.
#if defined(__x86_64__)
#define SPLAT_FOR_INSTRUCTION_SET(function)                                       \
  (instruction_set() == InstructionSet::kAvx512 ? avx512::function                \
   : instruction_set() == InstructionSet::kAvx2 ? avx2::function                  \
                                                : baseline::function)
#else
#define SPLAT_FOR_INSTRUCTION_SET(function) (baseline::function)
#endif

// The lists are used as indices into memory, so they are not trusted.
inline void check_lists(const RasterizeOperands& p) {
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

// [count] GaussianRecord, as bytes.
inline Tensor gaussian_records(const RasterizeOperands& p) {
  Tensor storage =
      empty_like_device({p.count * static_cast<int64_t>(sizeof(GaussianRecord))}, ScalarType::Byte, p.means2d);
  GaussianRecord* records = reinterpret_cast<GaussianRecord*>(storage.mutable_data_ptr());
  const float* means = p.means2d.const_data_ptr<float>();
  const float* conics = p.conics.const_data_ptr<float>();
  const float* opacities = p.opacities.const_data_ptr<float>();
  torch::stable::parallel_for(0, p.count, 4096, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      // At most 126, so that the power of two is still a normal float.
      const float limit = minimum(visible_exponent(opacities[i]) + kExponentSlack, 126.0f);
      const ScaledConic conic = scaled_conic(conics[3 * i], conics[3 * i + 1], conics[3 * i + 2]);
      records[i] = {means[2 * i], means[2 * i + 1], conic, opacities[i], limit, 0.0f};
    }
  });
  return storage;
}

inline BlockScene block_scene(const RasterizeOperands& p, const Tensor& records) {
  return {reinterpret_cast<const GaussianRecord*>(records.const_data_ptr()), p.colors.const_data_ptr<float>(),
          p.flatten_ids.const_data_ptr<int32_t>(), static_cast<int>(p.channels), p.width};
}

// Calls work(worker, tile, blocks) for each tile of all images, where blocks(visit) calls visit(job) for its blocks, in
// a fixed order. The list of a masked tile is empty. `worker` is below the number of torch's threads, and no
// two calls with the same one overlap.
template <class Work>
void for_each_tile(const RasterizeOperands& p, const Work& work) {
  const int32_t* offsets = p.offsets.const_data_ptr<int32_t>();
  const bool* masks = data_or_null<bool>(p.masks);
  const float* backgrounds = data_or_null<float>(p.backgrounds);
  const int64_t tiles = p.tiles();
  const int size = p.grid.tile_size;
  parallel_dynamic(tiles, 4, [&](int64_t worker, int64_t tile) {
    const TileOrigin origin = tile_origin(p.grid, tile);
    const int64_t image = origin.image;
    const int tile_bottom = origin.top + size < p.height ? origin.top + size : p.height;
    const int tile_right = origin.left + size < p.width ? origin.left + size : p.width;
    const int32_t next = tile + 1 < tiles ? offsets[tile + 1] : static_cast<int32_t>(p.intersections);
    const int32_t end = masks != nullptr && !masks[tile] ? offsets[tile] : next;
    work(worker, tile, [&](const auto& visit) {
      for (int top = origin.top; top < tile_bottom; top += kBlockSide) {
        for (int left = origin.left; left < tile_right; left += kBlockSide) {
          const int columns = tile_right - left < kBlockSide ? tile_right - left : kBlockSide;
          const int rows = tile_bottom - top < kBlockSide ? tile_bottom - top : kBlockSide;
          visit(BlockJob{left, top, columns, rows, image * p.width * p.height, offsets[tile], end,
                         backgrounds == nullptr ? nullptr : backgrounds + image * p.channels});
        }
      }
    });
  });
}

}  // namespace splat
