// The numbers that define the picture. The values are those of gsplat 1.5.3, unless stated otherwise, so that scenes
// trained with it look the same here.
#pragma once

namespace splat {

// A blend below this changes no 8-bit pixel and is skipped (Kerbl et al. 2023, "3D Gaussian Splatting", appendix C).
constexpr float kMinAlpha = 1.0f / 255.0f;

// Keeps 1 - alpha away from zero, which the backward pass divides by (Kerbl et al. 2023, appendix C: 0.99; gsplat:
// 0.999).
constexpr float kMaxAlpha = 0.999f;

// A pixel stops before the Gaussian that would bring its transmittance to this or less (Kerbl et al. 2023, appendix C).
constexpr float kMinTransmittance = 1e-4f;

// No Gaussian reaches further than this many standard deviations: exp(-3.33^2 / 2) is 1/255, the smallest visible alpha
// for an opacity of 1.
constexpr float kMaxExtent = 3.33f;

// How far outside the image, in half images, the point at which the projection is linearised may lie. Beyond it the
// linearisation of a perspective projection grows without bound (Zwicker et al. 2002, "EWA Splatting", has no such
// bound).
constexpr float kFrustumMargin = 0.3f;

// Radii are kept as 32-bit integers; a larger one covers every image anyhow.
constexpr float kMaxRadius = 1073741824.0f;

// On the GPU a tile is one block of threads, of which there are at most 1024.
constexpr int kMaxTileSize = 32;

}  // namespace splat
