// splat::baseline::rasterize_block and rasterize_block_backward, for any CPU of the platform.
#define SPLAT_ISA baseline
#define SPLAT_LANES 4
#include "rasterize_block_backward_source.h"
#include "rasterize_block_source.h"
