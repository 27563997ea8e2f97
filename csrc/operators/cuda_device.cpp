// What is one launch or a few on CUDA, without a wait.
#include "cuda_device.h"

#include "../cuda/host_functions.h"
#include "cuda_error.h"
#include "cuda_sort.h"

namespace splat {

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
  const Tensor staged = stage_gaussians(in, p.colors, {});
  check_cuda(launch_rasterize(stream_, in, staged.const_data_ptr<float>(), images.outputs()));
}

Tensor Cuda::stage_gaussians(const RasterizeInputs& in, const Tensor& like,
                             const RasterizeGradientOutputs& cleared) const {
  const Tensor staged = empty_like_device({in.count, kStagedFloats}, ScalarType::Float, like);
  check_cuda(launch_stage_gaussians(stream_, in, staged.mutable_data_ptr<float>(), cleared));
  return staged;
}

void Cuda::rasterize_backward(const RasterizeBackwardOperands& p, bool deterministic) const {
  if (p.forward.intersections > 0 && p.forward.tiles() > 0) {
    differentiate(p, deterministic);
  } else {
    for (const Tensor* gradient : {&p.v_means2d, &p.v_means2d_abs, &p.v_conics, &p.v_colors, &p.v_opacities}) {
      clear(*gradient);
    }
  }
  if (p.forward.backgrounds) sum_backgrounds(p);
}

void Cuda::differentiate(const RasterizeBackwardOperands& p, bool deterministic) const {
  const RasterizeOperands& forward = p.forward;
  const RasterizeInputs in = forward.inputs();
  const Tensor& like = forward.colors;
  const int64_t slot_values = deterministic ? in.intersections * (kSlotValues + in.channels) : 0;
  const Tensor slot_tensor = empty_like_device({slot_values}, ScalarType::Float, like);
  float* slots = deterministic ? slot_tensor.mutable_data_ptr<float>() : nullptr;
  clear(slot_tensor);
  // What slots are summed up to is set, not added to.
  const Tensor staged = stage_gaussians(in, like, deterministic ? RasterizeGradientOutputs{} : p.outputs());
  check_cuda(launch_differentiate(stream_, in, staged.const_data_ptr<float>(), p.gradients(), p.outputs(), slots));
  if (!deterministic) return;
  SortPairs by_id(in.intersections, like);
  const SortWords zeros(in.intersections, kGaussianKeyBits, like);
  check_cuda(launch_number_positions(stream_, in, by_id.keys(), by_id.values(), zeros.words()));
  check_cuda(launch_sort(stream_, zeros.words().first, by_id.buffers(), in.intersections, kGaussianKeyBits));
  const Tensor runs = empty_like_device({2, in.count}, ScalarType::Int, like);
  check_cuda(launch_sum_slots(stream_, in, by_id.keys(), by_id.values(), slots, runs.mutable_data_ptr<int32_t>(),
                              p.outputs()));
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
