// The launches of the kernels of the gradient of `rasterize`. Nothing here waits for the GPU: bounds are used for sizes
// that depend on the data.
#include "rasterize_differentiate_kernel.cuh"
#include "rasterize_launch.h"
#include "rasterize_replay_kernels.cuh"
#include "rasterize_sums_kernels.cuh"

namespace splat {

cudaError_t launch_count_blocks(cudaStream_t stream, const RasterizeInputs& in, const RasterizeGradients& gradients,
                                const kernels::BackwardPlan& plan) {
  return launch_blocks(stream, in.tiles + 1, kernels::tile_threads(in.grid.tile_size), kernels::count_blocks, in,
                       gradients.last_ids, plan);
}

cudaError_t launch_differentiate(cudaStream_t stream, const RasterizeInputs& in, const RasterizeGradients& gradients,
                                 const kernels::BackwardPlan& plan, const RasterizeGradientOutputs& out, float* slots) {
  const int threads = kernels::tile_threads(in.grid.tile_size);
  SPLAT_RETURN_ON_ERROR(cudaMemsetAsync(plan.block_tiles, 0xff, plan.bound * sizeof(int32_t), stream));
  SPLAT_RETURN_ON_ERROR(
      for_each_chunk<cudaError_t>(in.channels, chunk_size(threads), [&](auto c, int64_t first, int channels) {
        if (first > 0) return cudaSuccess;  // it stages the first channels and reads the others from memory
        return launch_blocks(stream, in.tiles, threads, kernels::replay<decltype(c)::value>, in, gradients, plan,
                             channels);
      }));
  return for_each_chunk<cudaError_t>(
      in.channels, chunk_size(kernels::kDifferentiateThreads), [&](auto c, int64_t first, int channels) {
        return launch_blocks(stream, plan.bound, kernels::kDifferentiateThreads,
                             kernels::differentiate<decltype(c)::value>, in, gradients, plan,
                             kernels::BackwardOutputs{out, slots}, first, channels);
      });
}

cudaError_t launch_number_positions(cudaStream_t stream, const RasterizeInputs& in, uint32_t* ids, int32_t* positions) {
  return launch_each(stream, in.intersections, kernels::number_positions, in, ids, positions);
}

cudaError_t launch_sum_slots(cudaStream_t stream, const RasterizeInputs& in, const uint32_t* ids,
                             const int32_t* positions, float* slots, const RasterizeGradientOutputs& out) {
  return launch_each(stream, in.count * kernels::kWarp, kernels::sum_slots, in, ids, positions,
                     kernels::BackwardOutputs{out, slots});
}

cudaError_t launch_sum_backgrounds(cudaStream_t stream, const RasterizeInputs& in, int64_t images,
                                   const RasterizeGradients& gradients, float* partial, float* v_backgrounds) {
  const int64_t pixels = int64_t{in.width} * in.height, slices = background_slices(pixels);
  SPLAT_RETURN_ON_ERROR(launch_blocks(stream, images * slices, kThreads, kernels::slice_background,
                                      gradients.drawn_alphas, gradients.colors, pixels, slices, in.channels, partial));
  return launch_each(stream, images * in.channels, kernels::sum_slices, partial, images, slices, in.channels,
                     v_backgrounds);
}

}  // namespace splat
