// The inner loops in splat::avx2, for x86-64 with AVX2.
#define SPLAT_ISA avx2
#define SPLAT_LANES 8
#include "gaussian_rows_source.h"
#include "image_loss_strip_source.h"
#include "rasterize_block_backward_source.h"
#include "rasterize_block_source.h"
#include "ray_block_source.h"
#include "surfel_block_source.h"
