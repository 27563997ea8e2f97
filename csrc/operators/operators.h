// The operators, for any device: arguments are checked and results allocated here; the arithmetic is the `Device`'s,
// which is made from a tensor for one call. Each library registers them for its own device: cpu.cpp, cuda.cpp.
#pragma once

#include <tuple>

#include <torch/csrc/stable/library.h>

#include "image_loss_operands.h"
#include "intersect_operands.h"
#include "pack_operands.h"
#include "project_operands.h"
#include "rasterize_2dgs_operands.h"
#include "rasterize_along_rays_operands.h"
#include "rasterize_operands.h"
#include "spherical_harmonics_operands.h"

namespace splat {

template <class Device>
struct Operators {
  static std::tuple<Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor> project(
      Tensor means, std::optional<Tensor> quats, std::optional<Tensor> scales, std::optional<Tensor> covars,
      std::optional<Tensor> opacities, std::optional<Tensor> coeffs, Tensor viewmats, Tensor Ks, int64_t width,
      int64_t height, double eps2d, double near_plane, double far_plane, double radius_clip, bool antialiased,
      int64_t camera_model, int64_t degree, std::optional<Tensor> direct) {
    const Device device(means);
    const ProjectOperands p =
        check_project(means, quats, scales, covars, opacities, coeffs, viewmats, Ks, width, height, eps2d, near_plane,
                      far_plane, radius_clip, antialiased, camera_model, degree, direct);
    const ProjectResults r = allocate_project(p);
    device.project(p, r);
    return {r.radii, r.means2d, r.depths, r.conics, r.compensations, r.colors, r.invalid};
  }

  static std::tuple<Tensor, Tensor, Tensor, Tensor, Tensor, Tensor> project_backward(
      Tensor means, std::optional<Tensor> quats, std::optional<Tensor> scales, std::optional<Tensor> covars,
      std::optional<Tensor> opacities, std::optional<Tensor> coeffs, Tensor viewmats, Tensor Ks, int64_t width,
      int64_t height, double eps2d, double near_plane, double far_plane, double radius_clip, bool antialiased,
      int64_t camera_model, int64_t degree, Tensor radii, Tensor conics, Tensor compensations, Tensor colors,
      std::optional<Tensor> v_means2d, std::optional<Tensor> v_depths, std::optional<Tensor> v_conics,
      std::optional<Tensor> v_compensations, std::optional<Tensor> v_colors, bool poses) {
    const Device device(means);
    const ProjectOperands p =
        check_project(means, quats, scales, covars, opacities, coeffs, viewmats, Ks, width, height, eps2d, near_plane,
                      far_plane, radius_clip, antialiased, camera_model, degree, std::nullopt);
    const ProjectGradients g = check_project_gradients(p, radii, conics, compensations, colors, v_means2d, v_depths,
                                                       v_conics, v_compensations, v_colors, poses);
    device.project_backward(p, g);
    return {g.v_means, g.v_quats, g.v_scales, g.v_covars, g.v_coeffs, g.v_viewmats};
  }

  static Tensor spherical_harmonics(int64_t degree, Tensor directions, Tensor coeffs, std::optional<Tensor> mask) {
    const Device device(directions);
    const HarmonicsOperands p = check_spherical_harmonics(degree, directions, coeffs, mask);
    const Tensor colors = empty_like_device({p.images, p.gaussians, 3}, ScalarType::Float, p.directions);
    device.spherical_harmonics(p, colors);
    return colors;
  }

  static std::tuple<Tensor, Tensor> spherical_harmonics_backward(int64_t degree, Tensor directions, Tensor coeffs,
                                                                 std::optional<Tensor> mask, Tensor v_colors) {
    const Device device(directions);
    const HarmonicsOperands p = check_spherical_harmonics(degree, directions, coeffs, mask);
    const HarmonicsGradients g = check_harmonics_gradients(p, v_colors);
    device.spherical_harmonics_backward(p, g);
    return {g.v_directions, g.v_coeffs};
  }

  static std::tuple<Tensor, Tensor, Tensor> intersect(Tensor means2d, Tensor radii, Tensor depths, Tensor conics,
                                                      Tensor opacities, std::optional<Tensor> image_ids,
                                                      int64_t images, int64_t tile_size, int64_t tile_width,
                                                      int64_t tile_height, std::optional<int64_t> capacity) {
    const Device device(means2d);
    const IntersectOperands p = check_intersect(means2d, radii, depths, conics, opacities, image_ids, images, tile_size,
                                                tile_width, tile_height, capacity);
    const Tensor flatten_ids = device.intersect(p);
    return {p.tiles_per_gauss, flatten_ids, p.offsets};
  }

