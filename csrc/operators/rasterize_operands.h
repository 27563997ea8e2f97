// Arguments, checked and contiguous, and outputs, allocated, of rasterize and rasterize_backward, on the CPU and on
// CUDA.
//
// Shapes: I images, N Gaussians, M rows of a packed layout, D channels, n intersections.
#pragma once

#include "checks.h"
#include "../math/constants.h"
#include "../math/rasterize_rows.h"

namespace splat {

struct RasterizeOperands {
  Tensor colors, opacities;               // [I, N, ...] or [M, ...], as are:
  std::optional<Tensor> means2d, conics;  // neither along rays, no conics for 2D Gaussians
  std::optional<Tensor> backgrounds;  // [I, D]
  std::optional<Tensor> masks;        // [I, rows, columns], bool; tiles where it is false are not rendered
  Tensor offsets, flatten_ids;        // [I, rows, columns], [n]
  int64_t images, count, channels, intersections;
  int width, height;
  float max_alpha;
  TileGrid grid;

  int64_t tiles() const { return images * tiles_per_image(grid); }

  RasterizeInputs inputs() const {
    return {data_or_null<float>(means2d),
            data_or_null<float>(conics),
            colors.const_data_ptr<float>(),
            opacities.const_data_ptr<float>(),
            data_or_null<float>(backgrounds),
            data_or_null<bool>(masks),
            offsets.const_data_ptr<int32_t>(),
            flatten_ids.const_data_ptr<int32_t>(),
            count,
            channels,
            intersections,
            tiles(),
            width,
            height,
            max_alpha,
            grid};
  }
};

// What rasterize, rasterize_2dgs and rasterize_along_rays take, all but the conics.
inline RasterizeOperands check_blending(const std::optional<Tensor>& means2d, const Tensor& colors,
                                        const Tensor& opacities, const std::optional<Tensor>& backgrounds,
                                        const std::optional<Tensor>& masks, int64_t width, int64_t height,
                                        int64_t tile_size, const Tensor& offsets, const Tensor& flatten_ids,
                                        double max_alpha) {
  constexpr auto f32 = ScalarType::Float;
  const TileGrid grid = {
      checked_int(tile_size, "tile_size", 1, kMaxTileSize),
      static_cast<int>(divide_up(checked_int(width, "width", 1, kMaxImageSide), tile_size)),
      static_cast<int>(divide_up(checked_int(height, "height", 1, kMaxImageSide), tile_size))};
  const int64_t images = checked_size(offsets, "isect_offsets", 0, 3);
  const Tensor& like = means2d ? *means2d : colors;
  const bool packed = like.dim() == 2;
  STD_TORCH_CHECK(packed || like.dim() == 3, "means2d must have shape [I, N, 2], or [M, 2] if packed; found ",
                  describe_shape(like.sizes().data(), like.sizes().size()));
  const int64_t n = like.size(packed ? 0 : 1);
  const int64_t channels = checked_int(checked_size(colors, "colors", packed ? 1 : 2, like.dim()),
                                       "the number of channels of colors", 1, kMaxChannels);
  const int64_t count = packed ? checked_count(1, n) : checked_count(images, n);
  const int64_t intersections = checked_size(flatten_ids, "flatten_ids", 0, 1);
  check_intersections(intersections);
  const auto shaped = [&](const auto& tensor, const char* name, int64_t last) {
    return packed ? checked(tensor, name, f32, {n, last}, like) : checked(tensor, name, f32, {images, n, last}, like);
  };
  const RasterizeOperands p = {
      shaped(colors, "colors", channels),
      packed ? checked(opacities, "opacities", f32, {n}, like)
             : checked(opacities, "opacities", f32, {images, n}, like),
      shaped(means2d, "means2d", 2),
      std::nullopt,
      checked(backgrounds, "backgrounds", f32, {images, channels}, like),
      checked(masks, "masks", ScalarType::Bool, {images, grid.rows, grid.columns}, like),
      checked(offsets, "isect_offsets", ScalarType::Int, {images, grid.rows, grid.columns}, like),
      checked(flatten_ids, "flatten_ids", ScalarType::Int, {intersections}, like),
      images,
      count,
      channels,
      intersections,
      static_cast<int>(width),
      static_cast<int>(height),
      static_cast<float>(max_alpha),
      grid,
  };
  STD_TORCH_CHECK(p.max_alpha >= kMinAlpha && p.max_alpha < 1.0f, "max_alpha must be at least ", kMinAlpha,
                  " and below 1, found ", max_alpha);
  check_tile_count(images, grid.columns, grid.rows);
  return p;
}

inline RasterizeOperands check_rasterize(const Tensor& means2d, const Tensor& conics, const Tensor& colors,
                                         const Tensor& opacities, const std::optional<Tensor>& backgrounds,
                                         const std::optional<Tensor>& masks, int64_t width, int64_t height,
                                         int64_t tile_size, const Tensor& offsets, const Tensor& flatten_ids,
                                         double max_alpha) {
  RasterizeOperands p = check_blending(means2d, colors, opacities, backgrounds, masks, width, height, tile_size,
                                       offsets, flatten_ids, max_alpha);
  p.conics = means2d.dim() == 2
                 ? checked(conics, "conics", ScalarType::Float, {means2d.size(0), 3}, means2d)
                 : checked(conics, "conics", ScalarType::Float, {means2d.size(0), means2d.size(1), 3}, means2d);
  return p;
}

struct RasterizeImages {
  Tensor colors, alphas, last_ids;  // [I, H, W, D], [I, H, W, 1], [I, H, W]

