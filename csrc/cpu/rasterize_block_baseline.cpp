// splat::baseline::rasterize_block, for any CPU of the platform.
#define SPLAT_ISA baseline
#define SPLAT_LANES 4
#include "rasterize_block_source.h"