  static std::tuple<Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor> pack(
      Tensor radii, Tensor means2d, Tensor depths, Tensor conics, Tensor opacities, std::optional<Tensor> colors,
      int64_t tile_size, int64_t tile_width, int64_t tile_height) {
    const Device device(means2d);
    const PackOperands p =
        check_pack(radii, means2d, depths, conics, opacities, colors, tile_size, tile_width, tile_height);
    const auto [rows, lists] = device.pack(p);
    return {rows.image_ids, rows.gaussian_ids, rows.radii, rows.means2d, rows.depths, rows.conics, rows.opacities,
            rows.colors, p.places, lists.tiles_per_gauss, lists.flatten_ids, lists.offsets};
  }

  static std::tuple<Tensor, Tensor, Tensor, Tensor, Tensor> pack_backward(
      Tensor radii, Tensor places, int64_t sets, std::optional<Tensor> v_means2d, std::optional<Tensor> v_depths,
      std::optional<Tensor> v_conics, std::optional<Tensor> v_opacities, std::optional<Tensor> v_colors) {
    const Device device(radii);
    const PackBackwardOperands p =
        check_pack_backward(radii, places, sets, v_means2d, v_depths, v_conics, v_opacities, v_colors);
    device.pack_backward(p);
    return {p.means2d, p.depths, p.conics, p.opacities, p.colors};
  }

  static std::tuple<Tensor, Tensor, Tensor> rasterize(Tensor means2d, Tensor conics, Tensor colors, Tensor opacities,
                                                      std::optional<Tensor> backgrounds, std::optional<Tensor> masks,
                                                      int64_t width, int64_t height, int64_t tile_size,
                                                      Tensor isect_offsets, Tensor flatten_ids, double max_alpha) {
    const Device device(means2d);
    const RasterizeOperands p = check_rasterize(means2d, conics, colors, opacities, backgrounds, masks, width, height,
                                                tile_size, isect_offsets, flatten_ids, max_alpha);
    const RasterizeImages images = empty_images(p);
    device.rasterize(p, images);
    return {images.colors, images.alphas, images.last_ids};
  }

  static std::tuple<Tensor, Tensor, Tensor, Tensor, Tensor, Tensor> rasterize_backward(
      Tensor means2d, Tensor conics, Tensor colors, Tensor opacities, std::optional<Tensor> backgrounds,
      std::optional<Tensor> masks, int64_t width, int64_t height, int64_t tile_size, Tensor isect_offsets,
      Tensor flatten_ids, double max_alpha, Tensor alphas, Tensor last_ids, Tensor v_colors,
      std::optional<Tensor> v_alphas, bool absgrad, bool deterministic) {
    const Device device(means2d);
    const RasterizeOperands forward = check_rasterize(means2d, conics, colors, opacities, backgrounds, masks, width,
                                                      height, tile_size, isect_offsets, flatten_ids, max_alpha);
    const RasterizeBackwardOperands p =
        check_rasterize_backward(forward, alphas, last_ids, v_colors, v_alphas, absgrad);
    device.rasterize_backward(p, deterministic);
    return {p.v_means2d, p.v_means2d_abs, p.v_conics, p.v_colors, p.v_opacities, p.v_backgrounds};
  }

  static std::tuple<Tensor, Tensor, Tensor> image_loss(Tensor image, Tensor target, std::optional<Tensor> mask,
                                                       double absolute_weight, double ssim_weight, int64_t margin,
                                                       bool gradient) {
    const Device device(image);
    const ImageLossOperands p = check_image_loss(image, target, mask, absolute_weight, ssim_weight, margin);
    const ImageLossResults r = allocate_image_loss(p, gradient);
    device.image_loss(p, r);
    return {r.value, r.weights, r.partials};
  }

  static Tensor image_loss_backward(Tensor image, Tensor target, std::optional<Tensor> mask, Tensor weights,
                                    Tensor partials, Tensor v_value) {
    const Device device(image);
    const ImageLossBackwardOperands p = check_image_loss_backward(image, target, mask, weights, partials, v_value);
    device.image_loss_backward(p);
    return p.v_image;
  }

  static std::tuple<Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor> rasterize_2dgs(
      Tensor means2d, Tensor ray_transforms, Tensor colors, Tensor opacities, Tensor depths,
      std::optional<Tensor> backgrounds, std::optional<Tensor> masks, int64_t width, int64_t height, int64_t tile_size,
      Tensor isect_offsets, Tensor flatten_ids, double max_alpha, bool distloss) {
    const Device device(means2d);
    const Rasterize2dgsOperands p =
        check_rasterize_2dgs(means2d, ray_transforms, colors, opacities, depths, backgrounds, masks, width, height,
                             tile_size, isect_offsets, flatten_ids, max_alpha);
    const Rasterize2dgsImages images = empty_images(p, distloss);
    device.rasterize_2dgs(p, images);
    return {images.colors,     images.alphas,   images.distortions, images.medians,
            images.depth_sums, images.last_ids, images.median_ids};
  }

