// Arithmetic of whole numbers that sizes, launches and keys share.
#pragma once

#include "platform.h"

namespace splat {

// Gaussians, tiles, intersections and blocks of threads are numbered with 32-bit integers: the most that there may be.
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
