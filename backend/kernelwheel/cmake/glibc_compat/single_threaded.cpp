// libstdc++ reads it to avoid atomic operations; 0: there may be other threads (glibc manual, "Single-Threaded").
extern "C" { extern char __libc_single_threaded; char __libc_single_threaded = 0; }
