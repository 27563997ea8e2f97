/* Makes calls fail as a failing disk, a stale network mount or a quota does. Preloaded (ld.so(8), LD_PRELOAD).
 *
 * FAULT_CALL: open, read or write; FAULT_PATH: a part of the path that it fails for; FAULT_ERRNO: what it fails with;
 * FAULT_FILE: while this file exists, so that a fault can pass. Each fault adds a byte to FAULT_FILE. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

static int fails(const char *call, const char *path) {
  const char *wanted = getenv("FAULT_CALL"), *part = getenv("FAULT_PATH"), *file = getenv("FAULT_FILE");
  if (!wanted || !part || !file || strcmp(wanted, call) || !strstr(path, part)) return 0;
  int log = (int)syscall(SYS_openat, AT_FDCWD, file, O_WRONLY | O_APPEND);
  if (log < 0) return 0;
  syscall(SYS_write, log, "x", 1);
  syscall(SYS_close, log);
  errno = atoi(getenv("FAULT_ERRNO"));
  return 1;
}

static const char *path_of(int descriptor, char *buffer, size_t size) {
  char link[64];
  snprintf(link, sizeof link, "/proc/self/fd/%d", descriptor);
  ssize_t length = syscall(SYS_readlinkat, AT_FDCWD, link, buffer, size - 1);
  buffer[length < 0 ? 0 : length] = 0;
  return buffer;
}

static int opened_at(int folder, const char *path, int flags, int mode) {
  char full[8192] = "";
  if (path[0] != '/' && folder != AT_FDCWD) path_of(folder, full, 4096);
  strncat(strcat(full, "/"), path, 4000);
  return fails("open", full) ? -1 : (int)syscall(SYS_openat, folder, path, flags, mode);
}

#define MODE(flags) \
  va_list more; \
  va_start(more, flags); \
  int mode = (flags) & (O_CREAT | __O_TMPFILE) ? va_arg(more, int) : 0; \
  va_end(more)

int open(const char *path, int flags, ...) { MODE(flags); return opened_at(AT_FDCWD, path, flags, mode); }
int open64(const char *path, int flags, ...) { MODE(flags); return opened_at(AT_FDCWD, path, flags, mode); }
int openat(int folder, const char *path, int flags, ...) { MODE(flags); return opened_at(folder, path, flags, mode); }
int openat64(int folder, const char *path, int flags, ...) { MODE(flags); return opened_at(folder, path, flags, mode); }

ssize_t read(int descriptor, void *data, size_t size) {
  char path[4096];
  return fails("read", path_of(descriptor, path, sizeof path)) ? -1 : syscall(SYS_read, descriptor, data, size);
}

ssize_t write(int descriptor, const void *data, size_t size) {
  char path[4096];
  return fails("write", path_of(descriptor, path, sizeof path)) ? -1 : syscall(SYS_write, descriptor, data, size);
}
