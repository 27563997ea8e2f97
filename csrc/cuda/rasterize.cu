// splat::rasterize on CUDA.
#include <algorithm>

#include <torch/csrc/stable/library.h>

#include "../rasterize_operators.h"
#include "launch.h"
#include "rasterize_kernel.cuh"

namespace splat {
namespace {

template <int C>
void rasterize_channels(const Launch& launch, const kernels::RasterizeInputs& in, const kernels::RasterizeOutputs& out,
                        int64_t first_channel, int channels) {
  const int threads = in.grid.tile_size * in.grid.tile_size;
  const size_t shared = threads * sizeof(kernels::StagedGaussian);  // at most 32 KiB, which every GPU has
  kernels::rasterize<C><<<static_cast<unsigned int>(in.tiles), threads, shared, launch.stream()>>>(in, out,
                                                                                                   first_channel,
                                                                                                   channels);
  STD_CUDA_KERNEL_LAUNCH_CHECK();
}

std::tuple<Tensor, Tensor, Tensor> rasterize(Tensor means2d, Tensor conics, Tensor colors, Tensor opacities,
                                             std::optional<Tensor> backgrounds, std::optional<Tensor> masks,
                                             int64_t width, int64_t height, int64_t tile_size, Tensor isect_offsets,
                                             Tensor flatten_ids) {
  const Launch launch(means2d);
  const RasterizeOperands p = check_rasterize(means2d, conics, colors, opacities, backgrounds, masks, width, height,
                                              tile_size, isect_offsets, flatten_ids);
  STD_TORCH_CHECK(!p.masks, "masks must be None on CUDA");
  const RasterizeImages images = empty_images(p);
  const kernels::RasterizeInputs in = {p.means2d.const_data_ptr<float>(),
                                       p.conics.const_data_ptr<float>(),
                                       p.colors.const_data_ptr<float>(),
                                       p.opacities.const_data_ptr<float>(),
                                       data_or_null<float>(p.backgrounds),
                                       p.offsets.const_data_ptr<int32_t>(),
                                       p.flatten_ids.const_data_ptr<int32_t>(),
                                       p.count,
                                       p.channels,
                                       p.intersections,
                                       p.tiles(),
                                       p.width,
                                       p.height,
                                       p.grid};
  const kernels::RasterizeOutputs out = {images.colors.mutable_data_ptr<float>(), images.alphas.mutable_data_ptr<float>(),
                                         images.last_ids.mutable_data_ptr<int32_t>()};
  constexpr int kChunk = 32;
  for (int64_t first = 0; p.tiles() > 0 && first < p.channels; first += kChunk) {
    const int channels = static_cast<int>(std::min<int64_t>(kChunk, p.channels - first));
    const auto run = channels == 1   ? rasterize_channels<1>
                     : channels == 2 ? rasterize_channels<2>
                     : channels == 3 ? rasterize_channels<3>
                     : channels == 4 ? rasterize_channels<4>
                     : channels <= 8 ? rasterize_channels<8>
                     : channels <= 16 ? rasterize_channels<16>
                                      : rasterize_channels<kChunk>;
    run(launch, in, out, first, channels);
  }
  return {images.colors, images.alphas, images.last_ids};
}

}  // namespace
}  // namespace splat

STABLE_TORCH_LIBRARY_IMPL(splat, CUDA, m) { m.impl("rasterize", TORCH_BOX(&splat::rasterize)); }
