// CUDA's header of this name, for clang and zig's libraries: as clang includes it on Linux, where it takes it for no system.
#ifndef KERNELWHEEL_WINDOWS_MATH_FUNCTIONS
#define KERNELWHEEL_WINDOWS_MATH_FUNCTIONS
extern "C" void* aligned_alloc(size_t, size_t);  // which CCCL names and UCRT has not
static inline int __isinf(double x) { return __builtin_isinf(x); }  // glibc's
#endif
#pragma push_macro("_WIN32")
#undef _WIN32
#include_next <crt/math_functions.hpp>
#pragma pop_macro("_WIN32")
