// The lists of the Gaussians in each tile, and the packed layout, on CUDA. Their sizes are results of kernels, so the
// host waits for these, unless it is told how much room to give the lists.
#include "../cuda/host_functions.h"
#include "cuda_device.h"
#include "cuda_error.h"
#include "cuda_sort.h"

namespace splat {
namespace {

// Sums that a kernel leaves, and that the host can wait for, before words that are 0 when they are. What is launched
// between `copy` and `wait` runs meanwhile.
class Totals {
 public:
  Totals(cudaStream_t stream, int64_t words, const Tensor& like)
      : stream_(stream), count_(words),
        device_(empty_like_device({kNumbers + divide_up(words, 2)}, ScalarType::Long, like)) {}
  Totals(const Totals&) = delete;
  Totals& operator=(const Totals&) = delete;

  ~Totals() {
    // After an error: the copy must not arrive in memory that is someone else's by then.
    if (copying_ && cudaStreamSynchronize(stream_) != cudaSuccess) cudaGetLastError();
    if (copied_ != nullptr) cudaEventDestroy(copied_);
  }

  IntersectTotals* on_device() const { return static_cast<IntersectTotals*>(device_.mutable_data_ptr()); }
  int64_t count() const { return count_; }
  uint32_t* words() const { return reinterpret_cast<uint32_t*>(on_device() + 1); }

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
  int64_t count_;
  Tensor device_;
  std::optional<Tensor> host_;
  cudaEvent_t copied_ = nullptr;
  bool copying_ = false;
};

// Gaussians that are sorted by depth, with what their pairs are made from.
struct ByDepth {
  explicit ByDepth(const IntersectOperands& p)
      : pairs(p.count, p.means2d), records(empty_like_device({p.count, kListedFloats}, ScalarType::Float, p.means2d)) {}

  DepthOrder order(const IntersectOperands& p) const {
    return {p.tiles_per_gauss.mutable_data_ptr<int32_t>(), pairs.keys(), pairs.values(),
            records.mutable_data_ptr<float>()};
  }

  SortPairs pairs;
  Tensor records;
};

// The words of `sort_by_depth` and `list_pairs`, of so many Gaussians at most.
int64_t list_words(int64_t count) { return sum_words(count) + sort_words(count, kDepthKeyBits); }

void sort_by_depth(cudaStream_t stream, const IntersectOperands& p, ByDepth& by_depth, uint32_t* zeros) {
  check_cuda(launch_sort(stream, zeros + sum_words(p.count), by_depth.pairs.buffers(), p.count, kDepthKeyBits));
}

// Returns flatten_ids [room], and sets the offsets. What there is room for beyond the pairs is kNoGaussian.
Tensor list_pairs(cudaStream_t stream, const IntersectOperands& p, const ByDepth& by_depth, uint32_t* zeros,
                  const Totals& totals, int64_t room) {
  check_intersections(room);
  const IntersectInputs in = p.inputs();
  SortPairs by_tile(room, p.means2d);
  if (p.capacity) {
    // Every bit of kLastKey and of kNoGaussian is set.
    check_cuda(cudaMemsetAsync(by_tile.keys(), 0xFF, room * sizeof(uint32_t), stream));
    check_cuda(cudaMemsetAsync(by_tile.values(), 0xFF, room * sizeof(int32_t), stream));
  }
  if (room > 0 && p.count > 0) {
    const int bits = tile_key_bits(p.images, in.tile_bits);
    const SortWords of_sort(room, bits, p.means2d);
    check_cuda(launch_emit_pairs(stream, in, by_depth.order(p), zeros, totals.on_device(), room, by_tile.keys(),
                                 by_tile.values(), of_sort.words()));
    check_cuda(launch_sort(stream, of_sort.words().first, by_tile.buffers(), room, bits));
  }
  check_cuda(launch_find_offsets(stream, in, room, by_tile.keys(), p.offsets.mutable_data_ptr<int32_t>()));
  return by_tile.values_tensor();
}

}  // namespace

// Counts the tiles of each Gaussian, sorts the Gaussians by depth, writes their pairs in that order, and sorts them by
// tile. Waits while the GPU sorts by depth; with a capacity, it does not.
Tensor Cuda::intersect(const IntersectOperands& p) const {
  const IntersectInputs in = p.inputs();
  ByDepth by_depth(p);
  Totals totals(stream_, list_words(p.count), p.means2d);
  check_cuda(launch_count_tiles(stream_, in, by_depth.order(p), totals.on_device(), totals.count()));
  if (!p.capacity) totals.copy();
  sort_by_depth(stream_, p, by_depth, totals.words());
  if (p.capacity) return list_pairs(stream_, p, by_depth, totals.words(), totals, *p.capacity);
  const IntersectTotals found = totals.wait();
  STD_TORCH_CHECK(found.flagged == 0, "image_ids must be in [0, ", in.images, "); ", found.flagged, " are not");
  return list_pairs(stream_, p, by_depth, totals.words(), totals, static_cast<int64_t>(found.tiles));
}

// Makes the lists as `intersect` does.
PackResults Cuda::pack(const PackOperands& p) const {
  const Tensor& like = p.means2d;
  int32_t* places = p.places.mutable_data_ptr<int32_t>();
  const Tensor tile_tensor = empty_like_device({p.lists() ? p.count() : 0}, ScalarType::Int, like);
  int32_t* tiles = p.lists() ? tile_tensor.mutable_data_ptr<int32_t>() : nullptr;
  const int64_t place_words = sum_words(p.count());
  Totals totals(stream_, place_words + (p.lists() ? list_words(p.count()) : 0), like);
  check_cuda(launch_count_shown(stream_, p.rows(), places, tiles, totals.on_device(), totals.count()));
  totals.copy();
  const IntersectTotals found = totals.wait();

  const PackedTensors rows = empty_rows(p, static_cast<int64_t>(found.flagged));
  if (!p.lists()) {
    check_cuda(launch_pack(stream_, p.inputs(), places, nullptr, rows.pointers(), {}));
    return {rows, no_lists(p)};
  }
  const IntersectOperands packed = check_packed_intersect(p, rows);
  ByDepth by_depth(packed);
  check_cuda(launch_pack(stream_, p.inputs(), places, tiles, rows.pointers(), by_depth.order(packed)));
  uint32_t* zeros = totals.words() + place_words;
  sort_by_depth(stream_, packed, by_depth, zeros);
  const Tensor flatten_ids = list_pairs(stream_, packed, by_depth, zeros, totals, static_cast<int64_t>(found.tiles));
  return {rows, {packed.tiles_per_gauss, flatten_ids, packed.offsets}};
}

void Cuda::pack_backward(const PackBackwardOperands& p) const {
  check_cuda(launch_pack_backward(stream_, p.gradients(), p.outputs()));
}

}  // namespace splat
