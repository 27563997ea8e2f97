#pragma once

#include <cuda_runtime.h>

// Means over `2 radius + 1` values of each row, and of each column, of an image of `height` rows and `width` columns.
void mean_of_rows(const float* image, int height, int width, int radius, float* mean, cudaStream_t stream);
void mean_of_columns(const float* image, int height, int width, int radius, float* mean, cudaStream_t stream);
