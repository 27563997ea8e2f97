// What every operator checks before it touches memory, on the CPU and on CUDA alike.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <limits>
#include <optional>
#include <sstream>
#include <string>

#include <torch/csrc/stable/ops.h>
#include <torch/csrc/stable/tensor.h>
#include <torch/headeronly/core/ScalarType.h>
#include <torch/headeronly/util/Exception.h>

namespace splat {

using torch::headeronly::ScalarType;
using torch::stable::Tensor;

// In an expected shape: any size will do.
constexpr int64_t kAny = -1;

constexpr int64_t kMaxImageSide = 1 << 20;

// Kernels number channels with 32 bits.
constexpr int64_t kMaxChannels = 1 << 30;

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

// Returns `tensor` in contiguous memory; an error if its dtype, shape or device is not the one required.
inline Tensor checked(const Tensor& tensor, const char* name, ScalarType dtype, std::initializer_list<int64_t> shape,
                      const Tensor& same_device) {
  STD_TORCH_CHECK(tensor.scalar_type() == dtype, name, " must have dtype ", torch::headeronly::toString(dtype),
                  "; found ", torch::headeronly::toString(tensor.scalar_type()));
  const auto sizes = tensor.sizes();
  bool fits = sizes.size() == shape.size();
  for (size_t i = 0; fits && i < shape.size(); ++i) {
    fits = shape.begin()[i] == kAny || shape.begin()[i] == sizes[i];
  }
  STD_TORCH_CHECK(fits, name, " must have shape ", describe_shape(shape.begin(), shape.size()), "; found ",
                  describe_shape(sizes.data(), sizes.size()));
  STD_TORCH_CHECK(tensor.is_cuda() == same_device.is_cuda() &&
                      tensor.get_device_index() == same_device.get_device_index(),
                  name, " must be on ", describe_device(same_device), " like the other tensors; found it on ",
                  describe_device(tensor));
  return torch::stable::contiguous(tensor);
}

inline std::optional<Tensor> checked(const std::optional<Tensor>& tensor, const char* name, ScalarType dtype,
                                     std::initializer_list<int64_t> shape, const Tensor& same_device) {
  if (!tensor) return std::nullopt;
  return checked(*tensor, name, dtype, shape, same_device);
}

// The size of one dimension, an error where there is no such dimension.
inline int64_t checked_size(const Tensor& tensor, const char* name, int64_t dim, int64_t dims) {
  STD_TORCH_CHECK(tensor.dim() == dims, name, " must have ", dims, " dimensions; found ", tensor.dim());
  return tensor.size(dim);
}

// An integer that fits a kernel's `int`.
inline int checked_int(int64_t value, const char* name, int64_t low, int64_t high) {
  STD_TORCH_CHECK(value >= low && value <= high, name, " must be between ", low, " and ", high, "; found ", value);
  return static_cast<int>(value);
}

// Gaussians are numbered with 32-bit integers across all images.
inline int64_t checked_count(int64_t images, int64_t gaussians) {
  constexpr int64_t kLargest = std::numeric_limits<int32_t>::max();
  STD_TORCH_CHECK(images == 0 || gaussians <= kLargest / images, images, " images of ", gaussians,
                  " Gaussians are more than the 2^31 - 1 that 32-bit indices can number; render fewer images at once");
  return images * gaussians;
}

inline Tensor empty_like_device(std::initializer_list<int64_t> shape, ScalarType dtype, const Tensor& like) {
  return torch::stable::empty(torch::headeronly::IntHeaderOnlyArrayRef(shape.begin(), shape.size()), dtype,
                              std::nullopt, like.device());
}

// A pointer for a kernel; null where there is no tensor.
template <class T>
const T* data_or_null(const std::optional<Tensor>& tensor) {
  return tensor ? tensor->const_data_ptr<T>() : nullptr;
}

}  // namespace splat
