// Tensors as the operators handle them: making them, pointers into them, and how messages describe them.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <sstream>
#include <string>

#include <torch/csrc/stable/ops.h>
#include <torch/csrc/stable/tensor.h>
#include <torch/headeronly/core/ScalarType.h>

namespace splat {

using torch::headeronly::ScalarType;
using torch::stable::Tensor;

// In a required shape: any size is accepted.
constexpr int64_t kAny = -1;

inline std::string describe_shape(const int64_t* sizes, size_t count) {
  std::ostringstream text;
  text << '[';
  for (size_t i = 0; i < count; ++i) {
    if (i > 0) text << ", ";
    if (sizes[i] == kAny) {
      text << '*';
    } else {
      text << sizes[i];
    }
  }
  text << ']';
  return text.str();
}

inline std::string describe_device(const Tensor& tensor) {
  if (tensor.is_cpu()) return "the CPU";
  return "device " + std::to_string(tensor.get_device_index());
}

inline Tensor empty_like_device(std::initializer_list<int64_t> shape, ScalarType dtype, const Tensor& like) {
  return torch::stable::empty(torch::headeronly::IntHeaderOnlyArrayRef(shape.begin(), shape.size()), dtype,
                              std::nullopt, like.device());
}

// A pointer for a kernel; null if there is no tensor.
template <class T>
const T* data_or_null(const std::optional<Tensor>& tensor) {
  return tensor ? tensor->const_data_ptr<T>() : nullptr;
}

}  // namespace splat
