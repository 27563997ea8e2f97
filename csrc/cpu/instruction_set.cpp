#include "instruction_set.h"

#include <string.h>
#if defined(__x86_64__)
#include <cpuid.h>
#endif

#include <atomic>

#include "functions.h"

namespace splat {
namespace cpu {
namespace {

constexpr const char* kNames[] = {"baseline", "avx2", "avx512"};

// Asks the CPU (Intel SDM, "CPUID" and "XGETBV"), not __builtin_cpu_supports, which needs a part of the compiler's library
// that zig's lacks.
bool supported(InstructionSet set) {
  if (set == InstructionSet::kBaseline) return true;
#if defined(__x86_64__)
  unsigned eax, ebx, ecx, edx;
  if (!__get_cpuid(1, &eax, &ebx, &ecx, &edx) || !(ecx & bit_OSXSAVE) || !(ecx & bit_FMA)) return false;
  unsigned saved, high;  // the registers that the system saves: XCR0
  __asm__("xgetbv" : "=a"(saved), "=d"(high) : "c"(0));
  if (!__get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx)) return false;
  const auto has = [&](unsigned registers, unsigned features) {
    return (saved & registers) == registers && (ebx & features) == features;
  };
  if (set == InstructionSet::kAvx2) return has(0x06, bit_AVX2);
  return has(0xe6, bit_AVX512F | bit_AVX512VL | bit_AVX512BW | bit_AVX512DQ);
#else
  return false;
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
