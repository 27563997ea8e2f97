// Checks of single tensors and numbers, made before memory is touched, on the CPU and on CUDA alike.
#pragma once

#include <torch/headeronly/util/Exception.h>

#include "../math/integers.h"
#include "tensors.h"

namespace splat {

constexpr int64_t kMaxImageSide = 1 << 20;

// Kernels number channels with 32 bits.
constexpr int64_t kMaxChannels = 1 << 30;

// Returns `tensor` in contiguous memory; raises an error if its dtype, shape or device is not as required.
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

// The size of one dimension; raises an error unless there are `dims` dimensions.
inline int64_t checked_size(const Tensor& tensor, const char* name, int64_t dim, int64_t dims) {
  STD_TORCH_CHECK(tensor.dim() == dims, name, " must have ", dims, " dimensions; found ", tensor.dim());
  return tensor.size(dim);
}

// The value as an `int` for a kernel; raises an error unless low <= value <= high.
inline int checked_int(int64_t value, const char* name, int64_t low, int64_t high) {
  STD_TORCH_CHECK(value >= low && value <= high, name, " must be between ", low, " and ", high, "; found ", value);
  return static_cast<int>(value);
}

// Gaussians are numbered with 32-bit integers across all images.
inline int64_t checked_count(int64_t images, int64_t gaussians) {
  STD_TORCH_CHECK(images == 0 || gaussians <= kMaxCount / images, images, " images of ", gaussians,
                  " Gaussians are more than the 2^31 - 1 that 32-bit indices can number; render fewer images at once");
  return images * gaussians;
}

// Sets are numbered as images are; without images there may be any number of them.
inline void check_set_count(int64_t sets, int64_t gaussians) {
  STD_TORCH_CHECK(sets == 0 || gaussians <= kMaxCount / sets, sets, " sets of ", gaussians,
                  " Gaussians are more than the 2^31 - 1 that 32-bit indices can number; render fewer scenes at once");
}

// Sets of which each has nothing to compute are not visited: their number is not bounded by memory.
inline int64_t sets_with_work(int64_t sets, bool any) { return any ? sets : 0; }

// The tiles of all images are numbered with 32-bit integers. Precondition: their number is less than 2^63.
inline void check_tile_count(int64_t images, int64_t columns, int64_t rows) {
  STD_TORCH_CHECK(images * columns * rows <= kMaxCount, images, " images of ", columns, " x ", rows,
                  " tiles are more than 2^31 - 1 tiles; render fewer images at once, or use larger tiles");
}

// The offsets into the lists and the indices in them are 32-bit integers.
inline void check_intersections(int64_t total) {
  STD_TORCH_CHECK(total <= kMaxCount, "the Gaussians touch ", total,
                  " tiles, more than 2^31 - 1; render fewer images at once, or use larger tiles");
}

}  // namespace splat
