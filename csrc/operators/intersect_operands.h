// Arguments, checked and contiguous, and outputs, allocated, of intersect, on the CPU and on CUDA.
//
// Shapes: I images, N Gaussians, M rows of a packed layout.
#pragma once

#include "checks.h"
#include "../math/constants.h"
#include "../math/intersect_rows.h"

namespace splat {

struct IntersectOperands {
  Tensor means2d, radii, depths, conics, opacities;  // [I, N, ...] or [M, ...]
  std::optional<Tensor> image_ids;                   // [M] if packed
  int64_t images, count;                             // count: I * N or M
  int64_t gaussians;                                 // N; 0 if packed
  TileGrid grid;
  Tensor tiles_per_gauss, offsets;  // outputs: like depths, [I, rows, columns]
  std::optional<int64_t> capacity;  // the length of flatten_ids; none: as many as there are pairs

  int64_t tiles() const { return images * tiles_per_image(grid); }

  IntersectInputs inputs() const {
    return {means2d.const_data_ptr<float>(),
            depths.const_data_ptr<float>(),
            conics.const_data_ptr<float>(),
            opacities.const_data_ptr<float>(),
            radii.const_data_ptr<int32_t>(),
            data_or_null<int64_t>(image_ids),
            count,
            gaussians,
            images,
            grid,
            tile_bits(grid)};
  }
};

inline TileGrid checked_grid(int64_t images, int64_t tile_size, int64_t tile_width, int64_t tile_height) {
  const TileGrid grid = {checked_int(tile_size, "tile_size", 1, kMaxTileSize),
                         checked_int(tile_width, "tile_width", 1, kMaxImageSide),
                         checked_int(tile_height, "tile_height", 1, kMaxImageSide)};
  checked_int(images, "images", 0, kMaxCount);
  STD_TORCH_CHECK(tile_bits(grid) + bit_length(images) <= 32, images, " images of ", tile_width, " x ", tile_height,
                  " tiles need more than the 32 bits that an intersection key has for both; render fewer images "
                  "at once");
  check_tile_count(images, grid.columns, grid.rows);
  return grid;
}

inline IntersectOperands check_intersect(const Tensor& means2d, const Tensor& radii, const Tensor& depths,
                                         const Tensor& conics, const Tensor& opacities,
                                         const std::optional<Tensor>& image_ids, int64_t images, int64_t tile_size,
                                         int64_t tile_width, int64_t tile_height, std::optional<int64_t> capacity) {
  constexpr auto f32 = ScalarType::Float;
  const TileGrid grid = checked_grid(images, tile_size, tile_width, tile_height);
  STD_TORCH_CHECK(!capacity || !image_ids, "capacity is for the dense layout, without image_ids");
  STD_TORCH_CHECK(!capacity || (*capacity >= 1 && *capacity <= kMaxCount), "capacity must be 1 to ", kMaxCount,
                  ", found ", capacity.value_or(0));
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
            empty_like_device({m}, ScalarType::Int, like),
            empty_like_device({images, tile_height, tile_width}, ScalarType::Int, like),
            capacity};
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
          empty_like_device({images, n}, ScalarType::Int, like),
          empty_like_device({images, tile_height, tile_width}, ScalarType::Int, like),
          capacity};
}

}  // namespace splat
