// The operators of 3D Gaussians, which the other parts use too: projection, colours, lists and images.
#pragma once

#include "intersect_operands.h"
#include "operators.h"
#include "pack_operands.h"
#include "project_operands.h"
#include "rasterize_operands.h"
#include "spherical_harmonics_operands.h"

namespace splat {

template <class Device>
struct RunRasterization {
  static auto project(const Device& device, const ProjectOperands& given, const std::optional<Tensor>& direct) {
    const ProjectOperands p = with_direct(given, direct);
    const ProjectResults r = allocate_project(p);
    device.project(p, r);
    return std::tuple(r.radii, r.means2d, r.depths, r.conics, r.compensations, r.colors, r.invalid);
  }

  static auto project_backward(const Device& device, const ProjectOperands& p, const ProjectGradients& g) {
    device.project_backward(p, g);
    return std::tuple(g.v_means, g.v_quats, g.v_scales, g.v_covars, g.v_coeffs, g.v_viewmats);
  }

  static Tensor spherical_harmonics(const Device& device, const HarmonicsOperands& p) {
    const Tensor colors = empty_like_device({p.images, p.gaussians, 3}, ScalarType::Float, p.directions);
    device.spherical_harmonics(p, colors);
    return colors;
  }

  static auto spherical_harmonics_backward(const Device& device, const HarmonicsOperands& p,
                                           const HarmonicsGradients& g) {
    device.spherical_harmonics_backward(p, g);
    return std::tuple(g.v_directions, g.v_coeffs);
  }

  static auto intersect(const Device& device, const IntersectOperands& p) {
    const Tensor flatten_ids = device.intersect(p);
    return std::tuple(p.tiles_per_gauss, flatten_ids, p.offsets);
  }

  static auto pack(const Device& device, const PackOperands& p) {
    const auto [rows, lists] = device.pack(p);
    return std::tuple(rows.image_ids, rows.gaussian_ids, rows.radii, rows.means2d, rows.depths, rows.conics,
                      rows.opacities, rows.colors, p.places, lists.tiles_per_gauss, lists.flatten_ids, lists.offsets);
  }

  static auto pack_backward(const Device& device, const PackBackwardOperands& p) {
    device.pack_backward(p);
    return std::tuple(p.means2d, p.depths, p.conics, p.opacities, p.colors);
  }

  static auto rasterize(const Device& device, const RasterizeOperands& p) {
    const RasterizeImages images = empty_images(p);
    device.rasterize(p, images);
    return std::tuple(images.colors, images.alphas, images.last_ids);
  }

  static auto rasterize_backward(const Device& device, const RasterizeOperands&, const RasterizeBackwardOperands& p,
                                 bool deterministic) {
    device.rasterize_backward(p, deterministic);
    return std::tuple(p.v_means2d, p.v_means2d_abs, p.v_conics, p.v_colors, p.v_opacities, p.v_backgrounds);
  }
};

template <class Device, class Library>
void implement_rasterization(Library& m) {
  using Run = RunRasterization<Device>;
  SPLAT_OPERATOR(project);
  SPLAT_GRADIENT(project);
  SPLAT_OPERATOR(spherical_harmonics);
  SPLAT_GRADIENT(spherical_harmonics);
  SPLAT_OPERATOR(intersect);
  SPLAT_OPERATOR(pack);
  SPLAT_OPERATOR(pack_backward);
  SPLAT_OPERATOR(rasterize);
  SPLAT_GRADIENT(rasterize);
}

}  // namespace splat
