// The operators of Gaussians along rays.
#pragma once

#include "operators.h"
#include "rasterize_along_rays_operands.h"

namespace splat {

template <class Device>
struct RunRays {
  static auto rasterize_along_rays(const Device& device, const AlongRaysOperands& p) {
    const RasterizeImages images = empty_images(p.common);
    device.rasterize_along_rays(p, images);
    return std::tuple(images.colors, images.alphas, images.last_ids);
  }

  static auto rasterize_along_rays_backward(const Device& device, const AlongRaysOperands&,
                                            const AlongRaysBackwardOperands& p) {
    device.rasterize_along_rays_backward(p);
    return std::tuple(p.v_means, p.v_frames, p.v_colors, p.v_opacities);
  }
};

template <class Device, class Library>
void implement_rays(Library& m) {
  using Run = RunRays<Device>;
  SPLAT_OPERATOR(rasterize_along_rays);
  SPLAT_GRADIENT(rasterize_along_rays);
}

}  // namespace splat
