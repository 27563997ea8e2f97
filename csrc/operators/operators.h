// The operators, for any device. What one takes is what the functions take that check it, `check_*` in *_operands.h, and
// then what the function here takes that allocates its results; the arithmetic is the `Device`'s, which is made from a
// tensor for one call. Each library registers them for its own device: cpu.cpp, cuda.cpp.
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

// Of the arguments, which may begin with a number.
template <class... Others>
const Tensor& first_tensor(const Tensor& first, const Others&...) {
  return first;
}

template <class... Others>
const Tensor& first_tensor(int64_t, const Others&... others) {
  return first_tensor(others...);
}

// `call` takes the arguments of kCheck, and then those of kRun behind the device and what kCheck returns.
template <auto kCheck, auto kRun>
struct Operator;

template <class Operands, class... Checked, Operands (*kCheck)(Checked...), class Results, class Device,
          class... Others, Results (*kRun)(const Device&, const Operands&, Others...)>
struct Operator<kCheck, kRun> {
  static Results call(Checked... checked, Others... others) {
    const Device device(first_tensor(checked...));
    return kRun(device, kCheck(checked...), others...);
  }
};

// The gradient of an operator: between these, `call` takes the arguments of kCheckGradient behind what kCheck returns.
template <auto kCheck, auto kCheckGradient, auto kRun>
struct GradientOperator;

template <class Operands, class... Checked, Operands (*kCheck)(Checked...), class Gradients, class... Added,
          Gradients (*kCheckGradient)(const Operands&, Added...), class Results, class Device, class... Others,
          Results (*kRun)(const Device&, const Operands&, const Gradients&, Others...)>
struct GradientOperator<kCheck, kCheckGradient, kRun> {
  static Results call(Checked... checked, Added... added, Others... others) {
    const Device device(first_tensor(checked...));
    const Operands operands = kCheck(checked...);
    return kRun(device, operands, kCheckGradient(operands, added...), others...);
  }
};

template <class Device>
struct Run {
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

  static auto image_loss(const Device& device, const ImageLossOperands& p, bool gradient) {
    const ImageLossResults r = allocate_image_loss(p, gradient);
    device.image_loss(p, r);
    return std::tuple(r.value, r.weights, r.partials);
  }

  static Tensor image_loss_backward(const Device& device, const ImageLossBackwardOperands& p) {
    device.image_loss_backward(p);
    return p.v_image;
  }

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

#define SPLAT_OPERATOR(name) m.impl(#name, TORCH_BOX((&Operator<check_##name, &Run<Device>::name>::call)))
#define SPLAT_GRADIENT(name)  \
  m.impl(#name "_backward", \
         TORCH_BOX((&GradientOperator<check_##name, check_##name##_backward, &Run<Device>::name##_backward>::call)))

// `m`: what STABLE_TORCH_LIBRARY_IMPL gives.
template <class Device, class Library>
void implement_operators(Library& m) {
  SPLAT_OPERATOR(project);
  SPLAT_GRADIENT(project);
  SPLAT_OPERATOR(spherical_harmonics);
  SPLAT_GRADIENT(spherical_harmonics);
  SPLAT_OPERATOR(intersect);
  SPLAT_OPERATOR(pack);
  SPLAT_OPERATOR(pack_backward);
  SPLAT_OPERATOR(rasterize);
  SPLAT_GRADIENT(rasterize);
  SPLAT_OPERATOR(image_loss);
  SPLAT_OPERATOR(image_loss_backward);
  SPLAT_OPERATOR(rasterize_2dgs);
  SPLAT_GRADIENT(rasterize_2dgs);
  SPLAT_OPERATOR(rasterize_along_rays);
  SPLAT_GRADIENT(rasterize_along_rays);
}

#undef SPLAT_OPERATOR
#undef SPLAT_GRADIENT

}  // namespace splat
