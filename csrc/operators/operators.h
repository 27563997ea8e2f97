// How operators are made of functions. What one takes is what the functions take that check it, `check_*` in *_operands.h,
// and then what the function takes that allocates its results, in *_operators.h; the arithmetic is the `Device`'s, which is
// made from a tensor for one call. Each library registers those of its part for its own device: cpu*.cpp, cuda*.cpp. Their
// schemas are in splat/_schemas.py.
#pragma once

#include <tuple>

#include "boxing.h"
#include "tensors.h"

namespace splat {

// Of the arguments, which may begin with a number.
template <class... Others>
const Tensor& first_tensor(const Tensor& first, const Others&...) {
  return first;
}

template <class... Others>
const Tensor& first_tensor(int64_t, const Others&... others) {
  return first_tensor(others...);
}

// `call` takes the arguments of kCheck, and then those of kRun behind the device and what kCheck returns.
template <auto kCheck, auto kRun>
struct Operator;

template <class Operands, class... Checked, Operands (*kCheck)(Checked...), class Results, class Device,
          class... Others, Results (*kRun)(const Device&, const Operands&, Others...)>
struct Operator<kCheck, kRun> {
  static Results call(Checked... checked, Others... others) {
    const Device device(first_tensor(checked...));
    return kRun(device, kCheck(checked...), others...);
  }
};

// The gradient of an operator: between these, `call` takes the arguments of kCheckGradient behind what kCheck returns.
template <auto kCheck, auto kCheckGradient, auto kRun>
struct GradientOperator;

template <class Operands, class... Checked, Operands (*kCheck)(Checked...), class Gradients, class... Added,
          Gradients (*kCheckGradient)(const Operands&, Added...), class Results, class Device, class... Others,
          Results (*kRun)(const Device&, const Operands&, const Gradients&, Others...)>
struct GradientOperator<kCheck, kCheckGradient, kRun> {
  static Results call(Checked... checked, Added... added, Others... others) {
    const Device device(first_tensor(checked...));
    const Operands operands = kCheck(checked...);
    return kRun(device, operands, kCheckGradient(operands, added...), others...);
  }
};

// Registers an operator of the functions `Run`, and its gradient, with `m`: what STABLE_TORCH_LIBRARY_IMPL gives.
#define SPLAT_OPERATOR(name) m.impl(#name, SPLAT_BOX((&Operator<check_##name, &Run::name>::call)))
#define SPLAT_GRADIENT(name)  \
  m.impl(#name "_backward", \
         SPLAT_BOX((&GradientOperator<check_##name, check_##name##_backward, &Run::name##_backward>::call)))

}  // namespace splat
