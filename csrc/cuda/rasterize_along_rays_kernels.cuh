// The kernels of `rasterize_along_rays` and its gradient.
#pragma once

#include "../math/ray_gaussian.h"
#include "grid_launch.h"
#include "patch_walk.cuh"

namespace splat {
namespace kernels {

// Colours drawn in one launch: those of a picture and a depth.
constexpr int kRayChannels = 4;

static_assert(sizeof(RayGaussian) == kRayGaussianFloats * sizeof(float), "what the host allocates");

__global__ void load_ray_gaussians(AlongRaysInputs in, RayGaussian* gaussians) {
  const int64_t i = thread_index();
  if (i < in.lists.count) gaussians[i] = load_ray_gaussian(in, i);
}

__global__ void finish_rays(AlongRaysInputs in, const float* sums, AlongRaysGradientOutputs out) {
  const int64_t row = thread_index();
  if (row < in.sets * in.gaussians) finish_along_rays(in, row, sums, out);
}

// For ray_gaussian.h.
struct Fused {
  __device__ float operator()(float a, float b, float c) const { return fused(a, b, c); }
};

// The rays of a lane's pixels, and what bounds the directions of its warp's: middle + s across + t down, -1 <= s, t <= 1,
// but for what is shorter than `rest`.
struct PatchRays {
  float rays[kLanePixels][6];  // origins from the image's, and directions
  bool drawn[kLanePixels];
  bool moving;  // whether any origin in the warp is another
  float middle[3], across[3], down[3], rest;
};

static __device__ __forceinline__ float warp_maximum(float value) {
  for (int step = kWarp / 2; step > 0; step /= 2) value = maximum(__shfl_xor_sync(kAllLanes, value, step), value);
  return value;
}

static __device__ __forceinline__ PatchRays load_patch(const AlongRaysInputs& in, const Pixels& pixels, int64_t image) {
  const int width = in.lists.width, height = in.lists.height;
  const Vec3 origin = image_origin(in, image);
  const float shared[3] = {origin.x, origin.y, origin.z};
  const float s = 2.0f * (pixels.x - pixels.left) / static_cast<float>(kPatchWidth - 1) - 1.0f;
  PatchRays patch;
  bool moves = false;
  float longest = 0.0f, error = 0.0f;
#pragma unroll
  for (int p = 0; p < kLanePixels; ++p) {
    // Outside of the image, that of the nearest pixel.
    const int column = static_cast<int>(pixels.x), row = static_cast<int>(pixels.y[p]);
    const float* ray = ray_of(in, (image * height + (row < height ? row : height - 1)) * width +
                                      (column < width ? column : width - 1));
    float length2 = 0.0f;
#pragma unroll
    for (int j = 0; j < 3; ++j) {
      patch.rays[p][3 + j] = ray[3 + j];
      length2 += ray[3 + j] * ray[3 + j];
    }
    patch.drawn[p] = length2 > 0.0f && all_finite(ray, 6) && pixels.inside[p];
#pragma unroll
    for (int j = 0; j < 3; ++j) {
      patch.rays[p][j] = patch.drawn[p] ? ray[j] - shared[j] : 0.0f;
      moves = moves || patch.rays[p][j] != 0.0f;
    }
    longest = maximum(length2, longest);
  }
  patch.moving = __any_sync(kAllLanes, moves);
#pragma unroll
  for (int j = 0; j < 3; ++j) {
    const float top = patch.rays[0][3 + j], bottom = patch.rays[1][3 + j];
    const float a = __shfl_sync(kAllLanes, top, 0), b = __shfl_sync(kAllLanes, top, kPatchWidth - 1);
    const float c = __shfl_sync(kAllLanes, bottom, kWarp - kPatchWidth), d = __shfl_sync(kAllLanes, bottom, kWarp - 1);
    patch.middle[j] = 0.25f * (a + b + c + d);
    patch.across[j] = 0.25f * (b + d - a - c);
    patch.down[j] = 0.25f * (c + d - a - b);
  }
#pragma unroll
  for (int p = 0; p < kLanePixels; ++p) {
    const float t = 2.0f * (pixels.y[p] - pixels.top) / static_cast<float>(kPatchHeight - 1) - 1.0f;
    float off2 = 0.0f;
#pragma unroll
    for (int j = 0; j < 3; ++j) {
      const float off = patch.rays[p][3 + j] - (patch.middle[j] + s * patch.across[j] + t * patch.down[j]);
      off2 += off * off;
    }
    error = maximum(off2, error);
  }
  // With what rounding may add to the products of directions.
  patch.rest = 1.001f * square_root(warp_maximum(error)) + 4e-6f * square_root(warp_maximum(longest));
  return patch;
}

// Whether a Gaussian may be visible in the patch.
static __device__ __forceinline__ bool may_touch(const RayGaussian& g, const PatchRays& patch) {
  if (patch.moving || !(g.limit >= 0.0f)) return g.limit >= 0.0f;
  const float x = dot(g.a, patch.middle, Fused()), y = dot(g.b, patch.middle, Fused());
  const float across_x = dot(g.a, patch.across, Fused()), across_y = dot(g.b, patch.across, Fused());
  const float down_x = dot(g.a, patch.down, Fused()), down_y = dot(g.b, patch.down, Fused());
  // The nearest of the directions between the middles of the left and the right side.
  const float s = clamp(-(x * across_x + y * across_y) / (across_x * across_x + across_y * across_y + 1e-30f), -1, 1);
  const float near_x = x + s * across_x, near_y = y + s * across_y;
  const float depth = absolute(dot(g.c, patch.middle, Fused())) + absolute(dot(g.c, patch.across, Fused())) +
                      absolute(dot(g.c, patch.down, Fused()));
  const float bound = g.reach * depth + square_root(down_x * down_x + down_y * down_y) + g.margin * patch.rest;
  return !(near_x * near_x + near_y * near_y > bound * bound);
}

// What a Gaussian is in a pixel.
struct RayBlend {
  RayView<float> view;
  bool visible, clamped;
  float alpha;
};

static __device__ __forceinline__ RayBlend ray_blend(const RayGaussian& g, const float* ray, bool moving,
                                                     float max_alpha) {
  RayBlend b;
  b.view = moving ? view_along<true>(g, ray, Fused()) : view_along<false>(g, ray, Fused());
  const float unclamped = g.opacity * power_of_two(-b.view.exponent);
  b.clamped = unclamped > max_alpha;
  b.alpha = b.clamped ? max_alpha : unclamped;
  b.visible = b.view.exponent >= 0.0f && b.alpha >= kMinAlpha;
  return b;
}

static __device__ __forceinline__ float direction_length(const float* ray) {
  return length(Vec3{ray[3], ray[4], ray[5]});
}

// Whether there are channels that are not only colours: then views are those of rays without a common origin.
static __device__ __forceinline__ bool has_shown(const AlongRaysInputs& in) {
  return in.distance_channel >= 0 || in.normal_channel >= 0;
}

// What they show of a Gaussian in a pixel: the distance, and 1 or -1 for the side of the normal.
struct Shown {
  float distance, side;
};

static __device__ __forceinline__ Shown shown_in(const AlongRaysInputs& in, const float* colors,
                                                 const RayView<float>& view, const float* ray) {
  Shown shown = {0.0f, 1.0f};
  if (in.normal_channel >= 0) {
    const float* n = colors + in.normal_channel;
    if (dot(Vec3{n[0], n[1], n[2]}, ray + 3, Fused()) > 0.0f) shown.side = -1.0f;
  }
  if (in.distance_channel >= 0) {
    const float distance = absolute(nearest_behind(view)) * direction_length(ray);
    if (is_finite(distance)) shown.distance = distance;
  }
  return shown;
}

static __device__ __forceinline__ float shown_value(const AlongRaysInputs& in, const Shown& shown, int64_t channel,
                                                    float color) {
  if (channel == in.distance_channel) return shown.distance;
  return is_normal(in, channel) ? shown.side * color : color;
}

static __device__ __forceinline__ float by_color(const AlongRaysInputs& in, const Shown& shown, int64_t channel,
                                                 float v_shown) {
  if (channel == in.distance_channel) return 0.0f;
  return is_normal(in, channel) ? shown.side * v_shown : v_shown;
}

// Blends the colours [first_channel, first_channel + channels) of all pixels; the rest is written with the first channel.
__global__ void __launch_bounds__(kThreads, 1)
    rasterize_rays(AlongRaysInputs in, const RayGaussian* gaussians, RasterizeOutputs out, int64_t first_channel,
                   int channels) {
  const int threads = tile_threads(in.lists.grid.tile_size);
  const int64_t tile = thread_index() / threads;
  if (tile >= in.lists.tiles) return;  // whole warps
  const int64_t image = image_of_tile(in.lists.grid, tile);
  const Pixels pixels = pixels_of(in.lists, tile, static_cast<int>(thread_index() % threads));
  const PatchRays patch = load_patch(in, pixels, image);
  const ListRange range = list_range(in.lists, tile);
  const bool shows = has_shown(in);
  float left[kLanePixels], drawn[kLanePixels], blended[kLanePixels][kRayChannels];
  int32_t last[kLanePixels];
#pragma unroll
  for (int p = 0; p < kLanePixels; ++p) {
    left[p] = patch.drawn[p] ? 1.0f : 0.0f;
    drawn[p] = 1.0f;
    last[p] = -1;
#pragma unroll
    for (int k = 0; k < kRayChannels; ++k) blended[p][k] = 0.0f;
  }
  const auto finished = [&] { return left[0] <= kMinTransmittance && left[1] <= kMinTransmittance; };

  const auto touches = [&](int32_t id) { return may_touch(gaussians[id], patch); };
  walk_forwards(in.lists, range, touches, finished, [&](int64_t id, int32_t place) {
    const RayGaussian g = gaussians[id];
    const float* colors = in.lists.colors + id * in.lists.channels;
#pragma unroll
    for (int p = 0; p < kLanePixels; ++p) {
      const RayBlend blend = ray_blend(g, patch.rays[p], patch.moving || shows, in.lists.max_alpha);
      if (!blend.visible) continue;
      const float before = left[p], next = fused(-blend.alpha, before, before), weight = blend.alpha * before;
      left[p] = next;
      if (!(next > kMinTransmittance)) continue;
      drawn[p] = next;
      last[p] = place;
      const Shown shown = shows ? shown_in(in, colors, blend.view, patch.rays[p]) : Shown{};
#pragma unroll
      for (int k = 0; k < kRayChannels; ++k) {
        if (k >= channels) break;
        const int64_t channel = first_channel + k;
        const float color = colors[channel], value = shows ? shown_value(in, shown, channel, color) : color;
        blended[p][k] = fused(weight, value, blended[p][k]);
      }
    }
  });

#pragma unroll
  for (int p = 0; p < kLanePixels; ++p) {
    if (!pixels.inside[p]) continue;
    const int64_t pixel = pixels.index[p];
    write_colors(in.lists, image, pixel, first_channel, channels, blended[p], drawn[p], out.colors);
    if (first_channel > 0) continue;
    out.alphas[pixel] = 1.0f - drawn[p];
    out.last_ids[pixel] = last[p];
  }
}

// Adds the gradients by the colours [first_channel, first_channel + channels), and with the first channel to sums
// [count, kRaySums].
__global__ void __launch_bounds__(kThreads, 1)
    differentiate_rays(AlongRaysInputs in, const RayGaussian* gaussians, RasterizeGradients gradients, float* v_colors,
                       float* all_sums, int64_t first_channel, int channels) {
  const int threads = tile_threads(in.lists.grid.tile_size);
  const int64_t tile = thread_index() / threads, all_channels = in.lists.channels;
  if (tile >= in.lists.tiles) return;
  const int64_t image = image_of_tile(in.lists.grid, tile);
  const Pixels pixels = pixels_of(in.lists, tile, static_cast<int>(thread_index() % threads));
  const PatchRays patch = load_patch(in, pixels, image);
  const ListRange range = list_range(in.lists, tile);
  const float* background = in.lists.backgrounds + image * all_channels;
  const bool first = first_channel == 0, shows = has_shown(in);
  // As on the CPU: BackwardRow.
  float transmittance[kLanePixels], behind[kLanePixels], v_color[kLanePixels][kRayChannels];
  int32_t last[kLanePixels];
  const auto v_colors_of = [&](int p) { return gradients.colors + pixels.index[p] * all_channels; };
#pragma unroll
  for (int p = 0; p < kLanePixels; ++p) {
    const bool inside = pixels.inside[p], by_alpha = inside && gradients.alphas != nullptr;
    last[p] = inside ? gradients.last_ids[pixels.index[p]] : -1;
    if (last[p] >= range.end) last[p] = range.end - 1;
    transmittance[p] = 1.0f - (inside ? gradients.drawn_alphas[pixels.index[p]] : 0.0f);
#pragma unroll
    for (int k = 0; k < kRayChannels; ++k) {
      v_color[p][k] = inside && k < channels ? v_colors_of(p)[first_channel + k] : 0.0f;
    }
    const bool by_background = first && inside && in.lists.backgrounds != nullptr;
    const float background_light = by_background ? dot_from(0, all_channels, background, v_colors_of(p)) : 0.0f;
    behind[p] = transmittance[p] * (background_light - (by_alpha ? gradients.alphas[pixels.index[p]] : 0.0f));
  }

  const auto touches = [&](int32_t id) { return may_touch(gaussians[id], patch); };
  walk_backwards(in.lists, range, last, touches, [&](int64_t id, int32_t place) {
    const RayGaussian g = gaussians[id];
    RayBlend blend[kLanePixels];
    bool draws = false;
#pragma unroll
    for (int p = 0; p < kLanePixels; ++p) {
      blend[p] = ray_blend(g, patch.rays[p], patch.moving || shows, in.lists.max_alpha);
      blend[p].visible = blend[p].visible && place <= last[p];
      draws = draws || blend[p].visible;
    }
    if (!__any_sync(kAllLanes, draws)) return;
    const float* colors = in.lists.colors + id * all_channels;
    float sums[kRaySums] = {}, color_sums[kRayChannels] = {};
#pragma unroll
    for (int p = 0; p < kLanePixels; ++p) {
      if (!blend[p].visible) continue;
      const float odds = blend[p].alpha / (1.0f - blend[p].alpha), weight = odds * transmittance[p];
      const Shown shown = shows ? shown_in(in, colors, blend[p].view, patch.rays[p]) : Shown{};
      float product = 0.0f;
#pragma unroll
      for (int k = 0; k < kRayChannels; ++k) {
        if (k >= channels) break;
        const int64_t channel = first_channel + k;
        const float color = colors[channel], v = v_color[p][k];
        product = fused(shows ? shown_value(in, shown, channel, color) : color, v, product);
        color_sums[k] = fused(weight, shows ? by_color(in, shown, channel, v) : v, color_sums[k]);
      }
#pragma unroll(1)
      for (int64_t k = kRayChannels; first && k < all_channels; ++k) {
        product = fused(shows ? shown_value(in, shown, k, colors[k]) : colors[k], v_colors_of(p)[k], product);
      }
      const float light = transmittance[p] * product;
      const float slope = blend[p].clamped ? 0.0f : odds * (light - behind[p]);
      behind[p] = fused(odds, light, behind[p]);
      transmittance[p] += weight;
      if (patch.moving || shows) {
        add_ray_sums<true>(g, blend[p].view, patch.rays[p], slope, sums, Fused());
      } else {
        add_ray_sums<false>(g, blend[p].view, patch.rays[p], slope, sums, Fused());
      }
      if (first && in.distance_channel >= 0) {
        const float by_distance = weight * v_colors_of(p)[in.distance_channel] * direction_length(patch.rays[p]);
        const float v_nearest = nearest_behind(blend[p].view) < 0.0f ? -by_distance : by_distance;
        add_nearest_sums(blend[p].view, patch.rays[p], v_nearest, sums, Fused());
      }
    }
    add_warp_sums(color_sums, channels, v_colors + id * all_channels + first_channel);
    if (first) add_warp_sums(sums, kRaySums, all_sums + id * kRaySums);
  });
}

}  // namespace kernels
}  // namespace splat
