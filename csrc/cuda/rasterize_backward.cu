// The launches of the kernels of the gradient of `rasterize`.
#include "channels.h"
#include "grid_launch.h"
#include "host_functions.h"
#include "rasterize_backward_kernel.cuh"
#include "rasterize_backward_sums.cuh"

namespace splat {

namespace {

// In slots, whatever the channels are: few ask for it, and each kernel takes nvcc as long as any other.
constexpr int kSlotChannels = 8;

template <int C, bool kInSlots>
cudaError_t launch_chunk(cudaStream_t stream, const RasterizeInputs& in, const kernels::StagedRecord* records,
                         const RasterizeGradients& gradients, const RasterizeGradientOutputs& out, float* slots,
                         int64_t first, int channels) {
  const int threads = kernels::differentiate_threads<C>(in.grid.tile_size);
  return launch_blocks(stream, in.tiles, threads, kernels::differentiate<C, kInSlots>, in, records, gradients, out,
                       slots, first, channels);
}

}  // namespace

cudaError_t launch_differentiate(cudaStream_t stream, const RasterizeInputs& in, const float* staged,
                                 const RasterizeGradients& gradients, const RasterizeGradientOutputs& out,
                                 float* slots) {
  const auto records = reinterpret_cast<const kernels::StagedRecord*>(staged);
  if (slots != nullptr) {
    return for_each_chunk(in.channels, kSlotChannels, [&](auto, int64_t first, int channels) {
      return launch_chunk<kSlotChannels, true>(stream, in, records, gradients, out, slots, first, channels);
    });
  }
  return for_each_chunk(in.channels, kMostChannels, [&](auto c, int64_t first, int channels) {
    const bool chunks = in.channels > kMostChannels;
    const auto launch = chunks ? &launch_chunk<kMostChannels, false> : &launch_chunk<decltype(c)::value, false>;
    return launch(stream, in, records, gradients, out, slots, first, channels);
  });
}

cudaError_t launch_number_positions(cudaStream_t stream, const RasterizeInputs& in, uint32_t* ids, int32_t* positions,
                                    const Words& cleared) {
  return launch_each(stream, in.intersections, kernels::number_positions, in, ids, positions, cleared);
}

cudaError_t launch_sum_slots(cudaStream_t stream, const RasterizeInputs& in, const uint32_t* ids,
                             const int32_t* positions, const float* slots, int32_t* runs,
                             const RasterizeGradientOutputs& out) {
  const kernels::Runs found = {runs, runs + in.count};
  SPLAT_RETURN_ON_ERROR(cudaMemsetAsync(runs, 0, 2 * in.count * sizeof(int32_t), stream));
  SPLAT_RETURN_ON_ERROR(launch_each(stream, in.intersections, kernels::find_runs, in, ids, found));
  return launch_each(stream, in.count * kernels::kWarp, kernels::sum_slots, in, found, positions, slots, out);
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
