// What is one launch or a few on CUDA, without a wait.
#include "cuda_device.h"

#include <torch/csrc/inductor/aoti_torch/c/shim.h>
#include <torch/csrc/stable/macros.h>

#include "../cuda/host_functions.h"
#include "cuda_error.h"
#include "cuda_sort.h"

namespace splat {

Cuda::Cuda(const Tensor& tensor) : guard_(tensor.get_device_index()) {
  void* stream = nullptr;
  TORCH_ERROR_CODE_CHECK(aoti_torch_get_current_cuda_stream(tensor.get_device_index(), &stream));
  stream_ = static_cast<cudaStream_t>(stream);
}

void Cuda::project(const ProjectOperands& p, const ProjectResults& r) const {
  check_cuda(launch_project(stream_, p.inputs(), r.pointers(),
                            static_cast<unsigned long long*>(r.invalid.mutable_data_ptr())));
}

void Cuda::project_backward(const ProjectOperands& p, const ProjectGradients& g) const {
  const int64_t sums = g.poses() == nullptr ? 0 : pose_sum_count(p.gaussians);
  const Tensor pose_sums = empty_like_device({sums, p.images, kPoseEntries}, ScalarType::Float, p.means);
  check_cuda(launch_project_backward(stream_, p.inputs(), g.rows(), g.pointers(), g.v_coeffs.mutable_data_ptr<float>(),
                                     pose_sums.mutable_data_ptr<float>(), g.poses()));
}

void Cuda::spherical_harmonics(const HarmonicsOperands& p, const Tensor& colors) const {
  check_cuda(launch_spherical_harmonics(stream_, p.inputs(), colors.mutable_data_ptr<float>()));
}

void Cuda::spherical_harmonics_backward(const HarmonicsOperands& p, const HarmonicsGradients& g) const {
  check_cuda(launch_spherical_harmonics_backward(stream_, p.inputs(), g.v_colors.const_data_ptr<float>(),
                                                 g.v_directions.mutable_data_ptr<float>(),
                                                 g.v_coeffs.mutable_data_ptr<float>()));
}

void Cuda::rasterize(const RasterizeOperands& p, const RasterizeImages& images) const {
  const RasterizeInputs in = p.inputs();
  const Tensor staged = stage_gaussians(in, p.colors);
  check_cuda(launch_rasterize(stream_, in, staged.const_data_ptr<float>(), images.outputs()));
}

Tensor Cuda::stage_gaussians(const RasterizeInputs& in, const Tensor& like) const {
  const Tensor staged = empty_like_device({in.count, kStagedFloats}, ScalarType::Float, like);
  check_cuda(launch_stage_gaussians(stream_, in, staged.mutable_data_ptr<float>()));
  return staged;
}

void Cuda::rasterize_backward(const RasterizeBackwardOperands& p, bool deterministic) const {
  for (const Tensor* gradient : {&p.v_means2d, &p.v_means2d_abs, &p.v_conics, &p.v_colors, &p.v_opacities}) {
    clear(*gradient);
  }
  if (p.forward.intersections > 0 && p.forward.tiles() > 0) differentiate(p, deterministic);
  if (p.forward.backgrounds) sum_backgrounds(p);
}

void Cuda::image_loss(const ImageLossOperands& p, const ImageLossResults& r) const {
  const ImageLossInputs in = p.inputs();
  constexpr int64_t kSums = sizeof(ImageLossSums) / sizeof(double);
  const Tensor sums = empty_like_device({loss_sum_count(in), kSums}, ScalarType::Double, p.image);
  check_cuda(launch_image_loss(stream_, in, static_cast<ImageLossSums*>(sums.mutable_data_ptr()), r.pointers()));
}

void Cuda::image_loss_backward(const ImageLossBackwardOperands& p) const {
  check_cuda(launch_image_loss_backward(stream_, p.forward.inputs(), p.gradients()));
}

void Cuda::clear(const Tensor& tensor) const {
  if (tensor.numel() == 0) return;
  check_cuda(cudaMemsetAsync(tensor.mutable_data_ptr(), 0, tensor.numel() * sizeof(float), stream_));
}

void Cuda::differentiate(const RasterizeBackwardOperands& p, bool deterministic) const {
  const RasterizeOperands& forward = p.forward;
  const RasterizeInputs in = forward.inputs();
  const Tensor& like = forward.colors;
  const int64_t slot_values = deterministic ? in.intersections * (kSlotValues + in.channels) : 0;
  const Tensor slot_tensor = empty_like_device({slot_values}, ScalarType::Float, like);
  float* slots = deterministic ? slot_tensor.mutable_data_ptr<float>() : nullptr;
  clear(slot_tensor);
  const Tensor staged = stage_gaussians(in, like);
  check_cuda(launch_differentiate(stream_, in, staged.const_data_ptr<float>(), p.gradients(), p.outputs(), slots));
  if (!deterministic) return;
  SortPairs by_id(in.intersections, like);
  check_cuda(launch_number_positions(stream_, in, by_id.keys(), by_id.values()));
  sort_pairs(stream_, by_id, kGaussianKeyBits, like);
  const Tensor runs = empty_like_device({2, in.count}, ScalarType::Int, like);
  check_cuda(launch_sum_slots(stream_, in, by_id.keys(), by_id.values(), slots, runs.mutable_data_ptr<int32_t>(),
                              p.outputs()));
}

void Cuda::rasterize_2dgs(const Rasterize2dgsOperands& p, const Rasterize2dgsImages& images) const {
  const Rasterize2dgsInputs in = p.inputs();
  const Tensor surfels = load_surfels(in, p.common.colors);
  check_cuda(launch_rasterize_2dgs(stream_, in, surfels.const_data_ptr<float>(), images.outputs()));
}

Tensor Cuda::load_surfels(const Rasterize2dgsInputs& in, const Tensor& like) const {
  const Tensor surfels = empty_like_device({in.lists.count, kSurfelFloats}, ScalarType::Float, like);
  check_cuda(launch_load_surfels(stream_, in, surfels.mutable_data_ptr<float>()));
  return surfels;
}

void Cuda::rasterize_2dgs_backward(const Rasterize2dgsBackwardOperands& p) const {
  for (const Tensor* gradient :
       {&p.v_means2d, &p.v_means2d_abs, &p.v_ray_transforms, &p.v_colors, &p.v_opacities, &p.v_depths}) {
    clear(*gradient);
  }
  const Rasterize2dgsInputs in = p.forward.inputs();
  if (in.lists.intersections == 0) return;
  const Tensor surfels = load_surfels(in, p.forward.common.colors);
  check_cuda(
      launch_differentiate_2dgs(stream_, in, surfels.const_data_ptr<float>(), p.gradients(), p.outputs()));
}

void Cuda::rasterize_along_rays(const AlongRaysOperands& p, const RasterizeImages& images) const {
  const AlongRaysInputs in = p.inputs();
  const Tensor gaussians = load_ray_gaussians(in, p.common.colors);
  check_cuda(launch_rasterize_along_rays(stream_, in, gaussians.const_data_ptr<float>(), images.outputs()));
}

Tensor Cuda::load_ray_gaussians(const AlongRaysInputs& in, const Tensor& like) const {
  const Tensor gaussians = empty_like_device({in.lists.count, kRayGaussianFloats}, ScalarType::Float, like);
  check_cuda(launch_load_ray_gaussians(stream_, in, gaussians.mutable_data_ptr<float>()));
  return gaussians;
}

void Cuda::rasterize_along_rays_backward(const AlongRaysBackwardOperands& p) const {
  const AlongRaysInputs in = p.forward.inputs();
  const Tensor& like = p.forward.common.colors;
  const Tensor gaussians = load_ray_gaussians(in, like);
  const Tensor sums = empty_like_device({in.lists.count, kRaySums}, ScalarType::Float, like);
  clear(sums);
  clear(p.v_colors);
  check_cuda(launch_differentiate_along_rays(stream_, in, gaussians.const_data_ptr<float>(), p.gradients(),
                                             sums.mutable_data_ptr<float>(), p.outputs()));
}

void Cuda::sum_backgrounds(const RasterizeBackwardOperands& p) const {
  const RasterizeOperands& forward = p.forward;
  const int64_t slices = background_slices(int64_t{forward.width} * forward.height);
  const Tensor partial =
      empty_like_device({forward.images, slices, forward.channels}, ScalarType::Float, p.v_images);
  check_cuda(launch_sum_backgrounds(stream_, forward.inputs(), forward.images, p.gradients(),
                                    partial.mutable_data_ptr<float>(), p.v_backgrounds.mutable_data_ptr<float>()));
}

}  // namespace splat
