// What rasterize and rasterize_backward on the CPU share: the Gaussians as the blocks read them, and the tiles,
// distributed among threads and cut into blocks of 16 x 16 pixels.
#pragma once

#include "functions.h"
#include "instruction_set.h"
#include "parallel.h"
#include "rasterize_block.h"

namespace splat {
namespace cpu {

// What the rasterizers read of each Gaussian: record(i).
template <class Record, class Make>
std::unique_ptr<Record[]> make_records(int64_t count, const Make& record) {
  std::unique_ptr<Record[]> records(new Record[static_cast<size_t>(count)]);
  parallel_for(count, 4096, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) records[i] = record(i);
  });
  return records;
}

inline std::unique_ptr<GaussianRecord[]> gaussian_records(const RasterizeInputs& in) {
  return make_records<GaussianRecord>(in.count, [&](int64_t i) -> GaussianRecord {
    // At most 126, so that the power of two is still a normal float.
    const float limit = minimum(visible_exponent(in.opacities[i]) + kExponentSlack, 126.0f);
    const ScaledConic conic = scaled_conic(in.conics[3 * i], in.conics[3 * i + 1], in.conics[3 * i + 2]);
    return {in.means[2 * i], in.means[2 * i + 1], conic, in.opacities[i], limit, 0.0f};
  });
}

inline BlockScene block_scene(const RasterizeInputs& in, const GaussianRecord* records) {
  return {records, in.colors, in.flatten_ids, static_cast<int>(in.channels), in.width, in.max_alpha};
}

// Calls work(worker, tile, blocks) for each tile of all images, where blocks(visit) calls visit(job) for its blocks, in
// a fixed order. The list of a masked tile is empty. `worker` is below the number of torch's threads, and no
// two calls with the same one overlap.
template <class Work>
void for_each_tile(const RasterizeInputs& in, const Work& work) {
  const int size = in.grid.tile_size;
  parallel_dynamic(in.tiles, 4, [&](int64_t worker, int64_t tile) {
    const TileOrigin origin = tile_origin(in.grid, tile);
    const int64_t image = origin.image;
    const int tile_bottom = origin.top + size < in.height ? origin.top + size : in.height;
    const int tile_right = origin.left + size < in.width ? origin.left + size : in.width;
    const int32_t begin = in.offsets[tile];
    const int32_t next = tile + 1 < in.tiles ? in.offsets[tile + 1] : static_cast<int32_t>(in.intersections);
    const int32_t end = in.masks != nullptr && !in.masks[tile] ? begin : next;
    work(worker, tile, [&](const auto& visit) {
      for (int top = origin.top; top < tile_bottom; top += kBlockSide) {
        for (int left = origin.left; left < tile_right; left += kBlockSide) {
          const int columns = tile_right - left < kBlockSide ? tile_right - left : kBlockSide;
          const int rows = tile_bottom - top < kBlockSide ? tile_bottom - top : kBlockSide;
          visit(BlockJob{left, top, columns, rows, image * in.width * in.height, begin, end,
                         in.backgrounds == nullptr ? nullptr : in.backgrounds + image * in.channels});
        }
      }
    });
  });
}

// Scratch memory, aligned as the walks backwards need it.
struct alignas(64) CacheLine {
  float values[16];
};

// Calls walk(job, filled, scratch) for the blocks of each tile, where `filled` is what the call before returned: the end of
// the part of the tile's list whose slots are written. Returns it for each tile.
template <class Walk>
std::vector<int32_t> walk_tiles(const RasterizeInputs& in, const Walk& walk) {
  const int64_t scratch_lines = divide_up(backward_scratch(static_cast<int>(in.channels)), 16);
  const std::unique_ptr<CacheLine[]> scratch(new CacheLine[static_cast<size_t>(thread_count() * scratch_lines)]);
  std::vector<int32_t> ends(static_cast<size_t>(in.tiles));
  for_each_tile(in, [&](int64_t worker, int64_t tile, const auto& blocks) {
    int32_t filled = in.offsets[tile];
    blocks([&](const BlockJob& job) { filled = walk(job, filled, scratch[worker * scratch_lines].values); });
    ends[tile] = filled;
  });
  return ends;
}

// Calls visit(at, id) for each slot of the Gaussians [begin, end), in the order of the lists.
template <class Visit>
void for_each_slot(const RasterizeInputs& in, const std::vector<int32_t>& ends, int64_t begin, int64_t end,
                   const Visit& visit) {
  for (size_t tile = 0; tile < ends.size(); ++tile) {
    for (int32_t at = in.offsets[tile]; at < ends[tile]; ++at) {
      const int64_t id = in.flatten_ids[at];
      if (id >= begin && id < end) visit(at, id);
    }
  }
}

}  // namespace cpu
}  // namespace splat
