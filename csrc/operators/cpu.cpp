// The library for the CPU, without the parts that have their own.
#include <algorithm>
#include <atomic>

#include "../cpu/available_memory.h"
#include "../cpu/functions.h"
#include "../math/sort_keys.h"
#include "cpu_instruction_set.h"
#include "cpu_lists.h"
#include "rasterization_operators.h"

namespace splat {
namespace {

// The memory of a list until it is written, and known to be used. A file of a few kilobytes can have Gaussians that touch
// gigabytes of tiles, and be drawn for several pages at once.
class ListMemory {
 public:
  // Raises an error if there is not enough.
  ListMemory(const cpu::TilePairs& pairs, int64_t room) : bytes_(room * static_cast<int64_t>(sizeof(int32_t))) {
    const int64_t others = all_.fetch_add(bytes_), needed = pairs.missing_bytes() + bytes_;
    if (needed + others <= cpu::kUnaskedBytes) return;
    const int64_t found = std::max<int64_t>(cpu::available_memory() - others, 0);
    if (pairs.missing_bytes() == 0 && needed <= found) return;
    all_ -= bytes_;
    STD_TORCH_CHECK(false, "not enough memory to allocate ", needed, " bytes for ", pairs.count(),
                    " pairs of Gaussian and tile, found ", found,
                    " bytes; render smaller images or fewer Gaussians, or move the camera away");
  }
  ListMemory(const ListMemory&) = delete;
  ListMemory& operator=(const ListMemory&) = delete;
  ~ListMemory() { all_ -= bytes_; }

 private:
  static inline std::atomic<int64_t> all_{0};  // of all threads
  int64_t bytes_;
};

class Cpu {
 public:
  explicit Cpu(const Tensor&) {}

  void project(const ProjectOperands& p, const ProjectResults& r) const {
    *r.invalid.mutable_data_ptr<int64_t>() = cpu::project(p.inputs(), r.pointers());
  }

  void project_backward(const ProjectOperands& p, const ProjectGradients& g) const {
    cpu::project_backward(p.inputs(), g.rows(), g.pointers(), g.v_coeffs.mutable_data_ptr<float>(),
                          g.poses());
  }

  void spherical_harmonics(const HarmonicsOperands& p, const Tensor& colors) const {
    cpu::spherical_harmonics(p.inputs(), colors.mutable_data_ptr<float>());
  }

  void spherical_harmonics_backward(const HarmonicsOperands& p, const HarmonicsGradients& g) const {
    cpu::spherical_harmonics_backward(p.inputs(), g.v_colors.const_data_ptr<float>(),
                                      g.v_directions.mutable_data_ptr<float>(), g.v_coeffs.mutable_data_ptr<float>());
  }

  // Returns flatten_ids.
  Tensor intersect(const IntersectOperands& p) const {
    const IntersectInputs in = p.inputs();
    check_images(in);
    cpu::TilePairs pairs(in, p.tiles_per_gauss.mutable_data_ptr<int32_t>());
    check_intersections(pairs.count());
    const int64_t room = p.capacity.value_or(pairs.count());
    STD_TORCH_CHECK(pairs.count() <= room, "the Gaussians touch ", pairs.count(), " tiles, for which capacity=", room,
                    " has no room; pass a larger one");
    const ListMemory memory(pairs, room);
    const Tensor flatten_ids = empty_like_device({room}, ScalarType::Int, p.means2d);
    int32_t* ids = flatten_ids.mutable_data_ptr<int32_t>();
    pairs.write(ids, p.offsets.mutable_data_ptr<int32_t>());
    std::fill(ids + pairs.count(), ids + room, kNoGaussian);
    return flatten_ids;
  }

  PackResults pack(const PackOperands& p) const {
    int32_t* places = p.places.mutable_data_ptr<int32_t>();
    const PackedTensors rows = empty_rows(p, cpu::place_rows(p.inputs(), places));
    cpu::pack(p.inputs(), places, rows.pointers());
    if (!p.lists()) return {rows, no_lists(p)};
    const IntersectOperands packed = check_packed_intersect(p, rows);
    const Tensor flatten_ids = intersect(packed);
    return {rows, {packed.tiles_per_gauss, flatten_ids, packed.offsets}};
  }

  void pack_backward(const PackBackwardOperands& p) const { cpu::pack_backward(p.gradients(), p.outputs()); }

  void rasterize(const RasterizeOperands& p, const RasterizeImages& images) const {
    cpu::rasterize(checked_lists(p.inputs()), images.outputs());
  }

  // Its results are always deterministic.
  void rasterize_backward(const RasterizeBackwardOperands& p, bool) const {
    const RasterizeInputs in = checked_lists(p.forward.inputs());
    cpu::rasterize_backward(in, p.gradients(), p.outputs());
    if (p.forward.backgrounds) {
      cpu::sum_backgrounds(in, p.forward.images, p.gradients(), p.v_backgrounds.mutable_data_ptr<float>());
    }
  }

 private:
  // What is used as an index into memory is not trusted.
  static void check_images(const IntersectInputs& in) {
    if (in.image_ids == nullptr) return;
    for (int64_t i = 0; i < in.count; ++i) {
      STD_TORCH_CHECK(in.image_ids[i] >= 0 && in.image_ids[i] < in.images, "image_ids[", i, "] is ", in.image_ids[i],
                      ", but there are ", in.images, " images");
    }
  }
};

}  // namespace
}  // namespace splat

STABLE_TORCH_LIBRARY_FRAGMENT(splat, m) {
  m.def("instruction_set(str name) -> str");
  m.def("available_memory() -> int");
}

STABLE_TORCH_LIBRARY_IMPL(splat, CPU, m) { splat::implement_rasterization<splat::Cpu>(m); }

STABLE_TORCH_LIBRARY_IMPL(splat, CompositeExplicitAutograd, m) {
  m.impl("instruction_set", SPLAT_BOX(&splat::select_instruction_set));
  m.impl("available_memory", SPLAT_BOX(&splat::cpu::available_memory));
}
