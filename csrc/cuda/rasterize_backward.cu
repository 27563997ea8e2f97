// splat::rasterize_backward on CUDA. Nothing here waits for the GPU: bounds are used for sizes that depend on the data.
#include <tuple>

#include <torch/csrc/stable/library.h>

#include "rasterize_differentiate_kernel.cuh"
#include "rasterize_launch.h"
#include "rasterize_replay_kernels.cuh"
#include "rasterize_sums_kernels.cuh"
#include "sort.h"

namespace splat {
namespace {

void clear(const LaunchContext& launch, const Tensor& tensor) {
  if (tensor.numel() == 0) return;
  STD_CUDA_CHECK(cudaMemsetAsync(tensor.mutable_data_ptr(), 0, tensor.numel() * sizeof(float), launch.stream()));
}

float* data_or_null_if_empty(const Tensor& tensor) {
  return tensor.numel() == 0 ? nullptr : tensor.mutable_data_ptr<float>();
}

// Adds up the slots of each Gaussian in a fixed order.
void add_slots(const LaunchContext& launch, const RasterizeOperands& p, const kernels::RasterizeInputs& in,
               const kernels::BackwardOutputs& out) {
  Pairs by_id(p.intersections, p.means2d);
  launch.for_each(p.intersections, kernels::number_positions, in, by_id.keys(), by_id.values());
  by_id.sort(launch, 32);
  launch.for_each(p.count * kernels::kWarp, kernels::sum_slots, in, by_id.keys(), by_id.values(), out);
}

void differentiate(const LaunchContext& launch, const RasterizeBackwardOperands& p, bool deterministic) {
  const RasterizeOperands& forward = p.forward;
  const kernels::RasterizeInputs in = kernel_inputs(forward);
  const kernels::RasterizeGradients gradients = {p.v_images.const_data_ptr<float>(), p.v_alphas.const_data_ptr<float>(),
                                                 p.last_ids.const_data_ptr<int32_t>()};
  const Tensor& like = forward.means2d;
  const int64_t tiles = forward.tiles(), blocks = kernels::block_bound(forward.intersections, tiles);
  const int64_t block_checkpoints = kernels::kBucketsPerBlock * in.grid.tile_size * in.grid.tile_size;
  const Tensor block_starts = empty_like_device({tiles + 1}, ScalarType::Int, like);
  const Tensor block_tiles = empty_like_device({blocks}, ScalarType::Int, like);
  const Tensor checkpoints = empty_like_device({blocks * block_checkpoints, 2}, ScalarType::Float, like);
  const Tensor slots =
      empty_like_device({deterministic ? forward.intersections * (kernels::kSlotValues + forward.channels) : 0},
                        ScalarType::Float, like);
  clear(launch, slots);
  const kernels::BackwardPlan plan = {block_starts.mutable_data_ptr<int32_t>(), block_tiles.mutable_data_ptr<int32_t>(),
                                      static_cast<kernels::Checkpoint*>(checkpoints.mutable_data_ptr()), blocks};
  STD_CUDA_CHECK(cudaMemsetAsync(plan.block_tiles, 0xff, blocks * sizeof(int32_t), launch.stream()));
  const kernels::BackwardOutputs out = {p.v_means2d.mutable_data_ptr<float>(), data_or_null_if_empty(p.v_means2d_abs),
                                        p.v_conics.mutable_data_ptr<float>(),  p.v_colors.mutable_data_ptr<float>(),
                                        p.v_opacities.mutable_data_ptr<float>(), data_or_null_if_empty(slots)};

  const int threads = kernels::tile_threads(in.grid.tile_size);
  launch.blocks(tiles + 1, threads, kernels::count_blocks, in, gradients.last_ids, plan);
  exclusive_sum(launch, like, plan.block_starts, tiles + 1);
  for_each_chunk(forward.channels, chunk_size(threads), [&](auto c, int64_t first, int channels) {
    if (first > 0) return;  // it stages the first channels and reads the others from memory
    launch.blocks(tiles, threads, kernels::replay<decltype(c)::value>, in, gradients, plan, channels);
  });
  for_each_chunk(forward.channels, chunk_size(kernels::kDifferentiateThreads),
                 [&](auto c, int64_t first, int channels) {
                   launch.blocks(blocks, kernels::kDifferentiateThreads, kernels::differentiate<decltype(c)::value>, in,
                                 gradients, plan, out, first, channels);
                 });
  if (deterministic) add_slots(launch, forward, in, out);
}

void sum_backgrounds(const LaunchContext& launch, const RasterizeBackwardOperands& p) {
  const RasterizeOperands& forward = p.forward;
  const int64_t pixels = int64_t{forward.width} * forward.height, channels = forward.channels;
  const int64_t slices = std::min<int64_t>(pixels / 4096 + 1, 256);
  const Tensor partial = empty_like_device({forward.images, slices, channels}, ScalarType::Float, p.v_images);
  launch.blocks(forward.images * slices, kThreads, kernels::slice_background, p.alphas.const_data_ptr<float>(),
                p.v_images.const_data_ptr<float>(), pixels, slices, channels, partial.mutable_data_ptr<float>());
  launch.for_each(forward.images * channels, kernels::sum_slices, partial.const_data_ptr<float>(), forward.images,
                  slices, channels, p.v_backgrounds.mutable_data_ptr<float>());
}

std::tuple<Tensor, Tensor, Tensor, Tensor, Tensor, Tensor> rasterize_backward(
    Tensor means2d, Tensor conics, Tensor colors, Tensor opacities, std::optional<Tensor> backgrounds,
    std::optional<Tensor> masks, int64_t width, int64_t height, int64_t tile_size, Tensor isect_offsets,
    Tensor flatten_ids, Tensor alphas, Tensor last_ids, Tensor v_colors, Tensor v_alphas, bool absgrad,
    bool deterministic) {
  const LaunchContext launch(means2d);
  const RasterizeOperands forward = check_rasterize(means2d, conics, colors, opacities, backgrounds, masks, width,
                                                    height, tile_size, isect_offsets, flatten_ids);
  const RasterizeBackwardOperands p = check_rasterize_backward(forward, alphas, last_ids, v_colors, v_alphas, absgrad);
  for (const Tensor* gradient : {&p.v_means2d, &p.v_means2d_abs, &p.v_conics, &p.v_colors, &p.v_opacities}) {
    clear(launch, *gradient);
  }
  if (forward.intersections > 0 && forward.tiles() > 0) differentiate(launch, p, deterministic);
  if (forward.backgrounds) sum_backgrounds(launch, p);
  return {p.v_means2d, p.v_means2d_abs, p.v_conics, p.v_colors, p.v_opacities, p.v_backgrounds};
}

}  // namespace
}  // namespace splat

STABLE_TORCH_LIBRARY_IMPL(splat, CUDA, m) { m.impl("rasterize_backward", TORCH_BOX(&splat::rasterize_backward)); }
