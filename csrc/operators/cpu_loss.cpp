// The loss of images on the CPU.
#include "../cpu/functions.h"
#include "cpu_instruction_set.h"
#include "loss_operators.h"

namespace splat {
namespace {

class CpuLoss {
 public:
  explicit CpuLoss(const Tensor&) {}

  void image_loss(const ImageLossOperands& p, const ImageLossResults& r) const {
    cpu::image_loss(p.inputs(), r.pointers());
  }

  void image_loss_backward(const ImageLossBackwardOperands& p) const {
    cpu::image_loss_backward(p.forward.inputs(), p.gradients());
  }
};

}  // namespace
}  // namespace splat

STABLE_TORCH_LIBRARY_IMPL(splat, CPU, m) { splat::implement_loss<splat::CpuLoss>(m); }

STABLE_TORCH_LIBRARY_FRAGMENT(splat, m) { m.def("instruction_set_loss(str name) -> str"); }

STABLE_TORCH_LIBRARY_IMPL(splat, CompositeExplicitAutograd, m) {
  m.impl("instruction_set_loss", SPLAT_BOX(&splat::select_instruction_set));
}
