// The operators' arithmetic on CUDA: on torch's current stream and the device of the tensors, in memory from torch, with
// every call of the CUDA runtime checked.
#pragma once

#include <torch/csrc/inductor/aoti_torch/c/shim.h>
#include <torch/csrc/stable/accelerator.h>
#include <torch/csrc/stable/macros.h>

#include "../cuda/launches.h"
#include "operators.h"

namespace splat {

class Cuda {
 public:
  // Makes the device of a tensor the current one during its lifetime.
  explicit Cuda(const Tensor& tensor) : guard_(tensor.get_device_index()) {
    void* stream = nullptr;
    TORCH_ERROR_CODE_CHECK(aoti_torch_get_current_cuda_stream(tensor.get_device_index(), &stream));
    stream_ = static_cast<cudaStream_t>(stream);
  }

  void find_finite(const FiniteOperands& p) const {
    check(launch_find_finite(stream_, p.inputs(), p.finite.mutable_data_ptr<bool>(),
                             static_cast<unsigned long long*>(p.invalid.mutable_data_ptr())));
  }

  void project(const ProjectOperands& p, const ProjectResults& r) const {
    check(launch_project(stream_, p.inputs(), r.pointers()));
  }

  void project_backward(const ProjectOperands& p, const ProjectGradients& g) const {
    const int64_t sums = g.poses() == nullptr ? 0 : pose_sum_count(p.gaussians);
    const Tensor pose_sums = empty_like_device({sums, p.images, kPoseEntries}, ScalarType::Float, p.means);
    check(launch_project_backward(stream_, p.inputs(), g.rows(), g.pointers(), g.v_coeffs.mutable_data_ptr<float>(),
                                  pose_sums.mutable_data_ptr<float>(), g.poses()));
  }

  void spherical_harmonics(const HarmonicsOperands& p, const Tensor& colors) const {
    check(launch_spherical_harmonics(stream_, p.inputs(), colors.mutable_data_ptr<float>()));
  }

  void spherical_harmonics_backward(const HarmonicsOperands& p, const HarmonicsGradients& g) const {
    check(launch_spherical_harmonics_backward(stream_, p.inputs(), g.v_colors.const_data_ptr<float>(),
                                              g.v_directions.mutable_data_ptr<float>(),
                                              g.v_coeffs.mutable_data_ptr<float>()));
  }

  // Counts the tiles of each Gaussian, sorts the Gaussians by depth, finds the places of their pairs in that order by a
  // prefix sum, writes the pairs, and sorts them by tile. Waits once, for the number of pairs, while the GPU sorts by
  // depth. Returns flatten_ids.
  Tensor intersect(const IntersectOperands& p) const {
    const IntersectInputs in = p.inputs();
    Pairs by_depth(p.count, p.means2d);
    Totals totals(stream_, p.means2d);
    check(launch_count_tiles(stream_, in, depth_order(p, by_depth), totals.on_device()));
    totals.copy();
    const Tensor starts = sort_by_depth(p, by_depth);
    const IntersectTotals found = totals.wait();
    STD_TORCH_CHECK(found.flagged == 0, "image_ids must be in [0, ", in.images, "); ", found.flagged, " are not");
    return list_pairs(p, by_depth, starts, static_cast<int64_t>(found.tiles));
  }

  // Waits once, for the number of rows and that of pairs, and makes the lists as `intersect` does.
  PackResults pack(const PackOperands& p) const {
    const Tensor& like = p.means2d;
    int32_t* places = p.places.mutable_data_ptr<int32_t>();
    const Tensor tile_tensor = empty_like_device({p.lists() ? p.count() : 0}, ScalarType::Int, like);
    int32_t* tiles = p.lists() ? tile_tensor.mutable_data_ptr<int32_t>() : nullptr;
    Totals totals(stream_, like);
    check(launch_count_shown(stream_, p.rows(), places, tiles, totals.on_device()));
    totals.copy();
    exclusive_sum(places, p.count(), like);
    const IntersectTotals found = totals.wait();

    const PackedTensors rows = empty_rows(p, static_cast<int64_t>(found.flagged));
    if (!p.lists()) {
      check(launch_pack(stream_, p.inputs(), places, nullptr, rows.pointers(), {}));
      return {rows, no_lists(p)};
    }
    const IntersectOperands packed = check_intersect(p, rows);
    Pairs by_depth(packed.count, like);
    check(launch_pack(stream_, p.inputs(), places, tiles, rows.pointers(), depth_order(packed, by_depth)));
    const Tensor starts = sort_by_depth(packed, by_depth);
    const Tensor flatten_ids = list_pairs(packed, by_depth, starts, static_cast<int64_t>(found.tiles));
    return {rows, {packed.tiles_per_gauss, flatten_ids, packed.offsets}};
  }

