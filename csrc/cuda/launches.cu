// The launches of the kernels for lists and images, in one file: nvcc takes a second for each, however short.
#include "channels.h"
#include "grid_launch.h"
#include "host_functions.h"
#include "intersect_kernels.cuh"
#include "pack_kernels.cuh"
#include "rasterize_kernel.cuh"

namespace splat {

// intersect_kernels.cuh, pack_kernels.cuh

cudaError_t launch_count_tiles(cudaStream_t stream, const IntersectInputs& in, const DepthOrder& out,
                               IntersectTotals* totals) {
  SPLAT_RETURN_ON_ERROR(cudaMemsetAsync(totals, 0, sizeof *totals, stream));
  return launch_each(stream, in.count, kernels::count_tiles, in, out, totals);
}

cudaError_t launch_order_counts(cudaStream_t stream, int64_t count, const int32_t* order,
                                const int32_t* tiles_per_gauss, int32_t* starts) {
  return launch_each(stream, count + 1, kernels::order_counts, count, order, tiles_per_gauss, starts);
}

cudaError_t launch_emit_pairs(cudaStream_t stream, const IntersectInputs& in, const int32_t* order,
                              const int32_t* starts, const IntersectTotals* totals, int64_t room, uint32_t* tile_keys,
                              int32_t* indices) {
  return launch_each(stream, in.count, kernels::emit_pairs, in, order, starts, totals, room, tile_keys, indices);
}

cudaError_t launch_find_offsets(cudaStream_t stream, const IntersectInputs& in, int64_t total,
                                const uint32_t* tile_keys, int32_t* offsets) {
  const int64_t per_image = tiles_per_image(in.grid), tiles = in.images * per_image;
  return launch_each(stream, tiles, kernels::find_offsets, tile_keys, total, tiles, per_image, in.tile_bits, offsets);
}

cudaError_t launch_count_shown(cudaStream_t stream, const IntersectInputs& in, int32_t* places, int32_t* tiles,
                               IntersectTotals* totals) {
  SPLAT_RETURN_ON_ERROR(cudaMemsetAsync(totals, 0, sizeof *totals, stream));
  return launch_each(stream, in.count, kernels::count_shown, in, places, tiles, totals);
}

cudaError_t launch_pack(cudaStream_t stream, const PackInputs& in, const int32_t* places, const int32_t* tiles,
                        const PackedRows& out, const DepthOrder& packed) {
  return launch_each(stream, in.images * in.gaussians, kernels::pack, in, places, tiles, out, packed);
}

cudaError_t launch_pack_backward(cudaStream_t stream, const PackGradients& in, const PackGradientOutputs& out) {
  return launch_each(stream, in.sets * in.gaussians, kernels::pack_backward, in, out);
}

// rasterize_kernel.cuh

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
