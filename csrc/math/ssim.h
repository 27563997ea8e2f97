// Structural similarity (Wang et al. 2004, equation 13) in one pixel, and its derivatives.
#pragma once

#include "platform.h"

namespace splat {

// The window has kWindowTaps pixels a side, each kWindowRadius from the middle at most.
constexpr int kWindowRadius = 5, kWindowTaps = 2 * kWindowRadius + 1;

// The weight of the window's row or column `tap`: a Gaussian of 1.5 pixels, the sum of all being 1.
SPLAT_HD constexpr float window_weight(int tap) {
  const int distance = tap < kWindowRadius ? kWindowRadius - tap : tap - kWindowRadius;
  return distance == 0   ? 0.266011715f
         : distance == 1 ? 0.213005538f
         : distance == 2 ? 0.10936069f
         : distance == 3 ? 0.0360007721f
         : distance == 4 ? 0.00759875814f
                         : 0.00102838008f;
}

// Of the two pictures within a window: the means of x, y, x^2 + y^2 and x y. The variances are needed as a sum only.
constexpr int kWindowMeans = 4;

// The similarity, and half of its derivatives by the first of the means; by_squares is all of that.
constexpr int kPartials = 3;
template <class T>
struct Similarity {
  T value, by_mean, by_squares, by_product;
};

// T is a float, or a vector of them.
template <class T>
SPLAT_HD Similarity<T> similarity(const T (&moments)[kWindowMeans]) {
  constexpr float kLuminance = 1e-4f, kContrast = 9e-4f;  // 0.01^2, 0.03^2
  const T mean_x = moments[0], mean_y = moments[1];
  const T product = mean_x * mean_y, squares = mean_x * mean_x + mean_y * mean_y;
  const T a1 = 2.0f * product + kLuminance, a2 = 2.0f * (moments[3] - product) + kContrast;
  const T b1 = squares + kLuminance, b2 = (moments[2] - squares) + kContrast;
  const T inverse = 1.0f / (b1 * b2);
  const T by_product = a1 * inverse, value = by_product * a2, scaled = value * inverse;
  return {value, (mean_y * (a2 - a1)) * inverse + (mean_x * scaled) * (b1 - b2), -(scaled * b1), by_product};
}

}  // namespace splat