  void pack_backward(const PackBackwardOperands& p) const {
    check(launch_pack_backward(stream_, p.gradients(), p.outputs()));
  }

  void rasterize(const RasterizeOperands& p, const RasterizeImages& images) const {
    check(launch_rasterize(stream_, p.inputs(), images.outputs()));
  }

  void rasterize_backward(const RasterizeBackwardOperands& p, bool deterministic) const {
    for (const Tensor* gradient : {&p.v_means2d, &p.v_means2d_abs, &p.v_conics, &p.v_colors, &p.v_opacities}) {
      clear(*gradient);
    }
    if (p.forward.intersections > 0 && p.forward.tiles() > 0) differentiate(p, deterministic);
    if (p.forward.backgrounds) sum_backgrounds(p);
  }

 private:
  // Keys and the values to sort by them, both 32 bits, in either half of their buffers.
  class Pairs {
   public:
    Pairs(int64_t count, const Tensor& like) : count_(count) {
      for (int half = 0; half < 2; ++half) {
        keys_[half] = empty_like_device({count}, ScalarType::Int, like);
        values_[half] = empty_like_device({count}, ScalarType::Int, like);
        buffers_.keys[half] = static_cast<uint32_t*>(keys_[half].mutable_data_ptr());
        buffers_.values[half] = values_[half].mutable_data_ptr<int32_t>();
      }
    }

    int64_t count() const { return count_; }
    PairBuffers& buffers() { return buffers_; }
    uint32_t* keys() const { return buffers_.keys[buffers_.current]; }
    int32_t* values() const { return buffers_.values[buffers_.current]; }
    const Tensor& values_tensor() const { return values_[buffers_.current]; }

   private:
    int64_t count_;
    Tensor keys_[2], values_[2];
    PairBuffers buffers_ = {};
  };

  // Sums that a kernel leaves and the host waits for. What is launched between `copy` and `wait` runs meanwhile.
  class Totals {
   public:
    Totals(cudaStream_t stream, const Tensor& like)
        : stream_(stream),
          device_(empty_like_device({kNumbers}, ScalarType::Long, like)),
          // Pinned: a copy into other memory would itself wait.
          host_(torch::stable::empty({kNumbers}, ScalarType::Long, std::nullopt, torch::headeronly::DeviceType::CPU,
                                     true)) {}
    Totals(const Totals&) = delete;
    Totals& operator=(const Totals&) = delete;

    ~Totals() {
      // After an error: the copy must not arrive in memory that is someone else's by then.
      if (copying_ && cudaStreamSynchronize(stream_) != cudaSuccess) cudaGetLastError();
      if (copied_ != nullptr) cudaEventDestroy(copied_);
    }

    IntersectTotals* on_device() const { return static_cast<IntersectTotals*>(device_.mutable_data_ptr()); }

    void copy() {
      check(cudaEventCreateWithFlags(&copied_, cudaEventDisableTiming));
      check(cudaMemcpyAsync(host_.mutable_data_ptr(), on_device(), sizeof(IntersectTotals), cudaMemcpyDeviceToHost,
                            stream_));
      copying_ = true;
      check(cudaEventRecord(copied_, stream_));
    }

    IntersectTotals wait() {
      check(cudaEventSynchronize(copied_));
      copying_ = false;
      return *static_cast<const IntersectTotals*>(host_.const_data_ptr());
    }

   private:
    static constexpr int64_t kNumbers = sizeof(IntersectTotals) / sizeof(int64_t);
    cudaStream_t stream_;
    Tensor device_, host_;
    cudaEvent_t copied_ = nullptr;
    bool copying_ = false;
  };

  // Raises an error with the text that torch has for it. The CUDA runtime is linked into this library, and keeps the last
  // error until it is asked for it: left there, it would be that of the next launch.
  static void check(cudaError_t status) {
    if (status == cudaSuccess) return;
    cudaGetLastError();
    STD_CUDA_CHECK(status);
  }

