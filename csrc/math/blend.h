// The contribution of one projected Gaussian to one pixel. Real is float, or a vector of floats in the CPU rasterizer.
#pragma once

#include "constants.h"
#include "platform.h"

namespace splat {

// Added to the exponent at which alpha is kMinAlpha, to make it a safe bound.
constexpr float kExponentSlack = 1e-4f;

// A safe bound on the rounding error of an exponent, relative to its largest term.
constexpr float kExponentUlps = 32.0f * 1.1920929e-7f;

// The conic is scaled so that alpha = opacity * 2^-exponent, because processors compute powers of two.
constexpr float kLog2E = 1.44269504088896341f;
constexpr float kLn2 = 0.693147180559945309f;

struct ScaledConic {
  float half_a, b, half_c;
};

SPLAT_HD ScaledConic scaled_conic(float a, float b, float c) {
  return {0.5f * kLog2E * a, kLog2E * b, 0.5f * kLog2E * c};
}

// (0.5 (a dx^2 + c dy^2) + b dx dy) / ln(2), written so that everything that depends only on dy can be hoisted out of
// a loop over the pixels of a row. Negative where the conic is not positive definite: such pixels are skipped.
template <class Real>
SPLAT_HD Real gaussian_exponent(Real dx, float dy, const ScaledConic& conic) {
  return (conic.half_a * dx + conic.b * dy) * dx + (conic.half_c * dy) * dy;
}

// The exponent above which a Gaussian of this opacity is invisible: opacity * 2^-exponent == kMinAlpha.
// Negative or NaN if it is invisible even at its centre.
SPLAT_HD float visible_exponent(float opacity) { return kLog2E * natural_log(opacity / kMinAlpha); }

}  // namespace splat
