// The kernels of broken_kernels.h, compiled with -fsanitize=thread, so that engine.cpp hears of every access to memory.
#include "broken_kernels.h"

#define SIMT_DEFINE(name) void (*const simt_##name)(const float*, float*) = &simt_broken::name;
SIMT_BROKEN_KERNELS(SIMT_DEFINE)
#undef SIMT_DEFINE

// Their dynamic shared memory: as much as any launch may ask for.
namespace simt_broken {
__shared__ float dynamic[64];
}
