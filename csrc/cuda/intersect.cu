// splat::intersect on CUDA: count the tiles of each Gaussian, sort the Gaussians by depth, find the places of their
// pairs in that order by a prefix sum, write the pairs, and sort them by tile. See intersect_kernels.cuh.
#include <tuple>

#include <torch/csrc/stable/library.h>

#include "../intersect_operands.h"
#include "intersect_kernels.cuh"
#include "sort.h"

namespace splat {
namespace {

// Counts the pairs of each Gaussian, and sorts the Gaussians by depth. Waits for the number of pairs and returns it: it
// is the size of two results of the operator.
int64_t count(const LaunchContext& launch, const IntersectInputs& in, const Tensor& tiles_per_gauss,
              Pairs& by_depth) {
  const Tensor totals = empty_like_device({2}, ScalarType::Long, tiles_per_gauss);
  auto* device_totals = static_cast<kernels::IntersectTotals*>(totals.mutable_data_ptr());
  STD_CUDA_CHECK(cudaMemsetAsync(device_totals, 0, sizeof(kernels::IntersectTotals), launch.stream()));
  launch.for_each(in.count, kernels::count_tiles, in, tiles_per_gauss.mutable_data_ptr<int32_t>(), by_depth.keys(),
                  by_depth.values(), device_totals);
  kernels::IntersectTotals host_totals = {0, 0};
  STD_CUDA_CHECK(
      cudaMemcpyAsync(&host_totals, device_totals, sizeof host_totals, cudaMemcpyDeviceToHost, launch.stream()));
  STD_CUDA_CHECK(cudaStreamSynchronize(launch.stream()));
  STD_TORCH_CHECK(host_totals.bad_image == 0, "image_ids must be in [0, ", in.images, "); ", host_totals.bad_image,
                  " are not");
  check_intersections(static_cast<int64_t>(host_totals.tiles));
  return static_cast<int64_t>(host_totals.tiles);
}

std::tuple<Tensor, Tensor, Tensor, Tensor> intersect(Tensor means2d, Tensor radii, Tensor depths, Tensor conics,
                                                     Tensor opacities, std::optional<Tensor> image_ids, int64_t images,
                                                     int64_t tile_size, int64_t tile_width, int64_t tile_height) {
  const LaunchContext launch(means2d);
  const IntersectOperands p = check_intersect(means2d, radii, depths, conics, opacities, image_ids, images, tile_size,
                                              tile_width, tile_height);
  const IntersectInputs in = p.inputs();
  Pairs by_depth(p.count, means2d);
  const int64_t total = count(launch, in, p.tiles_per_gauss, by_depth);
  Pairs by_tile(total, means2d);
  const Tensor keys = empty_like_device({total}, ScalarType::Long, means2d);
  if (total > 0) {
    by_depth.sort(launch, 32);
    const Tensor starts = empty_like_device({p.count + 1}, ScalarType::Long, means2d);
    int64_t* start = starts.mutable_data_ptr<int64_t>();
    launch.for_each(p.count + 1, kernels::order_counts, p.count, by_depth.values(),
                    p.tiles_per_gauss.const_data_ptr<int32_t>(), start);
    exclusive_sum(launch, starts, start, p.count + 1);
    launch.for_each(p.count, kernels::emit_pairs, in, by_depth.values(), start, by_tile.keys(), by_tile.values());
    by_tile.sort(launch, in.tile_bits + bit_length(p.images - 1));
    launch.for_each(total, kernels::write_keys, total, by_tile.keys(), by_tile.values(), in.depths,
                    keys.mutable_data_ptr<int64_t>());
  }
  launch.for_each(p.tiles(), kernels::find_offsets, by_tile.keys(), total, p.tiles(),
                  tiles_per_image(p.grid), in.tile_bits, p.offsets.mutable_data_ptr<int32_t>());
  return {p.tiles_per_gauss, keys, by_tile.values_tensor(), p.offsets};
}

}  // namespace
}  // namespace splat

STABLE_TORCH_LIBRARY_IMPL(splat, CUDA, m) { m.impl("intersect", TORCH_BOX(&splat::intersect)); }
