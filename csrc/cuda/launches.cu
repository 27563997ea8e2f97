// The launches of most kernels, in one file: nvcc takes a second for each, however short. The kernels that take longest to
// compile have files of their own.
#include "channels.h"
#include "grid_launch.h"
#include "host_functions.h"
#include "image_loss_kernels.cuh"
#include "intersect_kernels.cuh"
#include "pack_kernels.cuh"
#include "rasterize_2dgs_kernels.cuh"
#include "rasterize_along_rays_kernels.cuh"
#include "rasterize_kernel.cuh"

namespace splat {
namespace {

// Launches a kernel with the threads of patch_threads, once for each `most` channels; its last two arguments are the first
// of these and how many there are.
template <class Kernel, class... Arguments>
cudaError_t launch_patches(cudaStream_t stream, const RasterizeInputs& lists, int most, Kernel kernel,
                           const Arguments&... arguments) {
  return for_each_chunk(lists.channels, most, [&](auto, int64_t first, int channels) {
    return launch_each(stream, kernels::patch_threads(lists), kernel, arguments..., first, channels);
  });
}

}  // namespace

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

// rasterize_2dgs_kernels.cuh

cudaError_t launch_load_surfels(cudaStream_t stream, const Rasterize2dgsInputs& in, float* surfels) {
  return launch_each(stream, in.lists.count, kernels::load_surfels, in, reinterpret_cast<Surfel*>(surfels));
}

cudaError_t launch_rasterize_2dgs(cudaStream_t stream, const Rasterize2dgsInputs& in, const float* surfels,
                                  const Rasterize2dgsOutputs& out) {
  const auto discs = reinterpret_cast<const Surfel*>(surfels);
  return launch_patches(stream, in.lists, kernels::kSurfelChannels, kernels::rasterize_2dgs, in, discs, out);
}

cudaError_t launch_differentiate_2dgs(cudaStream_t stream, const Rasterize2dgsInputs& in, const float* surfels,
                                      const Rasterize2dgsGradients& gradients,
                                      const Rasterize2dgsGradientOutputs& out) {
  const auto discs = reinterpret_cast<const Surfel*>(surfels);
  return launch_patches(stream, in.lists, kernels::kSurfelChannels, kernels::differentiate_2dgs, in, discs, gradients,
                        out);
}

// rasterize_along_rays_kernels.cuh

cudaError_t launch_load_ray_gaussians(cudaStream_t stream, const AlongRaysInputs& in, float* gaussians) {
  return launch_each(stream, in.lists.count, kernels::load_ray_gaussians, in, reinterpret_cast<RayGaussian*>(gaussians));
}

cudaError_t launch_rasterize_along_rays(cudaStream_t stream, const AlongRaysInputs& in, const float* gaussians,
                                        const RasterizeOutputs& out) {
  const auto loaded = reinterpret_cast<const RayGaussian*>(gaussians);
  return launch_patches(stream, in.lists, kernels::kRayChannels, kernels::rasterize_rays, in, loaded, out);
}

cudaError_t launch_differentiate_along_rays(cudaStream_t stream, const AlongRaysInputs& in, const float* gaussians,
                                            const RasterizeGradients& gradients, float* sums,
                                            const AlongRaysGradientOutputs& out) {
  const auto loaded = reinterpret_cast<const RayGaussian*>(gaussians);
  SPLAT_RETURN_ON_ERROR(launch_patches(stream, in.lists, kernels::kRayChannels, kernels::differentiate_rays, in, loaded,
                                       gradients, out.colors, sums));
  return launch_each(stream, in.sets * in.gaussians, kernels::finish_rays, in, sums, out);
}

// image_loss_kernels.cuh

int64_t loss_sum_count(const ImageLossInputs& in) { return kernels::loss_tiles(in); }

cudaError_t launch_image_loss(cudaStream_t stream, const ImageLossInputs& in, ImageLossSums* sums,
                              const ImageLossOutputs& out) {
  const int64_t tiles = kernels::loss_tiles(in);
  SPLAT_RETURN_ON_ERROR(
      launch_blocks(stream, tiles, kernels::kLossThreads, kernels::image_loss, in, out.partials, sums));
  return launch_blocks(stream, 1, kThreads, kernels::finish_image_loss, in, sums, tiles, out);
}

cudaError_t launch_image_loss_backward(cudaStream_t stream, const ImageLossInputs& in,
                                       const ImageLossGradients& gradients) {
  return launch_blocks(stream, kernels::loss_tiles(in), kernels::kLossThreads, kernels::image_loss_backward, in,
                       gradients);
}

}  // namespace splat
