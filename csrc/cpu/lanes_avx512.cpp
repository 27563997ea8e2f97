// The inner loops in splat::avx512, for x86-64 with AVX-512 F, VL, BW and DQ.
#define SPLAT_ISA avx512
#define SPLAT_LANES 16
#include SPLAT_INNER_LOOPS
