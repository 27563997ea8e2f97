// The schemas of the operators. They come with the CPU's library; the one for CUDA adds its implementations. What an
// operator and its gradient both take is said beside the function that checks it, in *_operands.h.
#pragma once

#include <string>

#include "project_operands.h"
#include "rasterize_2dgs_operands.h"
#include "rasterize_along_rays_operands.h"
#include "rasterize_operands.h"
#include "spherical_harmonics_operands.h"

namespace splat {

// `m`: what STABLE_TORCH_LIBRARY gives.
template <class Library>
void define_operators(Library& m) {
  const auto def = [&m](const std::string& name, const char* arguments, const std::string& rest) {
    m.def((name + arguments + rest).c_str());
  };
  def("project(", kProjectArguments,
      ", Tensor? direct) -> (Tensor radii, Tensor means2d, Tensor depths, Tensor conics, Tensor compensations, "
      "Tensor colors, Tensor invalid)");
  def("project_backward(", kProjectArguments,
      ", Tensor radii, Tensor conics, Tensor compensations, Tensor colors, Tensor? v_means2d, Tensor? v_depths, "
      "Tensor? v_conics, Tensor? v_compensations, Tensor? v_colors, bool poses=True) "
      "-> (Tensor v_means, Tensor v_quats, Tensor v_scales, Tensor v_covars, Tensor v_coeffs, Tensor v_viewmats)");
  def("spherical_harmonics(", kHarmonicsArguments, ") -> Tensor");
  def("spherical_harmonics_backward(", kHarmonicsArguments,
      ", Tensor v_colors) -> (Tensor v_directions, Tensor v_coeffs)");
  m.def(
      "intersect(Tensor means2d, Tensor radii, Tensor depths, Tensor conics, Tensor opacities, Tensor? image_ids, "
      "int images, int tile_size, int tile_width, int tile_height, int? capacity=None) "
      "-> (Tensor tiles_per_gauss, Tensor flatten_ids, Tensor isect_offsets)");
  m.def(
      "pack(Tensor radii, Tensor means2d, Tensor depths, Tensor conics, Tensor opacities, Tensor? colors, "
      "int tile_size, int tile_width, int tile_height) "
      "-> (Tensor image_ids, Tensor gaussian_ids, Tensor radii, Tensor means2d, Tensor depths, Tensor conics, "
      "Tensor opacities, Tensor colors, Tensor places, Tensor tiles_per_gauss, Tensor flatten_ids, "
      "Tensor isect_offsets)");
  m.def(
      "pack_backward(Tensor radii, Tensor places, int sets, Tensor? v_means2d, Tensor? v_depths, Tensor? v_conics, "
      "Tensor? v_opacities, Tensor? v_colors) "
      "-> (Tensor v_means2d, Tensor v_depths, Tensor v_conics, Tensor v_opacities, Tensor v_colors)");
  def("rasterize(", kRasterizeArguments, ") -> (Tensor colors, Tensor alphas, Tensor last_ids)");
  def("rasterize_backward(", kRasterizeArguments,
      ", Tensor alphas, Tensor last_ids, Tensor v_colors, Tensor? v_alphas, bool absgrad, bool deterministic=False) "
      "-> (Tensor v_means2d, Tensor v_means2d_abs, Tensor v_conics, Tensor v_colors, Tensor v_opacities, "
      "Tensor v_backgrounds)");
  m.def(
      "image_loss(Tensor image, Tensor target, Tensor? mask, float absolute_weight, float ssim_weight, int margin, "
      "bool gradient) -> (Tensor value, Tensor weights, Tensor partials)");
  m.def(
      "image_loss_backward(Tensor image, Tensor target, Tensor? mask, Tensor weights, Tensor partials, Tensor v_value) "
      "-> Tensor");
  def("rasterize_2dgs(", kRasterize2dgsArguments,
      ", bool distloss) -> (Tensor colors, Tensor alphas, Tensor distortions, Tensor medians, Tensor depth_sums, "
      "Tensor last_ids, Tensor median_ids)");
  def("rasterize_2dgs_backward(", kRasterize2dgsArguments,
      ", Tensor alphas, Tensor depth_sums, Tensor last_ids, Tensor median_ids, Tensor v_colors, Tensor? v_alphas, "
      "Tensor? v_distortions, Tensor? v_medians, bool absgrad) "
      "-> (Tensor v_means2d, Tensor v_means2d_abs, Tensor v_ray_transforms, Tensor v_colors, Tensor v_opacities, "
      "Tensor v_depths)");
  def("rasterize_along_rays(", kAlongRaysArguments, ") -> (Tensor colors, Tensor alphas, Tensor last_ids)");
  def("rasterize_along_rays_backward(", kAlongRaysArguments,
      ", Tensor alphas, Tensor last_ids, Tensor v_colors, Tensor? v_alphas) "
      "-> (Tensor v_means, Tensor v_frames, Tensor v_colors, Tensor v_opacities)");
  for (const char* part : {"", "_2dgs", "_rays", "_loss"}) {
    m.def(("instruction_set" + std::string(part) + "(str name) -> str").c_str());
  }
  m.def("available_memory() -> int");
}

}  // namespace splat
