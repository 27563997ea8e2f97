// Whether numbers are finite.
#pragma once

#include "platform.h"

namespace splat {

// values [count]; null for none.
SPLAT_HD bool all_finite(const float* values, int64_t count) {
  if (values == nullptr) return true;
  bool finite = true;
  // Without a branch for each: in kernels, that takes more registers.
  for (int64_t i = 0; i < count; ++i) finite &= is_finite(values[i]);
  return finite;
}

}  // namespace splat
