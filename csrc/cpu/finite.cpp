// splat::find_finite on the CPU.
#include <atomic>
#include <tuple>

#include <torch/csrc/stable/library.h>

#include "../finite_operands.h"

namespace splat {
namespace {

std::tuple<Tensor, Tensor> find_finite(Tensor means, std::optional<Tensor> quats, std::optional<Tensor> scales,
                                       std::optional<Tensor> covars, Tensor opacities, Tensor colors) {
  const FiniteOperands p = check_finite(means, quats, scales, covars, opacities, colors);
  const FiniteInputs in = p.inputs();
  bool* finite = p.finite.mutable_data_ptr<bool>();
  std::atomic<int64_t> invalid{0};
  torch::stable::parallel_for(0, p.count(), 4096, [&](int64_t begin, int64_t end) {
    int64_t found = 0;
    for (int64_t i = begin; i < end; ++i) {
      finite[i] = is_finite_gaussian(in, i);
      found += !finite[i];
    }
    invalid += found;
  });
  *p.invalid.mutable_data_ptr<int64_t>() = invalid;
  return {p.finite, p.invalid};
}

}  // namespace
}  // namespace splat

STABLE_TORCH_LIBRARY_IMPL(splat, CPU, m) { m.impl("find_finite", TORCH_BOX(&splat::find_finite)); }
