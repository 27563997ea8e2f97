// The kernels of `rasterize_2dgs` and its gradient.
#pragma once

#include "../math/rasterize_2dgs_rows.h"
#include "../math/surfel.h"
#include "grid_launch.h"
#include "patch_walk.cuh"

namespace splat {
namespace kernels {

// Colours drawn in one launch: three of a picture, a normal and a depth fit, and nothing else is compiled.
constexpr int kSurfelChannels = 8;

static_assert(sizeof(Surfel) == kSurfelFloats * sizeof(float), "what the host allocates");

__global__ void load_surfels(Rasterize2dgsInputs in, Surfel* surfels) {
  const int64_t i = thread_index();
  if (i < in.lists.count) surfels[i] = load_surfel(in.lists.means, in.ray_transforms, in.lists.opacities, i);
}

// Whether a disc may be visible in the patch.
static __device__ __forceinline__ bool may_touch(const Surfel& disc, const Pixels& pixels) {
  return disc.right >= pixels.left && disc.left <= pixels.left + static_cast<float>(kPatchWidth - 1) &&
         disc.bottom >= pixels.top && disc.top <= pixels.top + static_cast<float>(kPatchHeight - 1);
}

// What a disc is in a pixel.
struct SurfelBlend {
  RayHit<float> hit;
  float dx, dy;
  bool visible, clamped, on_disc;
  float alpha;
};

static __device__ __forceinline__ SurfelBlend surfel_blend(const Surfel& disc, const Three<float>& h_u, float x,
                                                           float y, float max_alpha) {
  SurfelBlend b;
  b.hit = hit_disc(h_u, row_plane(disc, y));
  b.dx = disc.x - x;
  b.dy = disc.y - y;
  const float disc2 = disc_distance2(b.hit), filter2 = filter_distance2(b.dx, b.dy);
  b.on_disc = disc2 <= filter2;
  const float exponent = (0.5f * kLog2E) * (disc2 < filter2 ? disc2 : filter2);
  const float unclamped = disc.opacity * power_of_two(-exponent);
  b.clamped = unclamped > max_alpha;
  b.alpha = b.clamped ? max_alpha : unclamped;
  b.visible = b.hit.denominator != 0.0f && exponent >= 0.0f && b.alpha >= kMinAlpha;
  return b;
}

// Blends the colours [first_channel, first_channel + channels) of all pixels; the rest is written with the first channel.
__global__ void __launch_bounds__(kThreads, 1)
    rasterize_2dgs(Rasterize2dgsInputs in, const Surfel* surfels, Rasterize2dgsOutputs out, int64_t first_channel,
                   int channels) {
  const int threads = tile_threads(in.lists.grid.tile_size);
  const int64_t tile = thread_index() / threads;
  if (tile >= in.lists.tiles) return;  // whole warps
  const Pixels pixels = pixels_of(in.lists, tile, static_cast<int>(thread_index() % threads));
  const ListRange range = list_range(in.lists, tile);
  float left[kLanePixels], drawn[kLanePixels], blended[kLanePixels][kSurfelChannels];
  float depths[kLanePixels], distorted[kLanePixels], median[kLanePixels];
  int32_t last[kLanePixels], median_at[kLanePixels];
#pragma unroll
  for (int p = 0; p < kLanePixels; ++p) {
    left[p] = pixels.inside[p] ? 1.0f : 0.0f;
    drawn[p] = 1.0f;
    depths[p] = distorted[p] = median[p] = 0.0f;
    last[p] = median_at[p] = -1;
#pragma unroll
    for (int k = 0; k < kSurfelChannels; ++k) blended[p][k] = 0.0f;
  }
  const auto finished = [&] { return left[0] <= kMinTransmittance && left[1] <= kMinTransmittance; };

  const auto touches = [&](int32_t id) { return may_touch(surfels[id], pixels); };
  walk_forwards(in.lists, range, touches, finished, [&](int64_t id, int32_t place) {
    const Surfel disc = surfels[id];
    const Three<float> h_u = column_plane(disc, pixels.x);
    const float depth = in.depths[id];
    const float* color = in.lists.colors + id * in.lists.channels + first_channel;
#pragma unroll
    for (int p = 0; p < kLanePixels; ++p) {
      const SurfelBlend blend = surfel_blend(disc, h_u, pixels.x, pixels.y[p], in.lists.max_alpha);
      if (!blend.visible) continue;
      const float before = left[p], next = fused(-blend.alpha, before, before), weight = blend.alpha * before;
      left[p] = next;
      if (!(next > kMinTransmittance)) continue;
      distorted[p] += distortion(weight, depth, before, depths[p]);
      depths[p] = fused(weight, depth, depths[p]);
      if (before > kMedianTransmittance) {
        median[p] = depth;
        median_at[p] = place;
      }
      drawn[p] = next;
      last[p] = place;
#pragma unroll
      for (int k = 0; k < kSurfelChannels; ++k) {
        if (k < channels) blended[p][k] = fused(weight, color[k], blended[p][k]);
      }
    }
  });

  const int64_t image = image_of_tile(in.lists.grid, tile);
#pragma unroll
  for (int p = 0; p < kLanePixels; ++p) {
    if (!pixels.inside[p]) continue;
    const int64_t pixel = pixels.index[p];
    write_colors(in.lists, image, pixel, first_channel, channels, blended[p], drawn[p], out.colors);
    if (first_channel > 0) continue;
    out.alphas[pixel] = 1.0f - drawn[p];
    out.depth_sums[pixel] = depths[p];
    out.medians[pixel] = median[p];
    if (out.distortions != nullptr) out.distortions[pixel] = distorted[p];
    out.last_ids[pixel] = last[p];
    out.median_ids[pixel] = median_at[p];
  }
}

// Adds the gradients by the colours [first_channel, first_channel + channels); all others are added with the first channel.
__global__ void __launch_bounds__(kThreads, 1)
    differentiate_2dgs(Rasterize2dgsInputs in, const Surfel* surfels, Rasterize2dgsGradients gradients,
                       Rasterize2dgsGradientOutputs out, int64_t first_channel, int channels) {
  const int threads = tile_threads(in.lists.grid.tile_size), lane = static_cast<int>(threadIdx.x) % kWarp;
  const int64_t tile = thread_index() / threads, all_channels = in.lists.channels;
  if (tile >= in.lists.tiles) return;
  const Pixels pixels = pixels_of(in.lists, tile, static_cast<int>(thread_index() % threads));
  const ListRange range = list_range(in.lists, tile);
  const float* background = in.lists.backgrounds + image_of_tile(in.lists.grid, tile) * all_channels;
  const bool first = first_channel == 0;
  // As on the CPU: SurfelBackwardRow.
  float transmittance[kLanePixels], behind[kLanePixels], v_color[kLanePixels][kSurfelChannels];
  float depths_left[kLanePixels], depths[kLanePixels], all_alpha[kLanePixels];
  float v_distortion[kLanePixels], v_median[kLanePixels];
  int32_t last[kLanePixels], median_at[kLanePixels];
  const auto image = [&](const float* values, int p) {
    return values != nullptr && first && pixels.inside[p] ? values[pixels.index[p]] : 0.0f;
  };
  const auto v_colors_of = [&](int p) { return gradients.colors + pixels.index[p] * all_channels; };
#pragma unroll
  for (int p = 0; p < kLanePixels; ++p) {
    const bool inside = pixels.inside[p];
    all_alpha[p] = inside ? gradients.drawn_alphas[pixels.index[p]] : 0.0f;
    depths_left[p] = depths[p] = inside ? gradients.depth_sums[pixels.index[p]] : 0.0f;
    last[p] = inside ? gradients.last_ids[pixels.index[p]] : -1;
    if (last[p] >= range.end) last[p] = range.end - 1;
    median_at[p] = inside ? gradients.median_ids[pixels.index[p]] : -1;
    v_distortion[p] = image(gradients.distortions, p);
    v_median[p] = image(gradients.medians, p);
    transmittance[p] = 1.0f - all_alpha[p];
#pragma unroll
    for (int k = 0; k < kSurfelChannels; ++k) {
      v_color[p][k] = inside && k < channels ? v_colors_of(p)[first_channel + k] : 0.0f;
    }
    const bool by_background = first && inside && in.lists.backgrounds != nullptr;
    const float background_light = by_background ? dot_from(0, all_channels, background, v_colors_of(p)) : 0.0f;
    behind[p] = transmittance[p] * (background_light - image(gradients.alphas, p));
  }

  const auto touches = [&](int32_t id) { return may_touch(surfels[id], pixels); };
  walk_backwards(in.lists, range, last, touches, [&](int64_t id, int32_t place) {
    const Surfel disc = surfels[id];
    const Three<float> h_u = column_plane(disc, pixels.x);
    SurfelBlend blend[kLanePixels];
    bool draws = false;
#pragma unroll
    for (int p = 0; p < kLanePixels; ++p) {
      blend[p] = surfel_blend(disc, h_u, pixels.x, pixels.y[p], in.lists.max_alpha);
      blend[p].visible = blend[p].visible && place <= last[p];
      draws = draws || blend[p].visible;
    }
    if (!__any_sync(kAllLanes, draws)) return;
    const float depth = in.depths[id];
    const float* color = in.lists.colors + id * all_channels + first_channel;
    float sums[kSurfelSums] = {}, v_colors[kSurfelChannels] = {};
#pragma unroll
    for (int p = 0; p < kLanePixels; ++p) {
      if (!blend[p].visible) continue;
      const float odds = blend[p].alpha / (1.0f - blend[p].alpha), weight = odds * transmittance[p];
      const float before = transmittance[p] + weight;
      depths_left[p] -= weight * depth;
      float product = v_distortion[p] * distortion_by_weight(depth, before, depths_left[p], depths[p], all_alpha[p]);
#pragma unroll
      for (int k = 0; k < kSurfelChannels; ++k) {
        if (k < channels) product = fused(color[k], v_color[p][k], product);
        v_colors[k] = fused(weight, v_color[p][k], v_colors[k]);
      }
      if (first && all_channels > kSurfelChannels) {
        product += dot_from(kSurfelChannels, all_channels, color, v_colors_of(p));
      }
      const float light = transmittance[p] * product;
      const float slope = blend[p].clamped ? 0.0f : odds * (light - behind[p]);
      behind[p] = fused(odds, light, behind[p]);
      transmittance[p] = before;
      sums[14] += v_distortion[p] * distortion_by_depth(weight, before, all_alpha[p]);
      if (median_at[p] == place) sums[14] += v_median[p];
      sums[0] += slope;
      if (blend[p].on_disc) {
        const PlaneGradients<float> v = differentiate_hit(blend[p].hit, slope);
        const float values[6] = {v.h_u.x, v.h_u.y, v.h_u.z, v.h_v.x, v.h_v.y, v.h_v.z};
#pragma unroll
        for (int j = 0; j < 3; ++j) {
          sums[5 + j] += values[j];
          sums[8 + j] += values[3 + j];
          sums[11 + j] += pixels.x * values[j] + pixels.y[p] * values[3 + j];
        }
      } else {
        const float v_x = -kFilterInverseVariance * slope * blend[p].dx;
        const float v_y = -kFilterInverseVariance * slope * blend[p].dy;
        sums[1] += v_x;
        sums[2] += v_y;
        sums[3] += absolute(v_x);
        sums[4] += absolute(v_y);
      }
    }
    add_warp_sums(v_colors, channels, out.colors + id * all_channels + first_channel);
    if (!first) return;
#pragma unroll
    for (int j = 0; j < kSurfelSums; ++j) sums[j] = warp_sum(sums[j]);
    if (lane != 0) return;
    if (sums[0] != 0.0f) add_to_global(out.opacities + id, sums[0] / disc.opacity);
    for (int j = 0; j < 2; ++j) add_to_global(out.means + 2 * id + j, sums[1 + j]);
    for (int j = 0; j < 2 && out.means_abs != nullptr; ++j) add_to_global(out.means_abs + 2 * id + j, sums[3 + j]);
#pragma unroll
    for (int j = 0; j < 9; ++j) add_to_global(out.ray_transforms + 9 * id + j, j < 6 ? -sums[5 + j] : sums[5 + j]);
    add_to_global(out.depths + id, sums[14]);
  });
}

}  // namespace kernels
}  // namespace splat
