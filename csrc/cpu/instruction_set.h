// Which of the compiled instruction sets the CPU kernels use.
#pragma once

namespace splat {
namespace cpu {

enum class InstructionSet { kBaseline, kAvx2, kAvx512 };

// The one in use: the best one of this CPU, unless another was selected.
InstructionSet instruction_set();

}  // namespace cpu
}  // namespace splat
