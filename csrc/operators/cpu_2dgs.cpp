// 2D Gaussians on the CPU.
#include "../cpu/functions.h"
#include "2dgs_operators.h"
#include "cpu_instruction_set.h"
#include "cpu_lists.h"

namespace splat {
namespace {

class Cpu2dgs {
 public:
  explicit Cpu2dgs(const Tensor&) {}

  void rasterize_2dgs(const Rasterize2dgsOperands& p, const Rasterize2dgsImages& images) const {
    cpu::rasterize_2dgs(checked_lists(p), images.outputs());
  }

  void rasterize_2dgs_backward(const Rasterize2dgsBackwardOperands& p) const {
    cpu::rasterize_2dgs_backward(checked_lists(p.forward), p.gradients(), p.outputs());
  }
};

}  // namespace
}  // namespace splat

STABLE_TORCH_LIBRARY_IMPL(splat, CPU, m) { splat::implement_2dgs<splat::Cpu2dgs>(m); }

STABLE_TORCH_LIBRARY_FRAGMENT(splat, m) { m.def("instruction_set_2dgs(str name) -> str"); }

STABLE_TORCH_LIBRARY_IMPL(splat, CompositeExplicitAutograd, m) {
  m.impl("instruction_set_2dgs", SPLAT_BOX(&splat::select_instruction_set));
}
