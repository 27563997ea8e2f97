// Linked into CUDA libraries for Windows: what NVIDIA's static CUDA runtime takes from MSVC's (Microsoft, "/GS (Buffer
// Security Check)"), and mingw-w64 has not.
#include <stdint.h>

extern "C" {

int _fltused = 1;
uintptr_t __security_cookie = 0x00002B992DDFA232;  // MSVC's, until its start-up code changes it

// Called at the end of a function, so no register but rcx may change: __fastfail(FAST_FAIL_STACK_COOKIE_CHECK_FAILURE).
__attribute__((naked)) void __security_check_cookie(uintptr_t) {
  __asm__("cmpq __security_cookie(%rip), %rcx\n\tjne 1f\n\tret\n1:\tmovl $2, %ecx\n\tint $0x29");
}

// The exception handler of functions with a cookie: the search goes on (ExceptionContinueSearch).
int __GSHandlerCheck(void*, void*, void*, void*) { return 1; }

int aoti_torch_get_current_cuda_stream(int32_t, void**);

__attribute__((constructor)) static void start() {
  __security_cookie ^= __builtin_ia32_rdtsc() & 0x0000FFFFFFFFFFFF;
  // As on Linux, the library needs a torch with CUDA, whether or not an operator calls it.
  __asm__ volatile("" : : "r"(aoti_torch_get_current_cuda_stream));
}

}  // extern "C"
