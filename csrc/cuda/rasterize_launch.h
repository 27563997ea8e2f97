// What the launches of `rasterize` and of its gradient share.
#pragma once

#include "../rasterize_operands.h"
#include "channels.h"
#include "launch.h"
#include "rasterize_tile.cuh"

namespace splat {

inline kernels::RasterizeInputs kernel_inputs(const RasterizeOperands& p) {
  return {p.means2d.const_data_ptr<float>(),
          p.conics.const_data_ptr<float>(),
          p.colors.const_data_ptr<float>(),
          p.opacities.const_data_ptr<float>(),
          data_or_null<float>(p.backgrounds),
          data_or_null<bool>(p.masks),
          p.offsets.const_data_ptr<int32_t>(),
          p.flatten_ids.const_data_ptr<int32_t>(),
          p.count,
          p.channels,
          p.intersections,
          p.tiles(),
          p.width,
          p.height,
          p.grid};
}

// The number of channels that one launch processes: as many as its threads have registers for.
inline int chunk_size(int threads) {
  static_assert(kernels::kMaxThreads<8> >= kMaxTileSize * kMaxTileSize, "8 channels go with every tile size");
  return threads <= kernels::kMaxThreads<32> ? 32 : 8;
}

}  // namespace splat
