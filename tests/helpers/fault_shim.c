/* Makes calls fail as a failing disk, a stale network mount, a quota or a limit does. Preloaded (ld.so(8), LD_PRELOAD).
 *
 * By environment: FAULT_CALL: open, read or write; FAULT_PATH: a part of the path that it fails for; FAULT_ERRNO: what it
 * fails with; FAULT_FILE: while this file exists, so that a fault can pass. Each fault adds a byte to FAULT_FILE.
 * By a call of fault(): the nth open from now on, or look (stat and its kin) too, below a folder. */
#define _GNU_SOURCE
#include <dirent.h>
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

static int left, number, lasts, looks, count;
static const char *below = "";

/* Let the nth call from now on fail with an error, and with `lasting` all after it; of paths below a folder alone. */
void fault(int nth, int error, int lasting, int also_looks, const char *folder) {
  left = nth; number = error; lasts = lasting; looks = also_looks; below = strdup(folder); count = 0;
}
int faults(void) { return count; }

static int fails_now(const char *path) {
  if (!left || !path || strncmp(path, below, strlen(below))) return 0;
  if (left > 1) { left--; return 0; }
  if (!lasts) left = 0;
  count++;
  errno = number;
  return 1;
}

static const char *path_of(int descriptor, char *buffer, size_t size) {
  char link[64];
  snprintf(link, sizeof link, "/proc/self/fd/%d", descriptor);
  ssize_t length = syscall(SYS_readlinkat, AT_FDCWD, link, buffer, size - 1);
  buffer[length < 0 ? 0 : length] = 0;
  return buffer;
}

/* The path of a name in an open folder; as it is where it says all itself. */
static const char *inside(int folder, const char *path, char *whole) {
  if (!path || path[0] == '/' || folder == AT_FDCWD) return path;
  path_of(folder, whole, 4096);
  return strncat(strcat(whole, "/"), path, 4000);
}

static int opened_at(int folder, const char *path, int flags, int mode) {
  char whole[8192], slash[8192] = "/";
  const char *name = inside(folder, path, whole);
  strncat(slash, name, 8000);
  return fails("open", slash) || fails_now(name) ? -1 : (int)syscall(SYS_openat, folder, path, flags, mode);
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

#define REAL(type, name, ...) \
  static type (*real)(__VA_ARGS__); \
  if (!real) *(void **)&real = dlsym(RTLD_NEXT, #name)
#define LOOK(name) \
  int name(const char *path, void *found) { \
    REAL(int, name, const char *, void *); \
    return looks && fails_now(path) ? -1 : real(path, found); \
  }
#define LOOK_AT(name) \
  int name(int folder, const char *path, void *found, int flags) { \
    REAL(int, name, int, const char *, void *, int); \
    char whole[8192]; \
    return looks && fails_now(inside(folder, path, whole)) ? -1 : real(folder, path, found, flags); \
  }
LOOK(stat) LOOK(stat64) LOOK(lstat) LOOK(lstat64) LOOK_AT(fstatat) LOOK_AT(fstatat64)

DIR *opendir(const char *path) {
  REAL(DIR *, opendir, const char *);
  return fails_now(path) ? 0 : real(path);
}
