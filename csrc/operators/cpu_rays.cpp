// Gaussians along rays on the CPU.
#include "../cpu/functions.h"
#include "cpu_instruction_set.h"
#include "cpu_lists.h"
#include "rays_operators.h"

namespace splat {
namespace {

class CpuRays {
 public:
  explicit CpuRays(const Tensor&) {}

  void rasterize_along_rays(const AlongRaysOperands& p, const RasterizeImages& images) const {
    cpu::rasterize_along_rays(checked_lists(p), images.outputs());
  }

  void rasterize_along_rays_backward(const AlongRaysBackwardOperands& p) const {
    cpu::rasterize_along_rays_backward(checked_lists(p.forward), p.gradients(), p.outputs());
  }
};

}  // namespace
}  // namespace splat

STABLE_TORCH_LIBRARY_IMPL(splat, CPU, m) { splat::implement_rays<splat::CpuRays>(m); }

STABLE_TORCH_LIBRARY_FRAGMENT(splat, m) { m.def("instruction_set_rays(str name) -> str"); }

STABLE_TORCH_LIBRARY_IMPL(splat, CompositeExplicitAutograd, m) {
  m.impl("instruction_set_rays", SPLAT_BOX(&splat::select_instruction_set));
}
