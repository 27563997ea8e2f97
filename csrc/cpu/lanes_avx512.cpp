// The inner loops in splat::avx512, for x86-64 with AVX-512 F, VL, BW and DQ.
#define SPLAT_ISA avx512
#define SPLAT_LANES 16
#include "gaussian_rows_source.h"
#include "image_loss_strip_source.h"
#include "rasterize_block_backward_source.h"
#include "rasterize_block_source.h"
#include "ray_block_source.h"
#include "surfel_block_source.h"
