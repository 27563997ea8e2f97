// The operators' arguments, checked and contiguous, and their outputs, allocated: all that the CPU and the CUDA
// implementations have in common.
//
// Shapes: I images, N Gaussians, M rows of a packed layout, D channels, n intersections.
#pragma once

#include <tuple>

#include "checks.h"
#include "math/constants.h"
#include "math/tiles.h"

namespace splat {

// The number of bits needed to write `value`; gsplat 1.5.3 lays out its intersection keys with it.
inline int bit_length(int64_t value) {
  int bits = 0;
  for (; value > 0; value >>= 1) ++bits;
  return bits;
}

struct IntersectOperands {
  Tensor means2d, radii, depths, conics, opacities;  // [I, N, ...] or [M, ...]
  std::optional<Tensor> image_ids;                   // [M] where packed
  int64_t images, count;                             // count: I * N or M
  int64_t gaussians;                                 // N; 0 where packed
  TileGrid grid;
  int tile_bits;  // of a key: image | tile | depth
  Tensor tiles_per_gauss, offsets;  // outputs: like depths, [I, rows, columns]

  int64_t tiles() const { return images * grid.rows * grid.columns; }
};

inline IntersectOperands check_intersect(const Tensor& means2d, const Tensor& radii, const Tensor& depths,
                                         const Tensor& conics, const Tensor& opacities,
                                         const std::optional<Tensor>& image_ids, int64_t images, int64_t tile_size,
                                         int64_t tile_width, int64_t tile_height) {
  constexpr auto f32 = ScalarType::Float;
  const TileGrid grid = {checked_int(tile_size, "tile_size", 1, kMaxTileSize),
                         checked_int(tile_width, "tile_width", 1, kMaxImageSide),
                         checked_int(tile_height, "tile_height", 1, kMaxImageSide)};
  const int tile_bits = bit_length(tile_width * tile_height);
  checked_int(images, "images", 0, std::numeric_limits<int32_t>::max());
  STD_TORCH_CHECK(tile_bits + bit_length(images) <= 32, images, " images of ", tile_width, " x ", tile_height,
                  " tiles need more than the 32 bits that an intersection key has for both; render fewer images "
                  "at once");
  const Tensor& like = means2d;
  if (image_ids) {
    const int64_t m = checked_size(means2d, "means2d (packed, because image_ids is given)", 0, 2);
    checked_count(1, m);
    return {checked(means2d, "means2d", f32, {m, 2}, like),
            checked(radii, "radii", ScalarType::Int, {m, 2}, like),
            checked(depths, "depths", f32, {m}, like),
            checked(conics, "conics", f32, {m, 3}, like),
            checked(opacities, "opacities", f32, {m}, like),
            checked(*image_ids, "image_ids", ScalarType::Long, {m}, like),
            images,
            m,
            0,
            grid,
            tile_bits,
            empty_like_device({m}, ScalarType::Int, like),
            empty_like_device({images, tile_height, tile_width}, ScalarType::Int, like)};
  }
  const int64_t n = checked_size(means2d, "means2d (dense, because image_ids is not given)", 1, 3);
  checked_count(images, n);
  return {checked(means2d, "means2d", f32, {images, n, 2}, like),
          checked(radii, "radii", ScalarType::Int, {images, n, 2}, like),
          checked(depths, "depths", f32, {images, n}, like),
          checked(conics, "conics", f32, {images, n, 3}, like),
          checked(opacities, "opacities", f32, {images, n}, like),
          std::nullopt,
          images,
          images * n,
          n,
          grid,
          tile_bits,
          empty_like_device({images, n}, ScalarType::Int, like),
          empty_like_device({images, tile_height, tile_width}, ScalarType::Int, like)};
}

// The offsets into the lists, and the list's indices, are 32-bit integers.
inline void check_intersections(int64_t total) {
  STD_TORCH_CHECK(total <= std::numeric_limits<int32_t>::max(), "the Gaussians touch ", total,
                  " tiles, more than 2^31 - 1; render fewer images at once or larger tiles");
}

struct RasterizeOperands {
  Tensor means2d, conics, colors, opacities;  // [I, N, ...] or [M, ...]
  std::optional<Tensor> backgrounds;          // [I, D]
  Tensor offsets, flatten_ids;                // [I, rows, columns], [n]
  int64_t images, count, channels, intersections;
  int width, height;
  TileGrid grid;
  Tensor out_colors, out_alphas, last_ids;  // outputs: [I, H, W, D], [I, H, W, 1], [I, H, W]

