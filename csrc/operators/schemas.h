// The schemas of the operators. They come with the CPU's library; the one for CUDA adds its implementations.
#pragma once

namespace splat {

// `m`: what STABLE_TORCH_LIBRARY gives.
template <class Library>
void define_operators(Library& m) {
  m.def(
      "project(Tensor means, Tensor? quats, Tensor? scales, Tensor? covars, Tensor? opacities, Tensor? coeffs, "
      "Tensor viewmats, Tensor Ks, int width, int height, float eps2d, float near_plane, float far_plane, "
      "float radius_clip, bool antialiased, int camera_model, int degree, Tensor? direct) "
      "-> (Tensor radii, Tensor means2d, Tensor depths, Tensor conics, Tensor compensations, Tensor colors, "
      "Tensor invalid)");
  m.def(
      "project_backward(Tensor means, Tensor? quats, Tensor? scales, Tensor? covars, Tensor? opacities, "
      "Tensor? coeffs, Tensor viewmats, Tensor Ks, int width, int height, float eps2d, float near_plane, "
      "float far_plane, float radius_clip, bool antialiased, int camera_model, int degree, Tensor radii, "
      "Tensor conics, Tensor compensations, Tensor colors, Tensor? v_means2d, Tensor? v_depths, Tensor? v_conics, "
      "Tensor? v_compensations, Tensor? v_colors, bool poses=True) "
      "-> (Tensor v_means, Tensor v_quats, Tensor v_scales, Tensor v_covars, Tensor v_coeffs, Tensor v_viewmats)");
  m.def("spherical_harmonics(int degree, Tensor directions, Tensor coeffs, Tensor? mask) -> Tensor");
  m.def(
      "spherical_harmonics_backward(int degree, Tensor directions, Tensor coeffs, Tensor? mask, Tensor v_colors) "
      "-> (Tensor v_directions, Tensor v_coeffs)");
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
  m.def(
      "rasterize(Tensor means2d, Tensor conics, Tensor colors, Tensor opacities, Tensor? backgrounds, Tensor? masks, "
      "int width, int height, int tile_size, Tensor isect_offsets, Tensor flatten_ids, float max_alpha) "
      "-> (Tensor colors, Tensor alphas, Tensor last_ids)");
  m.def(
      "rasterize_backward(Tensor means2d, Tensor conics, Tensor colors, Tensor opacities, Tensor? backgrounds, "
      "Tensor? masks, int width, int height, int tile_size, Tensor isect_offsets, Tensor flatten_ids, float max_alpha, "
      "Tensor alphas, Tensor last_ids, Tensor v_colors, Tensor? v_alphas, bool absgrad, bool deterministic=False) "
      "-> (Tensor v_means2d, Tensor v_means2d_abs, Tensor v_conics, Tensor v_colors, Tensor v_opacities, "
      "Tensor v_backgrounds)");
  m.def(
      "image_loss(Tensor image, Tensor target, Tensor? mask, float absolute_weight, float ssim_weight, int margin, "
      "bool gradient) -> (Tensor value, Tensor weights, Tensor partials)");
  m.def(
      "image_loss_backward(Tensor image, Tensor target, Tensor? mask, Tensor weights, Tensor partials, Tensor v_value) "
      "-> Tensor");
  m.def(
      "rasterize_2dgs(Tensor means2d, Tensor ray_transforms, Tensor colors, Tensor opacities, Tensor depths, "
      "Tensor? backgrounds, Tensor? masks, int width, int height, int tile_size, Tensor isect_offsets, "
      "Tensor flatten_ids, float max_alpha, bool distloss) "
      "-> (Tensor colors, Tensor alphas, Tensor distortions, Tensor medians, Tensor depth_sums, Tensor last_ids, "
      "Tensor median_ids)");
  m.def(
      "rasterize_2dgs_backward(Tensor means2d, Tensor ray_transforms, Tensor colors, Tensor opacities, Tensor depths, "
      "Tensor? backgrounds, Tensor? masks, int width, int height, int tile_size, Tensor isect_offsets, "
      "Tensor flatten_ids, float max_alpha, Tensor alphas, Tensor depth_sums, Tensor last_ids, Tensor median_ids, "
      "Tensor v_colors, Tensor? v_alphas, Tensor? v_distortions, Tensor? v_medians, bool absgrad) "
      "-> (Tensor v_means2d, Tensor v_means2d_abs, Tensor v_ray_transforms, Tensor v_colors, Tensor v_opacities, "
      "Tensor v_depths)");
  m.def(
      "rasterize_along_rays(Tensor means, Tensor frames, Tensor colors, Tensor opacities, Tensor rays, "
      "Tensor? backgrounds, Tensor? masks, int tile_size, Tensor isect_offsets, Tensor flatten_ids, "
      "float max_alpha, int? distance_channel, int? normal_channel) "
      "-> (Tensor colors, Tensor alphas, Tensor last_ids)");
  m.def(
      "rasterize_along_rays_backward(Tensor means, Tensor frames, Tensor colors, Tensor opacities, Tensor rays, "
      "Tensor? backgrounds, Tensor? masks, int tile_size, Tensor isect_offsets, Tensor flatten_ids, float max_alpha, "
      "int? distance_channel, int? normal_channel, Tensor alphas, Tensor last_ids, Tensor v_colors, Tensor? v_alphas) "
      "-> (Tensor v_means, Tensor v_frames, Tensor v_colors, Tensor v_opacities)");
  m.def("instruction_set(str name) -> str");
  m.def("available_memory() -> int");
}

}  // namespace splat
