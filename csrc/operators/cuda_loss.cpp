// The library of the loss of images for CUDA.
#include "cuda_loss.h"
#include "loss_operators.h"

STABLE_TORCH_LIBRARY_IMPL(splat, CUDA, m) { splat::implement_loss<splat::CudaLoss>(m); }
