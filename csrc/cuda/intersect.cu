// splat::intersect on CUDA: count each Gaussian's tiles, make room by a prefix sum, write all pairs, sort them.
#include <cub/device/device_radix_sort.cuh>
#include <cub/device/device_scan.cuh>

#include <torch/csrc/stable/library.h>

#include "intersect_kernels.cuh"
#include "launch.h"

namespace splat {
namespace {

// Calls a CUB function twice, as CUB wants it: for the size of its temporary memory, which torch then provides, and to
// run.
template <class Function>
void with_temporary_memory(const Tensor& like, const Function& function) {
  size_t bytes = 0;
  STD_CUDA_CHECK(function(nullptr, bytes));
  // CUB takes an address of null as the question for the size, so the memory is never empty.
  const Tensor memory = empty_like_device({static_cast<int64_t>(bytes) + 1}, ScalarType::Byte, like);
  STD_CUDA_CHECK(function(memory.mutable_data_ptr(), bytes));
}

struct Totals {
  int64_t intersections, bad_image;
};

// Number of tiles of all Gaussians; `starts` [count + 1] becomes the prefix sum. Waits for the GPU.
Totals count(const Launch& launch, const kernels::IntersectInputs& in, const Tensor& tiles_per_gauss,
             const Tensor& starts) {
  const Tensor bad_image = empty_like_device({1}, ScalarType::Long, starts);
  int64_t* start = starts.mutable_data_ptr<int64_t>();
  int64_t* bad = bad_image.mutable_data_ptr<int64_t>();
  STD_CUDA_CHECK(cudaMemsetAsync(bad, 0, sizeof(int64_t), launch.stream()));
  launch.for_each(in.count + 1, kernels::count_tiles, in, tiles_per_gauss.mutable_data_ptr<int32_t>(), start, bad);
  with_temporary_memory(starts, [&](void* memory, size_t& bytes) {
    return cub::DeviceScan::ExclusiveSum(memory, bytes, start, start, in.count + 1, launch.stream());
  });
  Totals totals = {0, 0};
  STD_CUDA_CHECK(cudaMemcpyAsync(&totals.intersections, start + in.count, sizeof(int64_t), cudaMemcpyDeviceToHost,
                                 launch.stream()));
  STD_CUDA_CHECK(cudaMemcpyAsync(&totals.bad_image, bad, sizeof(int64_t), cudaMemcpyDeviceToHost, launch.stream()));
  STD_CUDA_CHECK(cudaStreamSynchronize(launch.stream()));
  return totals;
}

std::tuple<Tensor, Tensor, Tensor, Tensor> intersect(Tensor means2d, Tensor radii, Tensor depths, Tensor conics,
                                                     Tensor opacities, std::optional<Tensor> image_ids, int64_t images,
                                                     int64_t tile_size, int64_t tile_width, int64_t tile_height) {
  const Launch launch(means2d);
  const IntersectOperands p = check_intersect(means2d, radii, depths, conics, opacities, image_ids, images, tile_size,
                                              tile_width, tile_height);
  const kernels::IntersectInputs in = {p.means2d.const_data_ptr<float>(),
                                       p.depths.const_data_ptr<float>(),
                                       p.conics.const_data_ptr<float>(),
                                       p.opacities.const_data_ptr<float>(),
                                       p.radii.const_data_ptr<int32_t>(),
                                       data_or_null<int64_t>(p.image_ids),
                                       p.count,
                                       p.gaussians,
                                       p.images,
                                       p.grid,
                                       p.tile_bits};
  const Tensor starts = empty_like_device({p.count + 1}, ScalarType::Long, means2d);
  const Totals totals = count(launch, in, p.tiles_per_gauss, starts);
  STD_TORCH_CHECK(totals.bad_image == 0, "image_ids must be in [0, ", images, "); some are not");
  const int64_t total = totals.intersections;
  check_intersections(total);

  Tensor keys = empty_like_device({total}, ScalarType::Long, means2d);
  Tensor indices = empty_like_device({total}, ScalarType::Int, means2d);
  if (total > 0) {
    launch.for_each(p.count, kernels::emit_pairs, in, starts.const_data_ptr<int64_t>(),
                    keys.mutable_data_ptr<int64_t>(), indices.mutable_data_ptr<int32_t>());
    const Tensor other_keys = empty_like_device({total}, ScalarType::Long, means2d);
    const Tensor other_indices = empty_like_device({total}, ScalarType::Int, means2d);
    // Unsigned, so that a depth's bits never look like a sign; and no bit is sorted that is the same in all keys.
    cub::DoubleBuffer<uint64_t> key_buffers(reinterpret_cast<uint64_t*>(keys.mutable_data_ptr<int64_t>()),
                                            reinterpret_cast<uint64_t*>(other_keys.mutable_data_ptr<int64_t>()));
    cub::DoubleBuffer<int32_t> index_buffers(indices.mutable_data_ptr<int32_t>(),
                                             other_indices.mutable_data_ptr<int32_t>());
    const int end_bit = 32 + p.tile_bits + bit_length(p.images - 1);
    with_temporary_memory(means2d, [&](void* memory, size_t& bytes) {
      return cub::DeviceRadixSort::SortPairs(memory, bytes, key_buffers, index_buffers, total, 0, end_bit,
                                             launch.stream());
    });
    if (key_buffers.selector == 1) keys = other_keys;
    if (index_buffers.selector == 1) indices = other_indices;
  }
  launch.for_each(p.tiles(), kernels::find_offsets, keys.const_data_ptr<int64_t>(), total, p.tiles(),
                  static_cast<int64_t>(p.grid.rows) * p.grid.columns, p.tile_bits,
                  p.offsets.mutable_data_ptr<int32_t>());
  return {p.tiles_per_gauss, keys, indices, p.offsets};
}

}  // namespace
}  // namespace splat

STABLE_TORCH_LIBRARY_IMPL(splat, CUDA, m) { m.impl("intersect", TORCH_BOX(&splat::intersect)); }
