// Reads what the kernel says of memory: proc(5), and the documents of control groups, versions 1 and 2. The backend's
// compiler/resources.py does the same for builds.
#include "available_memory.h"

#ifdef _WIN32

#define NOMINMAX
#define WIN32_LEAN_AND_MEAN
#include <windows.h>

#include <algorithm>

int64_t splat::cpu::available_memory() {
  MEMORYSTATUSEX status = {};
  status.dwLength = sizeof status;
  if (!GlobalMemoryStatusEx(&status)) return INT64_MAX;
  // What may be allocated (the paging file counts), and what fits without that file.
  return static_cast<int64_t>(std::min(status.ullAvailPageFile, status.ullAvailPhys));
}

#else

#include <algorithm>
#include <cstdio>
#include <string>

namespace splat {
namespace cpu {
namespace {

constexpr int64_t kUnlimited = INT64_MAX;

// A file's text; empty if it cannot be read: then no limit is known.
std::string text_of(const std::string& path) {
  std::string text;
  FILE* file = std::fopen(path.c_str(), "re");
  if (file == nullptr) return text;
  char part[4096];
  while (const size_t read = std::fread(part, 1, sizeof part, file)) text.append(part, read);
  std::fclose(file);
  return text;
}

// What follows a name at the start of a line, up to the end of the line.
std::string line_after(const std::string& text, const std::string& name) {
  const size_t found = ("\n" + text).find("\n" + name);
  if (found == std::string::npos) return "";
  const size_t begin = found + name.size();
  return text.substr(begin, text.find('\n', begin) - begin);
}

// The number in a text, such as " 17 kB"; `otherwise` if it begins with something else, such as "max".
int64_t number_in(const std::string& text, int64_t otherwise) {
  const size_t begin = text.find_first_not_of(" \t");
  if (begin == std::string::npos || text[begin] < '0' || text[begin] > '9') return otherwise;
  int64_t number = 0;
  for (size_t i = begin; i < text.size() && text[i] >= '0' && text[i] <= '9'; ++i) {
    if (number > (kUnlimited - 9) / 10) return kUnlimited;
    number = 10 * number + (text[i] - '0');
  }
  return number;
}

// The names of a control group's files; version 1 has one limit.
struct GroupFiles {
  const char *limit, *lower_limit, *used, *active, *inactive;
};
constexpr GroupFiles kVersion1 = {"/memory.limit_in_bytes", "/", "/memory.usage_in_bytes", "total_active_file ",
                                  "total_inactive_file "};
constexpr GroupFiles kVersion2 = {"/memory.max", "/memory.high", "/memory.current", "active_file ", "inactive_file "};

// What a group may still use. The page cache can be reclaimed and does not count.
int64_t left_in(const std::string& group, const GroupFiles& files) {
  const int64_t limit = std::min(number_in(text_of(group + files.limit), kUnlimited),
                                 number_in(text_of(group + files.lower_limit), kUnlimited));
  if (limit > kUnlimited >> 3) return kUnlimited;  // version 1 has a number for it
  const std::string table = text_of(group + "/memory.stat");
  const int64_t cached = number_in(line_after(table, files.active), 0) + number_in(line_after(table, files.inactive), 0);
  return std::max<int64_t>(limit - number_in(text_of(group + files.used), 0) + cached, 0);
}

// The same of a group below `top` and of those that it is in. In a container its path can be one of the machine, of which
// `top` shows the last part: then the groups above are the container's own.
int64_t left_in_all(const std::string& top, std::string path, const GroupFiles& files) {
  int64_t left = left_in(top, files);
  if (path.find("/..") != std::string::npos) return left;  // outside of what is mounted
  for (; path.size() > 1; path.resize(path.rfind('/'))) left = std::min(left, left_in(top + path, files));
  return left;
}

}  // namespace

int64_t available_memory() {
  const int64_t available = number_in(line_after(text_of("/proc/meminfo"), "MemAvailable:"), kUnlimited >> 10);
  const std::string groups = text_of("/proc/self/cgroup");
  // ID:controllers:path, without controllers for version 2, whose ID is 0.
  const std::string controller = "memory:";  // the last one of a line, or the only one
  const size_t version_1 = groups.find(controller + "/");
  const std::string path = version_1 == std::string::npos ? "" : groups.substr(version_1 + controller.size());
  return std::min({available << 10,
                   left_in_all("/sys/fs/cgroup/memory", path.substr(0, path.find('\n')), kVersion1),
                   left_in_all("/sys/fs/cgroup", line_after(groups, "0::"), kVersion2)});
}

}  // namespace cpu
}  // namespace splat

#endif
