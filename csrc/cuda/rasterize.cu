// The launches of the kernel in rasterize_kernel.cuh.
#include "channels.h"
#include "grid_launch.h"
#include "host_functions.h"
#include "rasterize_kernel.cuh"

namespace splat {
cudaError_t launch_rasterize(cudaStream_t stream, const RasterizeInputs& in, const RasterizeOutputs& out) {
  const int threads = kernels::tile_threads(in.grid.tile_size);
  return for_each_chunk(in.channels, kMostChannels, [&](auto c, int64_t first, int channels) {
    return launch_blocks(stream, in.tiles, threads, kernels::rasterize<decltype(c)::value>, in, out, first, channels);
  });
}

}  // namespace splat
