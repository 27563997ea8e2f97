// The operators' arithmetic on CUDA: on torch's current stream and the device of the tensors, in memory from torch,
// with every call of the CUDA runtime checked. cuda.cpp registers it for CUDA, and tests/simt for tensors in the host's
// memory. So it is with the other parts' (cuda_2dgs.h, cuda_rays.h, cuda_loss.h).
#pragma once

#include "cuda_call.h"
#include "intersect_operands.h"
#include "pack_operands.h"
#include "project_operands.h"
#include "rasterize_operands.h"
#include "spherical_harmonics_operands.h"

namespace splat {

class Cuda : CudaCall {
 public:
  using CudaCall::CudaCall;

  void project(const ProjectOperands& p, const ProjectResults& r) const;
  void project_backward(const ProjectOperands& p, const ProjectGradients& g) const;
  void spherical_harmonics(const HarmonicsOperands& p, const Tensor& colors) const;
  void spherical_harmonics_backward(const HarmonicsOperands& p, const HarmonicsGradients& g) const;
  void rasterize(const RasterizeOperands& p, const RasterizeImages& images) const;
  void rasterize_backward(const RasterizeBackwardOperands& p, bool deterministic) const;

  // cuda_lists.cpp

  // Returns flatten_ids. Waits once, for the number of pairs.
  Tensor intersect(const IntersectOperands& p) const;
  // Waits once, for the number of rows and that of pairs.
  PackResults pack(const PackOperands& p) const;
  void pack_backward(const PackBackwardOperands& p) const;

 private:
  // [count, kStagedFloats], in memory of torch.
  Tensor stage_gaussians(const RasterizeInputs& in, const Tensor& like, const RasterizeGradientOutputs& cleared) const;
  void differentiate(const RasterizeBackwardOperands& p, bool deterministic) const;
  void sum_backgrounds(const RasterizeBackwardOperands& p) const;
};

}  // namespace splat
