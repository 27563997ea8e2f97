// Integer arithmetic for sizes, launches and keys.
#pragma once

#include "platform.h"

namespace splat {

// The maximum number of Gaussians, tiles, intersections and blocks of threads, which are numbered with 32-bit integers.
constexpr int64_t kMaxCount = 2147483647;

// value / divisor, rounded up. Preconditions: value >= 0, divisor > 0.
SPLAT_HD constexpr int64_t divide_up(int64_t value, int64_t divisor) { return (value + divisor - 1) / divisor; }

// The number of bits needed to write `value`.
SPLAT_HD int bit_length(int64_t value) {
  int bits = 0;
  for (; value > 0; value >>= 1) ++bits;
  return bits;
}

}  // namespace splat
