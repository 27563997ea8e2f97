#include "instruction_set.h"

#include <atomic>
#include <string>

#include <torch/csrc/stable/library.h>
#include <torch/headeronly/util/Exception.h>

namespace splat {
namespace {

constexpr const char* kNames[] = {"baseline", "avx2", "avx512"};

bool supported(InstructionSet set) {
#if defined(__x86_64__)
  switch (set) {
    case InstructionSet::kBaseline:
      return true;
    case InstructionSet::kAvx2:
      return __builtin_cpu_supports("avx2") != 0;
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

// The operator splat::instruction_set: selects an instruction set by name, unless that is empty, and returns the one in
// use.
std::string select(std::string name) {
  if (!name.empty()) {
    bool known = false;
    for (const auto set : {InstructionSet::kBaseline, InstructionSet::kAvx2, InstructionSet::kAvx512}) {
      if (name != kNames[static_cast<int>(set)]) continue;
      STD_TORCH_CHECK(supported(set), "this CPU does not have the instruction set ", name);
      selected() = set;
      known = true;
    }
    STD_TORCH_CHECK(known, "instruction_set must be baseline, avx2 or avx512; found ", name);
  }
  return kNames[static_cast<int>(instruction_set())];
}

}  // namespace

InstructionSet instruction_set() { return selected().load(); }

}  // namespace splat

STABLE_TORCH_LIBRARY_IMPL(splat, CompositeExplicitAutograd, m) { m.impl("instruction_set", TORCH_BOX(&splat::select)); }
