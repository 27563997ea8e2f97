// The lists of the Gaussians in each tile, and the packed layout, on CUDA. Their sizes are results of kernels, so the
// host waits for these, unless it is told how much room to give the lists.
#include "../cuda/host_functions.h"
#include "cuda_device.h"
#include "cuda_error.h"
#include "cuda_sort.h"

namespace splat {
namespace {

// Sums that a kernel leaves, and that the host can wait for. What is launched between `copy` and `wait` runs meanwhile.
class Totals {
 public:
  Totals(cudaStream_t stream, const Tensor& like)
      : stream_(stream), device_(empty_like_device({kNumbers}, ScalarType::Long, like)) {}
  Totals(const Totals&) = delete;
  Totals& operator=(const Totals&) = delete;

  ~Totals() {
    // After an error: the copy must not arrive in memory that is someone else's by then.
    if (copying_ && cudaStreamSynchronize(stream_) != cudaSuccess) cudaGetLastError();
    if (copied_ != nullptr) cudaEventDestroy(copied_);
  }

  IntersectTotals* on_device() const { return static_cast<IntersectTotals*>(device_.mutable_data_ptr()); }

  void copy() {
    // Pinned: a copy into other memory would itself wait.
    host_ = torch::stable::empty({kNumbers}, ScalarType::Long, std::nullopt, torch::headeronly::DeviceType::CPU, true);
    check_cuda(cudaEventCreateWithFlags(&copied_, cudaEventDisableTiming));
    check_cuda(cudaMemcpyAsync(host_->mutable_data_ptr(), on_device(), sizeof(IntersectTotals), cudaMemcpyDeviceToHost,
                               stream_));
    copying_ = true;
    check_cuda(cudaEventRecord(copied_, stream_));
  }

  IntersectTotals wait() {
    check_cuda(cudaEventSynchronize(copied_));
    copying_ = false;
    return *static_cast<const IntersectTotals*>(host_->const_data_ptr());
  }

 private:
  static constexpr int64_t kNumbers = sizeof(IntersectTotals) / sizeof(int64_t);
  cudaStream_t stream_;
  Tensor device_;
  std::optional<Tensor> host_;
  cudaEvent_t copied_ = nullptr;
  bool copying_ = false;
};

DepthOrder depth_order(const IntersectOperands& p, const SortPairs& by_depth) {
  return {p.tiles_per_gauss.mutable_data_ptr<int32_t>(), by_depth.keys(), by_depth.values()};
}

// Sorts the Gaussians by depth; returns the places of their first pairs in that order, [count + 1].
Tensor sort_by_depth(cudaStream_t stream, const IntersectOperands& p, SortPairs& by_depth) {
  sort_pairs(stream, by_depth, kDepthKeyBits, p.means2d);
  const Tensor starts = empty_like_device({p.count + 1}, ScalarType::Int, p.means2d);
  int32_t* start = starts.mutable_data_ptr<int32_t>();
  check_cuda(
      launch_order_counts(stream, p.count, by_depth.values(), p.tiles_per_gauss.const_data_ptr<int32_t>(), start));
  exclusive_sum(stream, start, p.count + 1, p.means2d);
  return starts;
}

// Returns flatten_ids [room], and sets the offsets. What there is room for beyond the pairs is kNoGaussian.
Tensor list_pairs(cudaStream_t stream, const IntersectOperands& p, const SortPairs& by_depth, const Tensor& starts,
                  const Totals& totals, int64_t room) {
  check_intersections(room);
  const IntersectInputs in = p.inputs();
  SortPairs by_tile(room, p.means2d);
  if (p.capacity) {
    // Every bit of kLastKey and of kNoGaussian is set.
    check_cuda(cudaMemsetAsync(by_tile.keys(), 0xFF, room * sizeof(uint32_t), stream));
    check_cuda(cudaMemsetAsync(by_tile.values(), 0xFF, room * sizeof(int32_t), stream));
  }
  if (room > 0) {
    check_cuda(launch_emit_pairs(stream, in, by_depth.values(), starts.const_data_ptr<int32_t>(), totals.on_device(),
                                 room, by_tile.keys(), by_tile.values()));
    sort_pairs(stream, by_tile, tile_key_bits(p.images, in.tile_bits), p.means2d);
  }
  check_cuda(launch_find_offsets(stream, in, room, by_tile.keys(), p.offsets.mutable_data_ptr<int32_t>()));
  return by_tile.values_tensor();
}

}  // namespace

// Counts the tiles of each Gaussian, sorts the Gaussians by depth, finds the places of their pairs in that order by a
// prefix sum, writes the pairs, and sorts them by tile. Waits while the GPU sorts by depth; with a capacity, it does not.
Tensor Cuda::intersect(const IntersectOperands& p) const {
  const IntersectInputs in = p.inputs();
  SortPairs by_depth(p.count, p.means2d);
  Totals totals(stream_, p.means2d);
  check_cuda(launch_count_tiles(stream_, in, depth_order(p, by_depth), totals.on_device()));
  if (p.capacity) return list_pairs(stream_, p, by_depth, sort_by_depth(stream_, p, by_depth), totals, *p.capacity);
  totals.copy();
  const Tensor starts = sort_by_depth(stream_, p, by_depth);
  const IntersectTotals found = totals.wait();
  STD_TORCH_CHECK(found.flagged == 0, "image_ids must be in [0, ", in.images, "); ", found.flagged, " are not");
  return list_pairs(stream_, p, by_depth, starts, totals, static_cast<int64_t>(found.tiles));
}

// Makes the lists as `intersect` does.
PackResults Cuda::pack(const PackOperands& p) const {
  const Tensor& like = p.means2d;
  int32_t* places = p.places.mutable_data_ptr<int32_t>();
  const Tensor tile_tensor = empty_like_device({p.lists() ? p.count() : 0}, ScalarType::Int, like);
  int32_t* tiles = p.lists() ? tile_tensor.mutable_data_ptr<int32_t>() : nullptr;
  Totals totals(stream_, like);
  check_cuda(launch_count_shown(stream_, p.rows(), places, tiles, totals.on_device()));
  totals.copy();
  exclusive_sum(stream_, places, p.count(), like);
  const IntersectTotals found = totals.wait();

  const PackedTensors rows = empty_rows(p, static_cast<int64_t>(found.flagged));
  if (!p.lists()) {
    check_cuda(launch_pack(stream_, p.inputs(), places, nullptr, rows.pointers(), {}));
    return {rows, no_lists(p)};
  }
  const IntersectOperands packed = check_packed_intersect(p, rows);
  SortPairs by_depth(packed.count, like);
  check_cuda(launch_pack(stream_, p.inputs(), places, tiles, rows.pointers(), depth_order(packed, by_depth)));
  const Tensor starts = sort_by_depth(stream_, packed, by_depth);
  const Tensor flatten_ids = list_pairs(stream_, packed, by_depth, starts, totals, static_cast<int64_t>(found.tiles));
  return {rows, {packed.tiles_per_gauss, flatten_ids, packed.offsets}};
}

void Cuda::pack_backward(const PackBackwardOperands& p) const {
  check_cuda(launch_pack_backward(stream_, p.gradients(), p.outputs()));
}

}  // namespace splat