  static std::tuple<Tensor, Tensor, Tensor, Tensor, Tensor, Tensor> rasterize_2dgs_backward(
      Tensor means2d, Tensor ray_transforms, Tensor colors, Tensor opacities, Tensor depths,
      std::optional<Tensor> backgrounds, std::optional<Tensor> masks, int64_t width, int64_t height, int64_t tile_size,
      Tensor isect_offsets, Tensor flatten_ids, double max_alpha, Tensor alphas, Tensor depth_sums, Tensor last_ids,
      Tensor median_ids, Tensor v_colors, std::optional<Tensor> v_alphas, std::optional<Tensor> v_distortions,
      std::optional<Tensor> v_medians, bool absgrad) {
    const Device device(means2d);
    const Rasterize2dgsOperands forward =
        check_rasterize_2dgs(means2d, ray_transforms, colors, opacities, depths, backgrounds, masks, width, height,
                             tile_size, isect_offsets, flatten_ids, max_alpha);
    const Rasterize2dgsBackwardOperands p =
        check_rasterize_2dgs_backward(forward, alphas, depth_sums, last_ids, median_ids, v_colors, v_alphas,
                                      v_distortions, v_medians, absgrad);
    device.rasterize_2dgs_backward(p);
    return {p.v_means2d, p.v_means2d_abs, p.v_ray_transforms, p.v_colors, p.v_opacities, p.v_depths};
  }

  static std::tuple<Tensor, Tensor, Tensor> rasterize_along_rays(
      Tensor means, Tensor frames, Tensor colors, Tensor opacities, Tensor rays, std::optional<Tensor> backgrounds,
      std::optional<Tensor> masks, int64_t tile_size, Tensor isect_offsets, Tensor flatten_ids, double max_alpha,
      std::optional<int64_t> distance_channel, std::optional<int64_t> normal_channel) {
    const Device device(means);
    const AlongRaysOperands p =
        check_rasterize_along_rays(means, frames, colors, opacities, rays, backgrounds, masks, tile_size, isect_offsets,
                                   flatten_ids, max_alpha, distance_channel, normal_channel);
    const RasterizeImages images = empty_images(p.common);
    device.rasterize_along_rays(p, images);
    return {images.colors, images.alphas, images.last_ids};
  }

  static std::tuple<Tensor, Tensor, Tensor, Tensor> rasterize_along_rays_backward(
      Tensor means, Tensor frames, Tensor colors, Tensor opacities, Tensor rays, std::optional<Tensor> backgrounds,
      std::optional<Tensor> masks, int64_t tile_size, Tensor isect_offsets, Tensor flatten_ids, double max_alpha,
      std::optional<int64_t> distance_channel, std::optional<int64_t> normal_channel, Tensor alphas, Tensor last_ids,
      Tensor v_colors, std::optional<Tensor> v_alphas) {
    const Device device(means);
    const AlongRaysOperands forward =
        check_rasterize_along_rays(means, frames, colors, opacities, rays, backgrounds, masks, tile_size, isect_offsets,
                                   flatten_ids, max_alpha, distance_channel, normal_channel);
    const AlongRaysBackwardOperands p =
        check_rasterize_along_rays_backward(forward, alphas, last_ids, v_colors, v_alphas);
    device.rasterize_along_rays_backward(p);
    return {p.v_means, p.v_frames, p.v_colors, p.v_opacities};
  }
};

// `m`: what STABLE_TORCH_LIBRARY_IMPL gives.
template <class Device, class Library>
void implement_operators(Library& m) {
  m.impl("project", TORCH_BOX(&Operators<Device>::project));
  m.impl("project_backward", TORCH_BOX(&Operators<Device>::project_backward));
  m.impl("spherical_harmonics", TORCH_BOX(&Operators<Device>::spherical_harmonics));
  m.impl("spherical_harmonics_backward", TORCH_BOX(&Operators<Device>::spherical_harmonics_backward));
  m.impl("intersect", TORCH_BOX(&Operators<Device>::intersect));
  m.impl("pack", TORCH_BOX(&Operators<Device>::pack));
  m.impl("pack_backward", TORCH_BOX(&Operators<Device>::pack_backward));
  m.impl("rasterize", TORCH_BOX(&Operators<Device>::rasterize));
  m.impl("rasterize_backward", TORCH_BOX(&Operators<Device>::rasterize_backward));
  m.impl("image_loss", TORCH_BOX(&Operators<Device>::image_loss));
  m.impl("image_loss_backward", TORCH_BOX(&Operators<Device>::image_loss_backward));
  m.impl("rasterize_2dgs", TORCH_BOX(&Operators<Device>::rasterize_2dgs));
  m.impl("rasterize_2dgs_backward", TORCH_BOX(&Operators<Device>::rasterize_2dgs_backward));
  m.impl("rasterize_along_rays", TORCH_BOX(&Operators<Device>::rasterize_along_rays));
  m.impl("rasterize_along_rays_backward", TORCH_BOX(&Operators<Device>::rasterize_along_rays_backward));
}

}  // namespace splat
