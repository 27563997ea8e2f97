#include "instruction_set.h"

#include <string.h>

#include <atomic>

#include "functions.h"

namespace splat {
namespace cpu {
namespace {

constexpr const char* kNames[] = {"baseline", "avx2", "avx512"};

bool supported(InstructionSet set) {
#if defined(__x86_64__)
  switch (set) {
    case InstructionSet::kBaseline:
      return true;
    case InstructionSet::kAvx2:
      return __builtin_cpu_supports("avx2") != 0 && __builtin_cpu_supports("fma") != 0;
    case InstructionSet::kAvx512:
      return __builtin_cpu_supports("avx512f") != 0 && __builtin_cpu_supports("avx512vl") != 0 &&
             __builtin_cpu_supports("avx512bw") != 0 && __builtin_cpu_supports("avx512dq") != 0;
  }
  return false;
#else
  return set == InstructionSet::kBaseline;
#endif
}

InstructionSet best() {
  if (supported(InstructionSet::kAvx512)) return InstructionSet::kAvx512;
  if (supported(InstructionSet::kAvx2)) return InstructionSet::kAvx2;
  return InstructionSet::kBaseline;
}

std::atomic<InstructionSet>& selected() {
  static std::atomic<InstructionSet> set{best()};
  return set;
}

}  // namespace

InstructionSet instruction_set() { return selected().load(); }

bool select_instruction_set(const char* name) {
  for (const auto set : {InstructionSet::kBaseline, InstructionSet::kAvx2, InstructionSet::kAvx512}) {
    if (strcmp(name, kNames[static_cast<int>(set)]) != 0 || !supported(set)) continue;
    selected() = set;
    return true;
  }
  return false;
}

const char* instruction_set_name() { return kNames[static_cast<int>(instruction_set())]; }

}  // namespace cpu
}  // namespace splat
