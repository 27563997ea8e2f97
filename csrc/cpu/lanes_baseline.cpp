// The inner loops in splat::baseline, for any CPU of the platform: SSE2 on x86-64, NEON on aarch64.
#define SPLAT_ISA baseline
#define SPLAT_LANES 4
#include "gaussian_rows_source.h"
#include "image_loss_strip_source.h"
#include "rasterize_block_backward_source.h"
#include "rasterize_block_source.h"
#include "ray_block_source.h"
#include "surfel_block_source.h"
