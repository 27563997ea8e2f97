// splat::avx2::rasterize_block and rasterize_surfels, and their gradients, for x86-64 with AVX2.
#define SPLAT_ISA avx2
#define SPLAT_LANES 8
#include "rasterize_block_backward_source.h"
#include "rasterize_block_source.h"
#include "surfel_block_source.h"
