// A function as an operator, as TORCH_BOX makes it, but without the tuple of all arguments that takes that half of the
// time in which a file of operators compiles.
#pragma once

#include <tuple>
#include <type_traits>
#include <utility>

#include <torch/csrc/stable/library.h>

namespace splat {

template <class Function, Function* kFunction>
struct Boxed;

template <class Result, class... Arguments, Result (*kFunction)(Arguments...)>
struct Boxed<Result(Arguments...), kFunction> {
  // `stack` has the arguments, and then the results. The handles of tensors in it pass to us, and to torch.
  static void call(StableIValue* stack, uint64_t arguments, uint64_t results) {
    STD_TORCH_CHECK(arguments == sizeof...(Arguments) && results == kResults, "the schema says ", arguments,
                    " arguments and ", results, " results, the function has ", sizeof...(Arguments), " and ", kResults);
    call(stack, std::index_sequence_for<Arguments...>());
  }

 private:
  template <size_t... kIndex>
  static void call(StableIValue* stack, std::index_sequence<kIndex...>) {
    if constexpr (kResults == 0) {
      kFunction(torch::stable::detail::to<std::decay_t<Arguments>>(stack[kIndex])...);
    } else {
      put(stack, kFunction(torch::stable::detail::to<std::decay_t<Arguments>>(stack[kIndex])...));
    }
  }

  template <class One>
  static void put(StableIValue* stack, const One& result) {
    stack[0] = torch::stable::detail::from(result);
  }

  template <class... All>
  static void put(StableIValue* stack, const std::tuple<All...>& results) {
    std::apply([stack](const All&... each) mutable { ((*stack++ = torch::stable::detail::from(each)), ...); }, results);
  }

  template <class One>
  static constexpr uint64_t count(const One*) { return 1; }
  template <class... All>
  static constexpr uint64_t count(const std::tuple<All...>*) { return sizeof...(All); }
  static constexpr uint64_t count(const void*) { return 0; }

  static constexpr uint64_t kResults = count(static_cast<const Result*>(nullptr));
};

// What StableLibrary::impl takes. For Windows, kernelwheel's TORCH_BOX also carries exceptions to a torch of MSVC's.
#ifdef _WIN32
#define SPLAT_BOX TORCH_BOX
#else
#define SPLAT_BOX(function) (&splat::Boxed<std::remove_pointer_t<decltype(function)>, function>::call)
#endif

}  // namespace splat
