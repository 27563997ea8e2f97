#pragma once

#include <torch/extension.h>

torch::Tensor horizontal(const torch::Tensor& image, int64_t radius);
torch::Tensor vertical(const torch::Tensor& image, int64_t radius);
