// torch's header of this name, for libraries for Windows: operators whose exceptions torch can catch.
//
// torch is compiled by MSVC there, to which an exception of another compiler means nothing: it would end the process. So
// what TORCH_BOX makes catches it, and has torch throw one of its own, by a function of its C interface.
#pragma once

#include_next <torch/csrc/stable/library.h>

#include <exception>
#include <string.h>

#include <torch/csrc/inductor/aoti_torch/c/shim.h>

namespace kernelwheel {

using Boxed = void (*)(StableIValue*, uint64_t, uint64_t);

// Whether a call failed; then `message` says why, cut to its size. Everything that needs destructors has run.
inline bool failed(Boxed function, StableIValue* stack, uint64_t inputs, uint64_t outputs, char* message, size_t size) {
  try {
    function(stack, inputs, outputs);
    return false;
  } catch (const std::exception& error) {
    strncpy(message, error.what(), size - 1);
  } catch (...) {
    strncpy(message, "an operator threw something that is no std::exception", size - 1);
  }
  message[size - 1] = 0;
  return true;
}

template <Boxed function>
void guarded(StableIValue* stack, uint64_t inputs, uint64_t outputs) {
  char message[4096];
  if (failed(function, stack, inputs, outputs, message, sizeof message)) aoti_torch_check(false, "", "", 0, message);
}

}  // namespace kernelwheel

#undef TORCH_BOX
#define TORCH_BOX(func) \
  kernelwheel::guarded< \
      &torch::stable::detail::boxer<std::remove_pointer_t<std::remove_reference_t<decltype(func)>>, (func)>::boxed_fn>
