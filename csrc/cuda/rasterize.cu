// The launches of the kernel in rasterize_kernel.cuh.
#include "rasterize_kernel.cuh"
#include "rasterize_launch.h"

namespace splat {

cudaError_t launch_rasterize(cudaStream_t stream, const RasterizeInputs& in, const RasterizeOutputs& out) {
  const int threads = kernels::tile_threads(in.grid.tile_size);
  return for_each_chunk<cudaError_t>(in.channels, chunk_size(threads), [&](auto c, int64_t first, int channels) {
    return launch_blocks(stream, in.tiles, threads, kernels::rasterize<decltype(c)::value>, in, out, first, channels);
  });
}

}  // namespace splat
