// The launches of the kernels in rasterize_kernel.cuh.
#include "channels.h"
#include "grid_launch.h"
#include "host_functions.h"
#include "rasterize_kernel.cuh"

namespace splat {

cudaError_t launch_stage_gaussians(cudaStream_t stream, const RasterizeInputs& in, float* staged) {
  const auto records = reinterpret_cast<kernels::StagedRecord*>(staged);
  return launch_each(stream, in.count, kernels::stage_gaussians, in, records);
}

cudaError_t launch_rasterize(cudaStream_t stream, const RasterizeInputs& in, const float* staged,
                             const RasterizeOutputs& out) {
  const auto records = reinterpret_cast<const kernels::StagedRecord*>(staged);
  const int threads = kernels::tile_threads(in.grid.tile_size);
  return for_each_chunk(in.channels, kMostChannels, [&](auto c, int64_t first, int channels) {
    return launch_blocks(stream, in.tiles, threads, kernels::rasterize<decltype(c)::value>, in, records, out, first,
                         channels);
  });
}

}  // namespace splat
