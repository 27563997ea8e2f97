// The kernels' own source, compiled with -fsanitize=thread, so that engine.cpp hears of every access to memory.
#include "kernels.h"

#define SIMT_DEFINE(name, function) decltype(&function) const simt_##name = &function;
SIMT_KERNELS(SIMT_DEFINE)
#undef SIMT_DEFINE

// The dynamic shared memory of broken_kernels.h: as much as any launch may ask for.
namespace simt_broken {
__shared__ float dynamic[64];
}
