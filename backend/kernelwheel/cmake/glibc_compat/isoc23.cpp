// What the headers of glibc 2.38 make of strtol and its like, which then read 0b1 as well; before, they do not.
#include <cstdarg>
struct _IO_FILE;
extern "C" {
long c17_strtol(const char*, char**, int) __asm__("strtol");
unsigned long c17_strtoul(const char*, char**, int) __asm__("strtoul");
long long c17_strtoll(const char*, char**, int) __asm__("strtoll");
unsigned long long c17_strtoull(const char*, char**, int) __asm__("strtoull");
int c17_vsscanf(const char*, const char*, va_list) __asm__("__isoc99_vsscanf");
int c17_vfscanf(_IO_FILE*, const char*, va_list) __asm__("__isoc99_vfscanf");
long __isoc23_strtol(const char* text, char** end, int base) { return c17_strtol(text, end, base); }
unsigned long __isoc23_strtoul(const char* text, char** end, int base) { return c17_strtoul(text, end, base); }
long long __isoc23_strtoll(const char* text, char** end, int base) { return c17_strtoll(text, end, base); }
unsigned long long __isoc23_strtoull(const char* text, char** end, int base) { return c17_strtoull(text, end, base); }
int __isoc23_vsscanf(const char* text, const char* form, va_list values) { return c17_vsscanf(text, form, values); }
int __isoc23_vfscanf(_IO_FILE* file, const char* form, va_list values) { return c17_vfscanf(file, form, values); }
int __isoc23_sscanf(const char* text, const char* form, ...) {
  va_list values;
  va_start(values, form);
  const int count = c17_vsscanf(text, form, values);
  va_end(values);
  return count;
}
int __isoc23_fscanf(_IO_FILE* file, const char* form, ...) {
  va_list values;
  va_start(values, form);
  const int count = c17_vfscanf(file, form, values);
  va_end(values);
  return count;
}
}
