// The memory that is left: Linux gives out what it has not got, and then ends whoever uses it.
#pragma once

#include <cstdint>

namespace splat {
namespace cpu {

// Bytes for which nobody looks.
constexpr int64_t kUnaskedBytes = int64_t{256} << 20;

// Bytes that this process may still use, by the machine's available memory and, on Linux, the limits of its control
// groups; the largest number if neither is known. Takes about 0.1 ms.
int64_t available_memory();

}  // namespace cpu
}  // namespace splat
