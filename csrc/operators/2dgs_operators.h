// The operators of 2D Gaussians.
#pragma once

#include "operators.h"
#include "rasterize_2dgs_operands.h"

namespace splat {

template <class Device>
struct Run2dgs {
  static auto rasterize_2dgs(const Device& device, const Rasterize2dgsOperands& p, bool distloss) {
    const Rasterize2dgsImages images = empty_images(p, distloss);
    device.rasterize_2dgs(p, images);
    return std::tuple(images.colors, images.alphas, images.distortions, images.medians, images.depth_sums,
                      images.last_ids, images.median_ids);
  }

  static auto rasterize_2dgs_backward(const Device& device, const Rasterize2dgsOperands&,
                                      const Rasterize2dgsBackwardOperands& p) {
    device.rasterize_2dgs_backward(p);
    return std::tuple(p.v_means2d, p.v_means2d_abs, p.v_ray_transforms, p.v_colors, p.v_opacities, p.v_depths);
  }
};

template <class Device, class Library>
void implement_2dgs(Library& m) {
  using Run = Run2dgs<Device>;
  SPLAT_OPERATOR(rasterize_2dgs);
  SPLAT_GRADIENT(rasterize_2dgs);
}

}  // namespace splat
