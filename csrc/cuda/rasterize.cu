// splat::rasterize on CUDA.
#include <tuple>

#include <torch/csrc/stable/library.h>

#include "rasterize_kernel.cuh"
#include "rasterize_launch.h"

namespace splat {
namespace {

std::tuple<Tensor, Tensor, Tensor> rasterize(Tensor means2d, Tensor conics, Tensor colors, Tensor opacities,
                                             std::optional<Tensor> backgrounds, std::optional<Tensor> masks,
                                             int64_t width, int64_t height, int64_t tile_size, Tensor isect_offsets,
                                             Tensor flatten_ids) {
  const LaunchContext launch(means2d);
  const RasterizeOperands p = check_rasterize(means2d, conics, colors, opacities, backgrounds, masks, width, height,
                                              tile_size, isect_offsets, flatten_ids);
  const RasterizeImages images = empty_images(p);
  const kernels::RasterizeInputs in = kernel_inputs(p);
  const kernels::RasterizeOutputs out = {images.colors.mutable_data_ptr<float>(),
                                         images.alphas.mutable_data_ptr<float>(),
                                         images.last_ids.mutable_data_ptr<int32_t>()};
  const int threads = kernels::tile_threads(p.grid.tile_size);
  for_each_chunk(p.channels, chunk_size(threads), [&](auto c, int64_t first, int channels) {
    launch.blocks(p.tiles(), threads, kernels::rasterize<decltype(c)::value>, in, out, first, channels);
  });
  return {images.colors, images.alphas, images.last_ids};
}

}  // namespace
}  // namespace splat

STABLE_TORCH_LIBRARY_IMPL(splat, CUDA, m) { m.impl("rasterize", TORCH_BOX(&splat::rasterize)); }