  // Calls a function twice: for the size of its temporary memory, and to run.
  template <class Launch>
  static void with_memory(const Tensor& like, const Launch& launch) {
    size_t bytes = 0;
    check(launch(nullptr, bytes));
    // A null address asks for the size, so the memory must not be empty.
    const Tensor memory = empty_like_device({static_cast<int64_t>(bytes) + 1}, ScalarType::Byte, like);
    check(launch(memory.mutable_data_ptr(), bytes));
  }

  void sort(Pairs& pairs, int bits, const Tensor& like) const {
    if (pairs.count() == 0 || bits == 0) return;
    with_memory(like, [&](void* memory, size_t& bytes) {
      return launch_sort(stream_, memory, bytes, pairs.buffers(), pairs.count(), bits);
    });
  }

  void exclusive_sum(int32_t* numbers, int64_t count, const Tensor& like) const {
    if (count == 0) return;
    with_memory(like, [&](void* memory, size_t& bytes) {
      return launch_exclusive_sum(stream_, memory, bytes, numbers, count);
    });
  }

  void clear(const Tensor& tensor) const {
    if (tensor.numel() == 0) return;
    check(cudaMemsetAsync(tensor.mutable_data_ptr(), 0, tensor.numel() * sizeof(float), stream_));
  }

  static DepthOrder depth_order(const IntersectOperands& p, const Pairs& by_depth) {
    return {p.tiles_per_gauss.mutable_data_ptr<int32_t>(), by_depth.keys(), by_depth.values()};
  }

  // Sorts the Gaussians by depth; returns the places of their first pairs in that order, [count + 1].
  Tensor sort_by_depth(const IntersectOperands& p, Pairs& by_depth) const {
    sort(by_depth, 32, p.means2d);
    const Tensor starts = empty_like_device({p.count + 1}, ScalarType::Int, p.means2d);
    int32_t* start = starts.mutable_data_ptr<int32_t>();
    check(launch_order_counts(stream_, p.count, by_depth.values(), p.tiles_per_gauss.const_data_ptr<int32_t>(), start));
    exclusive_sum(start, p.count + 1, p.means2d);
    return starts;
  }

  // Returns flatten_ids, and sets the offsets.
  Tensor list_pairs(const IntersectOperands& p, const Pairs& by_depth, const Tensor& starts, int64_t total) const {
    check_intersections(total);
    const IntersectInputs in = p.inputs();
    Pairs by_tile(total, p.means2d);
    if (total > 0) {
      check(launch_emit_pairs(stream_, in, by_depth.values(), starts.const_data_ptr<int32_t>(), by_tile.keys(),
                              by_tile.values()));
      sort(by_tile, in.tile_bits + bit_length(p.images - 1), p.means2d);
    }
    check(launch_find_offsets(stream_, in, total, by_tile.keys(), p.offsets.mutable_data_ptr<int32_t>()));
    return by_tile.values_tensor();
  }

  void differentiate(const RasterizeBackwardOperands& p, bool deterministic) const {
    const RasterizeOperands& forward = p.forward;
    const RasterizeInputs in = forward.inputs();
    const Tensor& like = forward.means2d;
    const int64_t slot_values = deterministic ? in.intersections * (kSlotValues + in.channels) : 0;
    const Tensor slot_tensor = empty_like_device({slot_values}, ScalarType::Float, like);
    float* slots = deterministic ? slot_tensor.mutable_data_ptr<float>() : nullptr;
    clear(slot_tensor);
    check(launch_differentiate(stream_, in, p.gradients(), p.outputs(), slots));
    if (!deterministic) return;
    Pairs by_id(in.intersections, like);
    check(launch_number_positions(stream_, in, by_id.keys(), by_id.values()));
    sort(by_id, 32, like);
    check(launch_sum_slots(stream_, in, by_id.keys(), by_id.values(), slots, p.outputs()));
  }

  void sum_backgrounds(const RasterizeBackwardOperands& p) const {
    const RasterizeOperands& forward = p.forward;
    const int64_t slices = background_slices(int64_t{forward.width} * forward.height);
    const Tensor partial =
        empty_like_device({forward.images, slices, forward.channels}, ScalarType::Float, p.v_images);
    check(launch_sum_backgrounds(stream_, forward.inputs(), forward.images, p.gradients(),
                                 partial.mutable_data_ptr<float>(), p.v_backgrounds.mutable_data_ptr<float>()));
  }

  torch::stable::accelerator::DeviceGuard guard_;
  cudaStream_t stream_ = nullptr;
};

}  // namespace splat