  RasterizeOutputs outputs() const {
    return {colors.mutable_data_ptr<float>(), alphas.mutable_data_ptr<float>(), last_ids.mutable_data_ptr<int32_t>()};
  }
};

inline RasterizeImages empty_images(const RasterizeOperands& p) {
  return {empty_like_device({p.images, p.height, p.width, p.channels}, ScalarType::Float, p.colors),
          empty_like_device({p.images, p.height, p.width, 1}, ScalarType::Float, p.colors),
          empty_like_device({p.images, p.height, p.width}, ScalarType::Int, p.colors)};
}

struct RasterizeBackwardOperands {
  RasterizeOperands forward;
  Tensor alphas, last_ids;         // outputs of the forward pass
  Tensor v_images;                 // [I, H, W, D]: the gradient of its colours, and
  std::optional<Tensor> v_alphas;  // [I, H, W, 1]: of its alphas, if they have one
  bool absgrad;
  // Outputs, shaped like the tensors whose gradients they are. v_means2d_abs, the sum over the pixels of the absolute
  // values of their contributions to v_means2d, has size 0 unless absgrad; v_backgrounds has size 0 without
  // backgrounds.
  Tensor v_means2d, v_means2d_abs, v_conics, v_colors, v_opacities, v_backgrounds;

  RasterizeGradients gradients() const {
    return {v_images.const_data_ptr<float>(), data_or_null<float>(v_alphas), alphas.const_data_ptr<float>(),
            last_ids.const_data_ptr<int32_t>()};
  }

  RasterizeGradientOutputs outputs() const {
    return {v_means2d.mutable_data_ptr<float>(), absgrad ? v_means2d_abs.mutable_data_ptr<float>() : nullptr,
            v_conics.mutable_data_ptr<float>(), v_colors.mutable_data_ptr<float>(),
            v_opacities.mutable_data_ptr<float>()};
  }
};

inline RasterizeBackwardOperands check_rasterize_backward(const RasterizeOperands& p, const Tensor& alphas,
                                                          const Tensor& last_ids, const Tensor& v_images,
                                                          const std::optional<Tensor>& v_alphas, bool absgrad) {
  constexpr auto f32 = ScalarType::Float;
  const Tensor& like = p.colors;
  const auto empty_like = [&](const Tensor& tensor) {
    return torch::stable::empty(tensor.sizes(), f32, std::nullopt, like.device());
  };
  return {p,
          checked(alphas, "alphas", f32, {p.images, p.height, p.width, 1}, like),
          checked(last_ids, "last_ids", ScalarType::Int, {p.images, p.height, p.width}, like),
          checked(v_images, "v_colors", f32, {p.images, p.height, p.width, p.channels}, like),
          checked(v_alphas, "v_alphas", f32, {p.images, p.height, p.width, 1}, like),
          absgrad,
          empty_like(*p.means2d),
          absgrad ? empty_like(*p.means2d) : empty_like_device({0}, f32, like),
          empty_like(*p.conics),
          empty_like(p.colors),
          empty_like(p.opacities),
          p.backgrounds ? empty_like(*p.backgrounds) : empty_like_device({0}, f32, like)};
}

}  // namespace splat
