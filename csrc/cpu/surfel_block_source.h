// Source of rasterize_surfels and rasterize_surfels_backward; lanes.h says how it is compiled, and
// rasterize_block_backward_source.h how the walk backwards works.
#include "rasterize_lanes.h"
#include "surfel_block.h"

namespace splat {
namespace SPLAT_ISA {
namespace {

constexpr int kSurfelChannels = 16;  // colours blended in one pass over the list

// A disc, with what of its planes depends on the column alone.
struct PlacedSurfel {
  Surfel disc;
  Three<Floats> h_u[kChunks];
  Floats dx[kChunks];
};

SPLAT_HD PlacedSurfel place_surfel(const Surfel& disc, const PixelCentres& centres) {
  PlacedSurfel placed;
  placed.disc = disc;
  for (int k = 0; k < kChunks; ++k) {
    placed.h_u[k] = column_plane(disc, centres.x[k]);
    placed.dx[k] = disc.x - centres.x[k];
  }
  return placed;
}

// The rows of the block that a disc can change, one bit each.
SPLAT_HD uint32_t surfel_rows(const Surfel& disc, const BlockJob& job) {
  const float left = static_cast<float>(job.left) + 0.5f, top = static_cast<float>(job.top) + 0.5f;
  if (!(disc.right >= left && disc.left <= left + static_cast<float>(job.columns - 1))) return 0;
  const float rows = static_cast<float>(job.rows);
  const int begin = static_cast<int>(round_up(clamp(disc.top - top, 0.0f, rows)));
  const int end = static_cast<int>(round_down(clamp(disc.bottom - top, -1.0f, rows - 1.0f))) + 1;
  return begin < end ? ((1u << end) - 1) & ~((1u << begin) - 1) : 0;
}

// What a disc is in the pixels of chunk k of a row.
struct SurfelAlpha {
  RayHit<Floats> hit;
  Floats disc2, filter2, unclamped, alpha;
  Mask visible;
};

SPLAT_HD SurfelAlpha surfel_alpha(const PlacedSurfel& placed, float y, int k, Mask candidates, float max_alpha) {
  const Surfel& disc = placed.disc;
  SurfelAlpha a;
  a.hit = hit_disc(placed.h_u[k], row_plane(disc, y));
  a.disc2 = disc_distance2(a.hit);
  a.filter2 = filter_distance2(placed.dx[k], disc.y - y);
  const Floats exponent = (0.5f * kLog2E) * smaller(a.disc2, a.filter2);
  a.unclamped = disc.opacity * exp2_negative(exponent);
  a.alpha = smaller(splat_lanes(max_alpha), a.unclamped);
  a.visible = candidates & between_zero_and(splat_lanes(126.0f), exponent) &
              greater(magnitude(a.hit.denominator), Floats{}) & at_least(a.alpha, splat_lanes(kMinAlpha));
  return a;
}

struct SurfelRow {
  Floats transmittance[kChunks];  // as in Row
  Floats depths[kChunks], distortion[kChunks], median[kChunks];
  Ints last[kChunks], median_at[kChunks];
  Floats colors[kSurfelChannels][kChunks];
};

SPLAT_HD void blend_surfel(const PlacedSurfel& placed, const float* color, float depth, int32_t index, float y,
                           int channels, float max_alpha, SurfelRow& pixels) {
  for (int k = 0; k < kChunks; ++k) {
    const Floats transmittance = pixels.transmittance[k];
    const SurfelAlpha a = surfel_alpha(placed, y, k, greater(transmittance, Floats{}), max_alpha);
    if (!any(a.visible)) continue;
    const Floats next = fused(-a.alpha, transmittance, transmittance);
    const Mask blended = a.visible & greater(next, splat_lanes(kMinTransmittance));
    const Floats weight = select(blended, a.alpha * transmittance, Floats{});
    for (int c = 0; c < channels; ++c) pixels.colors[c][k] = fused(weight, splat_lanes(color[c]), pixels.colors[c][k]);
    pixels.distortion[k] += distortion(weight, depth, transmittance, pixels.depths[k]);
    pixels.depths[k] = fused(weight, splat_lanes(depth), pixels.depths[k]);
    const Mask half = blended & greater(transmittance, splat_lanes(kMedianTransmittance));
    pixels.median[k] = select(half, splat_lanes(depth), pixels.median[k]);
    pixels.median_at[k] = select(half, Ints{} + index, pixels.median_at[k]);
    pixels.last[k] = select(blended, Ints{} + index, pixels.last[k]);
    pixels.transmittance[k] = select(blended, next, negate_where(a.visible, transmittance));
  }
}

SPLAT_HD void start_surfels(const BlockJob& job, SurfelRow* block) {
  for (int row = 0; row < kBlockSide; ++row) {
    SurfelRow& pixels = block[row];
    for (int k = 0; k < kChunks; ++k) {
      pixels.transmittance[k] = start_transmittance(job, row, k);
      pixels.depths[k] = pixels.distortion[k] = pixels.median[k] = Floats{};
      pixels.last[k] = pixels.median_at[k] = Ints{} - 1;
      for (int c = 0; c < kSurfelChannels; ++c) pixels.colors[c][k] = Floats{};
    }
  }
}

SPLAT_HD void finish_surfels(const SurfelScene& scene, const BlockJob& job, const Rasterize2dgsOutputs& images,
                             int first_channel, int channels, const SurfelRow* block) {
  for (int row = 0; row < job.rows; ++row) {
    const SurfelRow& pixels = block[row];
    const int64_t pixel = job.first_pixel + (job.top + row) * scene.image_width + job.left;
    Floats colors[kChunks * kSurfelChannels], alphas[kChunks];
    for (int k = 0; k < kChunks; ++k) {
      const Floats remaining = magnitude(pixels.transmittance[k]);
      alphas[k] = 1.0f - remaining;
      for (int c = 0; c < channels; ++c) {
        colors[k * channels + c] = with_background(job, pixels.colors[c][k], remaining, first_channel + c);
      }
    }
    store_row<0>(colors, scene.channels, job.columns, channels, images.colors + pixel * scene.channels + first_channel);
    if (first_channel > 0) continue;
    store_row<1>(alphas, 1, job.columns, 1, images.alphas + pixel);
    store_row<1>(pixels.depths, 1, job.columns, 1, images.depth_sums + pixel);
    store_row<1>(pixels.median, 1, job.columns, 1, images.medians + pixel);
    if (images.distortions != nullptr) store_row<1>(pixels.distortion, 1, job.columns, 1, images.distortions + pixel);
    for (int column = 0; column < job.columns; ++column) {
      images.last_ids[pixel + column] = pixels.last[column / kLanes][column % kLanes];
      images.median_ids[pixel + column] = pixels.median_at[column / kLanes][column % kLanes];
    }
  }
}

// The state of a row in the walk backwards.
struct SurfelBackwardRow {
  Floats transmittance[kChunks], behind[kChunks];        // as in BackwardRow
  Floats depths_left[kChunks];                           // of the Gaussians that have not been visited yet
  Floats depths[kChunks], alpha[kChunks];                // of all
  Floats v_distortion[kChunks], v_median[kChunks];
  Ints last[kChunks], median_at[kChunks];
};

SPLAT_HD void load_or_zero(const float* image, int64_t pixel, int columns, Floats* row) {
  for (int k = 0; k < kChunks; ++k) row[k] = Floats{};
  if (image != nullptr) load_row<1>(image + pixel, 1, columns, 1, row);
}

// Where the walk begins. Returns the last entry of the list that any pixel needs.
static int32_t start_surfels_backward(const SurfelScene& scene, const BlockJob& job, const Rasterize2dgsGradients& in,
                                      Floats* v_colors, SurfelBackwardRow* block, int32_t* row_last) {
  int32_t block_last = -1;
  for (int row = 0; row < job.rows; ++row) {
    const int64_t pixel = job.first_pixel + (job.top + row) * scene.image_width + job.left;
    Floats* v_color = v_colors + static_cast<int64_t>(row * kChunks) * scene.channels;
    load_row<0>(in.colors + pixel * scene.channels, scene.channels, job.columns, scene.channels, v_color);
    SurfelBackwardRow& pixels = block[row];
    Floats v_alpha[kChunks];
    load_or_zero(in.drawn_alphas, pixel, job.columns, pixels.alpha);
    load_or_zero(in.depth_sums, pixel, job.columns, pixels.depths);
    load_or_zero(in.distortions, pixel, job.columns, pixels.v_distortion);
    load_or_zero(in.medians, pixel, job.columns, pixels.v_median);
    load_or_zero(in.alphas, pixel, job.columns, v_alpha);
    for (int k = 0; k < kChunks; ++k) {
      Floats background = {};
      for (int c = 0; c < scene.channels && job.background != nullptr; ++c) {
        background += v_color[k * scene.channels + c] * job.background[c];
      }
      pixels.transmittance[k] = 1.0f - pixels.alpha[k];
      pixels.behind[k] = pixels.transmittance[k] * (background - v_alpha[k]);
      pixels.depths_left[k] = pixels.depths[k];
    }
    row_last[row] = -1;
    for (int column = 0; column < kBlockSide; ++column) {
      // This is not trusted: it must be an entry of this list.
      const int32_t last = column < job.columns ? in.last_ids[pixel + column] : -1;
      const int32_t kept = last < job.end ? last : job.end - 1;
      pixels.last[column / kLanes][column % kLanes] = kept;
      pixels.median_at[column / kLanes][column % kLanes] = column < job.columns ? in.median_ids[pixel + column] : -1;
      if (kept > row_last[row]) row_last[row] = kept;
    }
    if (row_last[row] > block_last) block_last = row_last[row];
  }
  return block_last;
}

// Visits a disc in one row: adds to the sums, and updates the row from behind the disc to in front of it.
SPLAT_HD void walk_surfel(const PlacedSurfel& placed, const float* color, float depth, int32_t index, float y,
                          const PixelCentres& centres, int channels, float max_alpha, const Floats* v_colors,
                          SurfelBackwardRow& pixels, Floats (*sums)[kChunks], Floats* v_color_sums) {
  for (int k = 0; k < kChunks; ++k) {
    const SurfelAlpha a = surfel_alpha(placed, y, k, at_least(pixels.last[k], index), max_alpha);
    if (!any(a.visible)) continue;
    const Floats odds = select(a.visible, a.alpha / (1.0f - a.alpha), Floats{});
    const Floats weight = odds * pixels.transmittance[k], transmittance = pixels.transmittance[k] + weight;
    pixels.depths_left[k] -= weight * depth;
    // The derivative of everything by the weight.
    Floats product = pixels.v_distortion[k] * distortion_by_weight(depth, transmittance, pixels.depths_left[k],
                                                                   pixels.depths[k], pixels.alpha[k]);
    const Floats* v_color = v_colors + static_cast<int64_t>(k) * channels;
    for (int c = 0; c < channels; ++c) {
      product = fused(splat_lanes(color[c]), v_color[c], product);
      v_color_sums[k * channels + c] = fused(weight, v_color[c], v_color_sums[k * channels + c]);
    }
    const Floats light = pixels.transmittance[k] * product;
    const Mask differentiable = a.visible & at_least(splat_lanes(max_alpha), a.unclamped);
    const Floats slope = select(differentiable, odds * (light - pixels.behind[k]), Floats{});
    pixels.behind[k] = fused(odds, light, pixels.behind[k]);
    pixels.transmittance[k] = transmittance;
    const Mask is_median = at_least(pixels.median_at[k], index) & at_least(Ints{} + index - pixels.median_at[k], 0);
    sums[14][k] += pixels.v_distortion[k] * distortion_by_depth(weight, transmittance, pixels.alpha[k]) +
                   select(is_median, pixels.v_median[k], Floats{});

    sums[0][k] += slope;
    const Mask on_disc = differentiable & at_least(a.filter2, a.disc2);
    const Floats on_filter = -kFilterInverseVariance * select(on_disc, Floats{}, slope);
    const Floats v_x = on_filter * placed.dx[k], v_y = on_filter * (placed.disc.y - y);
    sums[1][k] += v_x;
    sums[2][k] += v_y;
    sums[3][k] += magnitude(v_x);
    sums[4][k] += magnitude(v_y);
    // Values that do not count are replaced, not multiplied by zero: they may be infinite.
    RayHit<Floats> hit = a.hit;
    hit.u = select(on_disc, hit.u, Floats{});
    hit.v = select(on_disc, hit.v, Floats{});
    hit.inverse = select(on_disc, hit.inverse, Floats{});
    const PlaneGradients<Floats> v = differentiate_hit(hit, slope);
    const Floats values[6] = {v.h_u.x, v.h_u.y, v.h_u.z, v.h_v.x, v.h_v.y, v.h_v.z};
    for (int j = 0; j < 3; ++j) {
      sums[5 + j][k] += values[j];
      sums[8 + j][k] += values[3 + j];
      sums[11 + j][k] += centres.x[k] * values[j] + y * values[3 + j];
    }
  }
}

}  // namespace

void rasterize_surfels(const SurfelScene& scene, const BlockJob& job, const Rasterize2dgsOutputs& images) {
  const PixelCentres centres = pixel_centres(job);
  for (int first = 0; first < scene.channels; first += kSurfelChannels) {
    const int channels = scene.channels - first < kSurfelChannels ? scene.channels - first : kSurfelChannels;
    SurfelRow block[kBlockSide];
    start_surfels(job, block);
    uint32_t alive = (1u << job.rows) - 1;  // rows with unfinished pixels
    for (int32_t index = job.begin; index < job.end && alive != 0; ++index) {
      const int64_t id = scene.flatten_ids[index];
      const uint32_t touched = surfel_rows(scene.surfels[id], job) & alive;
      if (touched == 0) continue;
      const PlacedSurfel placed = place_surfel(scene.surfels[id], centres);
      const float* color = scene.colors + id * scene.channels + first;
      for (uint32_t rows = touched; rows != 0; rows &= rows - 1) {
        const int row = __builtin_ctz(rows);
        const float y = static_cast<float>(job.top + row) + 0.5f;
        blend_surfel(placed, color, scene.depths[id], index, y, channels, scene.max_alpha, block[row]);
        Mask unfinished = {};
        for (int k = 0; k < kChunks; ++k) unfinished |= greater(block[row].transmittance[k], Floats{});
        if (!any(unfinished)) alive &= ~(1u << row);
      }
    }
    finish_surfels(scene, job, images, first, channels, block);
  }
}

// As rasterize_block_backward.
int32_t rasterize_surfels_backward(const SurfelScene& scene, const BlockJob& job,
                                   const Rasterize2dgsGradients& gradients, float* slots, int32_t filled,
                                   float* scratch) {
  const int channels = scene.channels;
  const int64_t size = kSurfelSums + channels;
  Floats* v_colors = reinterpret_cast<Floats*>(scratch);
  Floats* v_color_sums = v_colors + static_cast<int64_t>(kBlockSide) * kChunks * channels;
  SurfelBackwardRow block[kBlockSide];
  int32_t row_last[kBlockSide];
  const PixelCentres centres = pixel_centres(job);
  const int32_t last = start_surfels_backward(scene, job, gradients, v_colors, block, row_last);
  for (int32_t index = last; index >= job.begin; --index) {
    const int64_t id = scene.flatten_ids[index];
    float* slot = slots + index * size;
    const uint32_t touched = surfel_rows(scene.surfels[id], job);
    if (touched == 0) {
      for (int64_t j = 0; j < size && index >= filled; ++j) slot[j] = 0.0f;
      continue;
    }
    const PlacedSurfel placed = place_surfel(scene.surfels[id], centres);
    Floats sums[kSurfelSums][kChunks] = {};
    for (int j = 0; j < kChunks * channels; ++j) v_color_sums[j] = Floats{};
    for (uint32_t rows = touched; rows != 0; rows &= rows - 1) {
      const int row = __builtin_ctz(rows);
      if (row_last[row] < index) continue;
      walk_surfel(placed, scene.colors + id * channels, scene.depths[id], index,
                  static_cast<float>(job.top + row) + 0.5f, centres, channels, scene.max_alpha,
                  v_colors + static_cast<int64_t>(row * kChunks) * channels, block[row], sums, v_color_sums);
    }
    add_to_slot<kSurfelSums>(sums, index < filled, slot);
    for (int c = 0; c < channels; ++c) {
      Floats color[1][kChunks];
      for (int k = 0; k < kChunks; ++k) color[0][k] = v_color_sums[k * channels + c];
      add_to_slot<1>(color, index < filled, slot + kSurfelSums + c);
    }
  }
  return last + 1 > filled ? last + 1 : filled;
}

}  // namespace SPLAT_ISA
}  // namespace splat
