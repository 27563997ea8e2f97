// The numbers that define the picture. Unless stated otherwise the values are those of gsplat 1.5.3, so that scenes
// trained with it look the same.
#pragma once

namespace splat {

// A blend below this changes no 8-bit pixel and is skipped (Kerbl et al. 2023, "3D Gaussian Splatting", appendix C).
constexpr float kMinAlpha = 1.0f / 255.0f;

// A pixel stops before the Gaussian that would bring its transmittance to this or less (Kerbl et al. 2023, appendix C).
constexpr float kMinTransmittance = 1e-4f;

// No Gaussian extends further than this many standard deviations: exp(-3.33^2 / 2) is 1/255, the smallest visible alpha
// for an opacity of 1.
constexpr float kMaxExtent = 3.33f;

// How far outside the image, in half images, the point at which the projection is linearised may lie. Beyond that the
// linearisation of a perspective projection grows without bound (Zwicker et al. 2002, "EWA Splatting", has no such
// bound).
constexpr float kFrustumMargin = 0.3f;

// What rounding may add to the determinant of F C F^T, relative to |C|^2 |f_x|^2 |f_y|^2: 16 roundings, those of the
// entries of C among them.
constexpr float kDeterminantRounding = 16.0f * 5.9604645e-8f;

// Radii are stored as 32-bit integers; a larger one would cover every image anyway.
constexpr float kMaxRadius = 1073741824.0f;

// On the GPU a tile is one block of threads, of which there are at most 1024.
constexpr int kMaxTileSize = 32;

}  // namespace splat
