// The inner loops in splat::avx2, for x86-64 with AVX2.
#define SPLAT_ISA avx2
#define SPLAT_LANES 8
#include SPLAT_INNER_LOOPS
