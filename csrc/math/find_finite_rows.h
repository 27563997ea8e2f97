// Whether all numbers of a Gaussian are finite.
//
// Shapes: B scenes, N Gaussians, S sets of colours, either one or one per image, of W numbers each.
#pragma once

#include "platform.h"

namespace splat {

struct FiniteInputs {
  const float *means, *quats, *scales, *covars;  // [B, N, 3], [B, N, 4], [B, N, 3], [B, N, C]; null if not given
  const float *opacities, *colors;               // [B, N], [B, S, N, W]
  int64_t scenes, gaussians, sets;               // B, N, S
  int64_t covar_width, color_width;              // C, W
};

SPLAT_HD bool all_finite(const float* values, int64_t count) {
  if (values == nullptr) return true;
  bool finite = true;
  int64_t i = 0;
  if (count % 4 == 0 && is_aligned(values)) {
    for (; i < count; i += 4) {
      float four[4];
      load_four(values + i, four);
      finite = finite && is_finite(four[0]) && is_finite(four[1]) && is_finite(four[2]) && is_finite(four[3]);
    }
  }
  for (; i < count; ++i) finite = finite && is_finite(values[i]);
  return finite;
}

SPLAT_HD const float* row_of(const float* values, int64_t width, int64_t i) {
  return values == nullptr ? nullptr : values + width * i;
}

// `i` is the Gaussian's number among all B N.
SPLAT_HD bool is_finite_gaussian(const FiniteInputs& in, int64_t i) {
  bool finite = all_finite(row_of(in.means, 3, i), 3) && all_finite(row_of(in.quats, 4, i), 4) &&
                all_finite(row_of(in.scales, 3, i), 3) && all_finite(row_of(in.covars, in.covar_width, i), in.covar_width) &&
                is_finite(in.opacities[i]);
  const int64_t scene = i / in.gaussians, own = i % in.gaussians;
  for (int64_t set = 0; set < in.sets; ++set) {
    const int64_t row = (scene * in.sets + set) * in.gaussians + own;
    finite = finite && all_finite(in.colors + in.color_width * row, in.color_width);
  }
  return finite;
}

}  // namespace splat
