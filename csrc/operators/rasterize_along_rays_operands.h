// Arguments, checked and contiguous, and outputs, allocated, of rasterize_along_rays and rasterize_along_rays_backward, on
// the CPU and on CUDA.
//
// Shapes: B sets of N Gaussians, each seen by C cameras; I = B C images; D channels, n intersections.
#pragma once

#include "../math/rasterize_along_rays_rows.h"
#include "rasterize_operands.h"

namespace splat {

struct AlongRaysOperands {
  RasterizeOperands common;     // neither packed nor with means2d and conics
  Tensor means, frames, rays;   // [B, N, 3], [B, N, 3, 3], [I, H, W, 6]
  int64_t distance_channel, normal_channel;  // as in AlongRaysInputs

  AlongRaysInputs inputs() const {
    const int64_t sets = means.size(0);
    return {common.inputs(),
            means.const_data_ptr<float>(),
            frames.const_data_ptr<float>(),
            rays.const_data_ptr<float>(),
            sets,
            means.size(1),
            sets == 0 ? 0 : common.images / sets,
            distance_channel,
            normal_channel};
  }
};

inline AlongRaysOperands check_rasterize_along_rays(const Tensor& means, const Tensor& frames, const Tensor& colors,
                                                    const Tensor& opacities, const Tensor& rays,
                                                    const std::optional<Tensor>& backgrounds,
                                                    const std::optional<Tensor>& masks, int64_t tile_size,
                                                    const Tensor& offsets, const Tensor& flatten_ids, double max_alpha,
                                                    std::optional<int64_t> distance_channel,
                                                    std::optional<int64_t> normal_channel) {
  constexpr auto f32 = ScalarType::Float;
  const int64_t height = checked_size(rays, "rays", 1, 4), width = rays.size(2);
  checked_size(colors, "colors", 1, 3);
  const RasterizeOperands p = check_blending(std::nullopt, colors, opacities, backgrounds, masks, width,
                                              height, tile_size, offsets, flatten_ids, max_alpha);
  const int64_t sets = checked_size(means, "means", 0, 3), n = colors.size(1);
  STD_TORCH_CHECK(sets == 0 ? p.images == 0 : p.images % sets == 0,
                  "the number of images must be a multiple of that of the sets in means; found ", p.images,
                  " images and ", sets, " sets");
  const auto checked_channel = [&](std::optional<int64_t> channel, const char* name, int64_t following) {
    STD_TORCH_CHECK(!channel || (*channel >= 0 && *channel + following < p.channels), name, " must be one of ",
                    p.channels, " channels, and ", following, " must follow it; found ", channel.value_or(-1));
    return channel.value_or(-1);
  };
  return {p,
          checked(means, "means", f32, {sets, n, 3}, colors),
          checked(frames, "frames", f32, {sets, n, 3, 3}, colors),
          checked(rays, "rays", f32, {p.images, height, width, 6}, colors),
          checked_channel(distance_channel, "distance_channel", 0),
          checked_channel(normal_channel, "normal_channel", 2)};
}

struct AlongRaysBackwardOperands {
  AlongRaysOperands forward;
  Tensor alphas, last_ids;                         // outputs of the forward pass
  Tensor v_images;                                 // [I, H, W, D]: the gradient of its colours, and
  std::optional<Tensor> v_alphas;                  // [I, H, W, 1]: of its alphas, if they have one
  Tensor v_means, v_frames, v_colors, v_opacities;  // outputs, shaped like the tensors whose gradients they are

  RasterizeGradients gradients() const {
    return {v_images.const_data_ptr<float>(), data_or_null<float>(v_alphas), alphas.const_data_ptr<float>(),
            last_ids.const_data_ptr<int32_t>()};
  }

  AlongRaysGradientOutputs outputs() const {
    return {v_means.mutable_data_ptr<float>(), v_frames.mutable_data_ptr<float>(), v_colors.mutable_data_ptr<float>(),
            v_opacities.mutable_data_ptr<float>()};
  }
};

inline AlongRaysBackwardOperands check_rasterize_along_rays_backward(const AlongRaysOperands& forward,
                                                                     const Tensor& alphas, const Tensor& last_ids,
                                                                     const Tensor& v_images,
                                                                     const std::optional<Tensor>& v_alphas) {
  constexpr auto f32 = ScalarType::Float;
  const RasterizeOperands& p = forward.common;
  const auto empty_like = [&](const Tensor& tensor) {
    return torch::stable::empty(tensor.sizes(), f32, std::nullopt, p.colors.device());
  };
  return {forward,
          checked(alphas, "alphas", f32, {p.images, p.height, p.width, 1}, p.colors),
          checked(last_ids, "last_ids", ScalarType::Int, {p.images, p.height, p.width}, p.colors),
          checked(v_images, "v_colors", f32, {p.images, p.height, p.width, p.channels}, p.colors),
          checked(v_alphas, "v_alphas", f32, {p.images, p.height, p.width, 1}, p.colors),
          empty_like(forward.means),
          empty_like(forward.frames),
          empty_like(p.colors),
          empty_like(p.opacities)};
}

}  // namespace splat
