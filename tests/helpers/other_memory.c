/* Lets another folder say how much memory there is: OTHER_MEMORY, below which /proc and /sys are. Preloaded. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int says(const char *path) {
  return !strcmp(path, "/proc/meminfo") || !strcmp(path, "/proc/self/cgroup") || !strncmp(path, "/sys/fs/cgroup/", 15);
}

FILE *fopen(const char *path, const char *mode) {
  FILE *(*own)(const char *, const char *) = (FILE * (*)(const char *, const char *)) dlsym(RTLD_NEXT, "fopen");
  const char *root = getenv("OTHER_MEMORY");
  char other[4096];
  if (!root || !says(path)) return own(path, mode);
  snprintf(other, sizeof other, "%s%s", root, path);
  return own(other, mode);
}

FILE *fopen64(const char *path, const char *mode) { return fopen(path, mode); }
