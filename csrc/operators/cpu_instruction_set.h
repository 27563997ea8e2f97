// The operator that selects the instruction set of a library for the CPU: each part has its own.
#pragma once

#include <string>

#include <torch/headeronly/util/Exception.h>

#include "../cpu/functions.h"

namespace splat {

// Selects an instruction set by name, unless that is empty, and returns the one in
// use.
inline std::string select_instruction_set(std::string name) {
  STD_TORCH_CHECK(name.empty() || name == "baseline" || name == "avx2" || name == "avx512",
                  "instruction_set must be baseline, avx2 or avx512; found ", name);
  STD_TORCH_CHECK(name.empty() || cpu::select_instruction_set(name.c_str()),
                  "this CPU does not have the instruction set ", name);
  return cpu::instruction_set_name();
}

}  // namespace splat
