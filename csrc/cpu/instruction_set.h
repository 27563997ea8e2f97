// Which of the compiled instruction sets the CPU kernels use.
#pragma once

namespace splat {
namespace cpu {

enum class InstructionSet { kBaseline, kAvx2, kAvx512 };

// The one in use: the best one of this CPU, unless another was selected.
InstructionSet instruction_set();

// Selects the function {baseline, avx2, avx512} for the instruction set in use.
#if defined(__x86_64__)
#define SPLAT_FOR_INSTRUCTION_SET(function)                                       \
  (instruction_set() == InstructionSet::kAvx512 ? avx512::function                \
   : instruction_set() == InstructionSet::kAvx2 ? avx2::function                  \
                                                : baseline::function)
#else
#define SPLAT_FOR_INSTRUCTION_SET(function) (baseline::function)
#endif

}  // namespace cpu
}  // namespace splat
