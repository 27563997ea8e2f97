// The operators' arithmetic on CUDA: on torch's current stream and the device of the tensors, in memory from torch,
// with every call of the CUDA runtime checked. cuda.cpp registers it for CUDA, and tests/simt for tensors in the host's
// memory.
#pragma once

#include <torch/csrc/stable/accelerator.h>

#include <cuda_runtime_api.h>

#include "image_loss_operands.h"
#include "intersect_operands.h"
#include "pack_operands.h"
#include "project_operands.h"
#include "rasterize_2dgs_operands.h"
#include "rasterize_along_rays_operands.h"
#include "rasterize_operands.h"
#include "spherical_harmonics_operands.h"

namespace splat {

class Cuda {
 public:
  // Makes the device of a tensor the current one during its lifetime.
  explicit Cuda(const Tensor& tensor);

  void project(const ProjectOperands& p, const ProjectResults& r) const;
  void project_backward(const ProjectOperands& p, const ProjectGradients& g) const;
  void spherical_harmonics(const HarmonicsOperands& p, const Tensor& colors) const;
  void spherical_harmonics_backward(const HarmonicsOperands& p, const HarmonicsGradients& g) const;
  void rasterize(const RasterizeOperands& p, const RasterizeImages& images) const;
  void rasterize_backward(const RasterizeBackwardOperands& p, bool deterministic) const;
  void image_loss(const ImageLossOperands& p, const ImageLossResults& r) const;
  void image_loss_backward(const ImageLossBackwardOperands& p) const;
  void rasterize_2dgs(const Rasterize2dgsOperands& p, const Rasterize2dgsImages& images) const;
  void rasterize_2dgs_backward(const Rasterize2dgsBackwardOperands& p) const;
  void rasterize_along_rays(const AlongRaysOperands& p, const RasterizeImages& images) const;
  void rasterize_along_rays_backward(const AlongRaysBackwardOperands& p) const;

  // cuda_lists.cpp

  // Returns flatten_ids. Waits once, for the number of pairs.
  Tensor intersect(const IntersectOperands& p) const;
  // Waits once, for the number of rows and that of pairs.
  PackResults pack(const PackOperands& p) const;
  void pack_backward(const PackBackwardOperands& p) const;

 private:
  void clear(const Tensor& tensor) const;
  // [count, kStagedFloats], in memory of torch.
  Tensor stage_gaussians(const RasterizeInputs& in, const Tensor& like) const;
  Tensor load_surfels(const Rasterize2dgsInputs& in, const Tensor& like) const;
  Tensor load_ray_gaussians(const AlongRaysInputs& in, const Tensor& like) const;
  void differentiate(const RasterizeBackwardOperands& p, bool deterministic) const;
  void sum_backgrounds(const RasterizeBackwardOperands& p) const;

  torch::stable::accelerator::DeviceGuard guard_;
  cudaStream_t stream_ = nullptr;
};

}  // namespace splat