  int64_t tiles() const { return images * grid.rows * grid.columns; }
};

inline RasterizeOperands check_rasterize(const Tensor& means2d, const Tensor& conics, const Tensor& colors,
                                         const Tensor& opacities, const std::optional<Tensor>& backgrounds,
                                         int64_t width, int64_t height, int64_t tile_size, const Tensor& offsets,
                                         const Tensor& flatten_ids) {
  constexpr auto f32 = ScalarType::Float;
  const TileGrid grid = {
      checked_int(tile_size, "tile_size", 1, kMaxTileSize),
      checked_int((checked_int(width, "width", 1, kMaxImageSide) + tile_size - 1) / tile_size, "tile columns", 1,
                  kMaxImageSide),
      checked_int((checked_int(height, "height", 1, kMaxImageSide) + tile_size - 1) / tile_size, "tile rows", 1,
                  kMaxImageSide)};
  const int64_t images = checked_size(offsets, "isect_offsets", 0, 3);
  const bool packed = means2d.dim() == 2;
  STD_TORCH_CHECK(packed || means2d.dim() == 3, "means2d must have shape [I, N, 2], or [M, 2] if packed; found ",
                  describe_shape(means2d.sizes().data(), means2d.sizes().size()));
  const int64_t n = means2d.size(packed ? 0 : 1);
  const int64_t channels = checked_size(colors, "colors", packed ? 1 : 2, means2d.dim());
  STD_TORCH_CHECK(channels >= 1, "colors must have at least one channel");
  const int64_t count = packed ? checked_count(1, n) : checked_count(images, n);
  const int64_t intersections = checked_size(flatten_ids, "flatten_ids", 0, 1);
  check_intersections(intersections);
  const Tensor& like = means2d;
  const auto shaped = [&](const Tensor& tensor, const char* name, int64_t last) {
    return packed ? checked(tensor, name, f32, {n, last}, like) : checked(tensor, name, f32, {images, n, last}, like);
  };
  RasterizeOperands p = {
      shaped(means2d, "means2d", 2),
      shaped(conics, "conics", 3),
      shaped(colors, "colors", channels),
      packed ? checked(opacities, "opacities", f32, {n}, like)
             : checked(opacities, "opacities", f32, {images, n}, like),
      std::nullopt,
      checked(offsets, "isect_offsets", ScalarType::Int, {images, grid.rows, grid.columns}, like),
      checked(flatten_ids, "flatten_ids", ScalarType::Int, {intersections}, like),
      images,
      count,
      channels,
      intersections,
      static_cast<int>(width),
      static_cast<int>(height),
      grid,
      empty_like_device({images, height, width, channels}, f32, like),
      empty_like_device({images, height, width, 1}, f32, like),
      empty_like_device({images, height, width}, ScalarType::Int, like),
  };
  STD_TORCH_CHECK(p.tiles() <= std::numeric_limits<int32_t>::max(), images, " images of ", grid.columns, " x ",
                  grid.rows, " tiles are more than 2^31 - 1 tiles; render fewer images at once or larger tiles");
  if (backgrounds) p.backgrounds = checked(*backgrounds, "backgrounds", f32, {images, channels}, like);
  return p;
}

// A pointer for a kernel; null where there is no tensor.
template <class T>
const T* data_or_null(const std::optional<Tensor>& tensor) {
  return tensor ? tensor->const_data_ptr<T>() : nullptr;
}

}  // namespace splat
