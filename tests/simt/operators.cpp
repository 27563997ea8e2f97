// The operators of the CUDA library, registered for tensors in the host's memory, as torch.ops.splat_simt or splat_ptx.
#include "operators/2dgs_operators.h"
#include "operators/cuda_2dgs.h"
#include "operators/cuda_device.h"
#include "operators/cuda_loss.h"
#include "operators/cuda_rays.h"
#include "operators/loss_operators.h"
#include "operators/rasterization_operators.h"
#include "operators/rays_operators.h"

STABLE_TORCH_LIBRARY_IMPL(SIMT_OPERATORS, CPU, m) {
  splat::implement_rasterization<splat::Cuda>(m);
  splat::implement_2dgs<splat::Cuda2dgs>(m);
  splat::implement_rays<splat::CudaRays>(m);
  splat::implement_loss<splat::CudaLoss>(m);
}
