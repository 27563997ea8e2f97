// The operators of the CUDA library, registered for tensors in the host's memory, as torch.ops.splat_simt or splat_ptx.
#include "operators/cuda_device.h"
#include "operators/operators.h"
#include "operators/schemas.h"

STABLE_TORCH_LIBRARY(SIMT_OPERATORS, m) { splat::define_operators(m); }

STABLE_TORCH_LIBRARY_IMPL(SIMT_OPERATORS, CPU, m) { splat::implement_operators<splat::Cuda>(m); }
