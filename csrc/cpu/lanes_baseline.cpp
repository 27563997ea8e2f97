// The inner loops in splat::baseline, for any CPU of the platform: SSE2 on x86-64, NEON on aarch64.
#define SPLAT_ISA baseline
#define SPLAT_LANES 4
#include SPLAT_INNER_LOOPS
