// Arguments, checked and contiguous, and outputs, allocated, of rasterize_2dgs and rasterize_2dgs_backward, on the CPU and
// on CUDA. Shapes as in rasterize_operands.h.
#pragma once

#include "../math/rasterize_2dgs_rows.h"
#include "rasterize_operands.h"

namespace splat {

struct Rasterize2dgsOperands {
  RasterizeOperands common;
  Tensor ray_transforms, depths;  // [I, N, 9] or [M, 9], [I, N] or [M]

  Rasterize2dgsInputs inputs() const {
    return {common.inputs(), ray_transforms.const_data_ptr<float>(), depths.const_data_ptr<float>()};
  }
};

inline Rasterize2dgsOperands check_rasterize_2dgs(const Tensor& means2d, const Tensor& ray_transforms,
                                                  const Tensor& colors, const Tensor& opacities, const Tensor& depths,
                                                  const std::optional<Tensor>& backgrounds,
                                                  const std::optional<Tensor>& masks, int64_t width, int64_t height,
                                                  int64_t tile_size, const Tensor& offsets,
                                                  const Tensor& flatten_ids, double max_alpha) {
  constexpr auto f32 = ScalarType::Float;
  const RasterizeOperands p = check_blending(means2d, colors, opacities, backgrounds, masks, width,
                                              height, tile_size, offsets, flatten_ids, max_alpha);
  if (means2d.dim() == 2) {
    return {p, checked(ray_transforms, "ray_transforms", f32, {p.count, 9}, means2d),
            checked(depths, "depths", f32, {p.count}, means2d)};
  }
  const int64_t n = means2d.size(1);
  return {p, checked(ray_transforms, "ray_transforms", f32, {p.images, n, 9}, means2d),
          checked(depths, "depths", f32, {p.images, n}, means2d)};
}

struct Rasterize2dgsImages {
  Tensor colors, alphas, distortions, medians, depth_sums, last_ids, median_ids;

  Rasterize2dgsOutputs outputs() const {
    return {colors.mutable_data_ptr<float>(),
            alphas.mutable_data_ptr<float>(),
            distortions.numel() == 0 ? nullptr : distortions.mutable_data_ptr<float>(),
            medians.mutable_data_ptr<float>(),
            depth_sums.mutable_data_ptr<float>(),
            last_ids.mutable_data_ptr<int32_t>(),
            median_ids.mutable_data_ptr<int32_t>()};
  }
};

// Colours are [I, H, W, D], the others of floats [I, H, W, 1], and indices [I, H, W]; distortions have size 0 without
// `distloss`.
inline Rasterize2dgsImages empty_images(const Rasterize2dgsOperands& operands, bool distloss) {
  const RasterizeOperands& p = operands.common;
  const auto empty = [&] { return empty_like_device({p.images, p.height, p.width, 1}, ScalarType::Float, p.colors); };
  const RasterizeImages images = empty_images(p);
  return {images.colors,
          images.alphas,
          distloss ? empty() : empty_like_device({0}, ScalarType::Float, p.colors),
          empty(),
          empty(),
          images.last_ids,
          empty_like_device({p.images, p.height, p.width}, ScalarType::Int, p.colors)};
}

struct Rasterize2dgsBackwardOperands {
  Rasterize2dgsOperands forward;
  Tensor alphas, depth_sums, last_ids, median_ids;             // outputs of the forward pass
  Tensor v_images;                                             // [I, H, W, D]: the gradient of its colours, and
  std::optional<Tensor> v_alphas, v_distortions, v_medians;    // [I, H, W, 1]: of these, if they have one
  // Outputs, shaped like the tensors whose gradients they are; v_means2d_abs as in RasterizeBackwardOperands.
  Tensor v_means2d, v_means2d_abs, v_ray_transforms, v_colors, v_opacities, v_depths;

  Rasterize2dgsGradients gradients() const {
    return {v_images.const_data_ptr<float>(),      data_or_null<float>(v_alphas),
            data_or_null<float>(v_distortions),    data_or_null<float>(v_medians),
            alphas.const_data_ptr<float>(),        depth_sums.const_data_ptr<float>(),
            last_ids.const_data_ptr<int32_t>(),    median_ids.const_data_ptr<int32_t>()};
  }

  Rasterize2dgsGradientOutputs outputs() const {
    return {v_means2d.mutable_data_ptr<float>(),
            v_means2d_abs.numel() == 0 ? nullptr : v_means2d_abs.mutable_data_ptr<float>(),
            v_ray_transforms.mutable_data_ptr<float>(),
            v_colors.mutable_data_ptr<float>(),
            v_opacities.mutable_data_ptr<float>(),
            v_depths.mutable_data_ptr<float>()};
  }
};

inline Rasterize2dgsBackwardOperands check_rasterize_2dgs_backward(
    const Rasterize2dgsOperands& forward, const Tensor& alphas, const Tensor& depth_sums, const Tensor& last_ids,
    const Tensor& median_ids, const Tensor& v_images, const std::optional<Tensor>& v_alphas,
    const std::optional<Tensor>& v_distortions, const std::optional<Tensor>& v_medians, bool absgrad) {
  constexpr auto f32 = ScalarType::Float;
  const RasterizeOperands& p = forward.common;
  const Tensor& like = p.colors;
  const auto empty_like = [&](const Tensor& tensor) {
    return torch::stable::empty(tensor.sizes(), f32, std::nullopt, like.device());
  };
  const auto image = [&](const auto& tensor, const char* name) {
    return checked(tensor, name, f32, {p.images, p.height, p.width, 1}, like);
  };
  const auto indices = [&](const Tensor& tensor, const char* name) {
    return checked(tensor, name, ScalarType::Int, {p.images, p.height, p.width}, like);
  };
  return {forward,
          image(alphas, "alphas"),
          image(depth_sums, "depth_sums"),
          indices(last_ids, "last_ids"),
          indices(median_ids, "median_ids"),
          checked(v_images, "v_colors", f32, {p.images, p.height, p.width, p.channels}, like),
          image(v_alphas, "v_alphas"),
          image(v_distortions, "v_distortions"),
          image(v_medians, "v_medians"),
          empty_like(*p.means2d),
          absgrad ? empty_like(*p.means2d) : empty_like_device({0}, f32, like),
          empty_like(forward.ray_transforms),
          empty_like(p.colors),
          empty_like(p.opacities),
          empty_like(forward.depths)};
}

}  // namespace splat
