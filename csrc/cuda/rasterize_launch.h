// What the launches of `rasterize` and of its gradient share.
#pragma once

#include "channels.h"
#include "launch.h"
#include "rasterize_tile.cuh"

namespace splat {

// The number of channels that one launch processes: as many as its threads have registers for.
inline int chunk_size(int threads) {
  static_assert(kernels::kMaxThreads<8> >= kMaxTileSize * kMaxTileSize, "8 channels go with every tile size");
  return threads <= kernels::kMaxThreads<32> ? 32 : 8;
}

}  // namespace splat
