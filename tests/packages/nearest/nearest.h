#pragma once

#include <torch/extension.h>

#ifdef WITH_CUDA
torch::Tensor distances_cuda(const torch::Tensor& points);
#endif
