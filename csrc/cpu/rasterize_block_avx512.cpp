// splat::avx512::rasterize_block and rasterize_surfels, and their gradients, for x86-64 with AVX-512 F, VL, BW and DQ.
#define SPLAT_ISA avx512
#define SPLAT_LANES 16
#include "rasterize_block_backward_source.h"
#include "rasterize_block_source.h"
#include "surfel_block_source.h"
