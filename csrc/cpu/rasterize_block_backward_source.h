// Source of rasterize_block_backward, and of what rasterize_rays_backward shares with it; lanes.h says how it is compiled.
//
// A pixel's colour is sum_i T_i alpha_i c_i + T_end background, with T_i the transmittance in front of Gaussian i. Its
// derivative by alpha_i is T_i c_i - B_i / (1 - alpha_i), where B_i is what everything behind i adds to the colour.
// Only the products of colours with the gradient v of the pixel matter, so B is one number per pixel, sum_c B_c v_c,
// for any number of channels. The walk goes from back to front: T_i = T_{i+1} / (1 - alpha_i).
#pragma once

#include "rasterize_lanes.h"

namespace splat {
namespace SPLAT_ISA {
namespace {

struct BackwardRow {
  Floats transmittance[kChunks];  // behind the Gaussians that have not been visited yet
  Floats behind[kChunks];         // B, and the gradient of alpha = 1 - T_end
  Ints last[kChunks];             // the entry of the list that was blended last, or -1
};

struct BackwardBlock {
  BackwardRow rows[kBlockSide];
  Ints row_last[kChunks];  // of each row, the largest of `last`
  float max_alpha;
  const Floats* v_colors;  // [16 rows, kChunks, channels]
};

// Where the walk begins. Returns the last entry of the list that any pixel needs. Not inlined, like stage.
template <int C>
[[gnu::noinline]] static int32_t start_backward(const BlockScene& scene, const BlockJob& job, const BlockGradients& in,
                                                Floats* v_colors, BackwardBlock& block) {
  const int channels = C > 0 ? C : scene.channels;
  block.v_colors = v_colors;
  block.max_alpha = scene.max_alpha;
  int32_t block_last = -1;
  for (int k = 0; k < kChunks; ++k) block.row_last[k] = Ints{} - 1;
  for (int row = 0; row < job.rows; ++row) {
    const int64_t pixel = job.first_pixel + (job.top + row) * scene.image_width + job.left;
    Floats* v_color = v_colors + static_cast<int64_t>(row * kChunks) * channels;
    load_row<C>(in.v_colors + pixel * channels, channels, job.columns, channels, v_color);
    Floats alphas[kChunks], v_alphas[kChunks];
    load_row<1>(in.alphas + pixel, 1, job.columns, 1, alphas);
    if (in.v_alphas != nullptr) {
      load_row<1>(in.v_alphas + pixel, 1, job.columns, 1, v_alphas);
    } else {
      for (int k = 0; k < kChunks; ++k) v_alphas[k] = Floats{};
    }
    for (int k = 0; k < kChunks; ++k) {
      Floats background = {};
      for (int c = 0; c < channels && job.background != nullptr; ++c) {
        background += v_color[k * channels + c] * job.background[c];
      }
      BackwardRow& pixels = block.rows[row];
      pixels.transmittance[k] = 1.0f - alphas[k];
      pixels.behind[k] = pixels.transmittance[k] * (background - v_alphas[k]);
    }
    int32_t row_last = -1;
    for (int column = 0; column < kBlockSide; ++column) {
      // This is not trusted either: it must be an entry of this list.
      const int32_t last = column < job.columns ? in.last[pixel + column] : -1;
      const int32_t kept = last < job.end ? last : job.end - 1;
      block.rows[row].last[column / kLanes][column % kLanes] = kept;
      row_last = kept > row_last ? kept : row_last;
    }
    block.row_last[row / kLanes][row % kLanes] = row_last;
    block_last = row_last > block_last ? row_last : block_last;
  }
  return block_last;
}

// Sums over the block's rows, one for each column, of which a slot gets kCount values.
template <bool kAbsolute>
struct MomentSums {
  static constexpr int kCount = kMoments + (kAbsolute ? 2 : 0);
  Floats s, s_dy, s_dy2, absolute_x, absolute_y;
};

// Adds what follows from s, the derivative by ln(alpha).
template <bool kAbsolute>
SPLAT_HD void add_slope(const PlacedGaussian& gaussian, const GaussianView&, int row, int k, Floats s,
                        Mask differentiable, MomentSums<kAbsolute>& sums) {
  const float dy = gaussian.dy[row];
  const Floats s_dy = s * dy;
  sums.s += s;
  sums.s_dy += s_dy;
  sums.s_dy2 = fused(s_dy, splat_lanes(dy), sums.s_dy2);
  if (kAbsolute) {
    const ScaledConic& conic = gaussian.conic;
    const Floats dx = gaussian.dx[k];
    const Floats x = s * (2.0f * conic.half_a * dx + conic.b * dy), y = s * (conic.b * dx + 2.0f * conic.half_c * dy);
    sums.absolute_x += select(differentiable, magnitude(x), Floats{});
    sums.absolute_y += select(differentiable, magnitude(y), Floats{});
  }
}

// The gradient of a colour, by that of what is shown of it.
template <class Placed, class View>
SPLAT_HD Floats by_color(const Placed&, const View&, int, int, int, Floats v_shown) {
  return v_shown;
}

// Adds what follows from what is shown but is no colour.
template <class Placed, class View, class Sums>
SPLAT_HD void add_shown(const Placed&, const View&, int, int, Floats, const Floats*, Sums&) {}

template <bool kAbsolute>
SPLAT_HD void slot_values(const PlacedGaussian& gaussian, const MomentSums<kAbsolute>& sums, int k,
                          Floats (*values)[kChunks]) {
  const Floats dx = gaussian.dx[k];
  values[0][k] = sums.s;
  values[1][k] = sums.s * dx;
  values[2][k] = sums.s_dy;
  values[3][k] = sums.s * dx * dx;
  values[4][k] = sums.s_dy * dx;
  values[5][k] = sums.s_dy2;
  if (kAbsolute) {
    values[kMoments][k] = sums.absolute_x * (1.0f / kLog2E);
    values[kMoments + 1][k] = sums.absolute_y * (1.0f / kLog2E);
  }
}

// The rows whose pixels blended entry `index` of the list or a later one, one bit each.
SPLAT_HD uint32_t rows_with(const BackwardBlock& block, int32_t index) {
  uint32_t rows = 0;
  for (int k = 0; k < kChunks; ++k) rows |= bits(at_least(block.row_last[k], index)) << (k * kLanes);
  return rows;
}

// Visits a Gaussian, entry `index` of the list, in chunk k of some rows: adds to the sums of the columns and to those of
// the colours' gradients, and updates the block from behind the Gaussian to in front of it.
template <int C, class Sums, class Placed>
SPLAT_HD Sums walk_rows(const Placed& gaussian, uint32_t rows, int32_t index, int k, int channels, BackwardBlock& block,
                        Floats* v_color_sums) {
  const int used = C > 0 ? C : channels;
  Sums sums = {};
  for (; rows != 0; rows &= rows - 1) {
    const int row = __builtin_ctz(rows);
    BackwardRow& pixels = block.rows[row];
    // As in blend_row, to the last bit.
    const auto seen = view(gaussian, row, k);
    const Mask reached = within_limit(gaussian, seen.exponent) & at_least(pixels.last[k], index);
    if (kLanes < 16 && !any(reached)) continue;  // as in blend_row
    const Floats unclamped = gaussian.opacity * exp2_negative(seen.exponent);
    const Floats alpha = smaller(splat_lanes(block.max_alpha), unclamped);
    const Mask blended = reached & at_least(alpha, splat_lanes(kMinAlpha));

    // T_i = T / (1 - alpha) = T + T odds. Values that are not blended are replaced, not multiplied by zero, because
    // they may be infinite.
    const Floats odds = select(blended, alpha / (1.0f - alpha), Floats{});
    const Floats transmittance = pixels.transmittance[k];
    const Floats weight = odds * transmittance;
    const Floats* v_color = block.v_colors + static_cast<int64_t>(row * kChunks + k) * used;
    Floats product = shown(gaussian, seen, row, k, 0) * v_color[0];
    for (int c = 1; c < used; ++c) product = fused(shown(gaussian, seen, row, k, c), v_color[c], product);
    for (int c = 0; c < used; ++c) {
      const Floats v = by_color(gaussian, seen, row, k, c, v_color[c]);
      v_color_sums[c] = add_product_where(blended, weight, v, v_color_sums[c]);
    }
    const Floats behind = pixels.behind[k];
    const Floats light = transmittance * product;
    // alpha_i times the derivative by alpha_i: the derivative by its logarithm; none where alpha is clamped.
    const Mask differentiable = blended & at_least(splat_lanes(block.max_alpha), unclamped);
    const Floats s = select(differentiable, odds * (light - behind), Floats{});
    pixels.transmittance[k] = transmittance + weight;
    pixels.behind[k] = add_product_where(blended, odds, light, behind);
    add_slope(gaussian, seen, row, k, s, differentiable, sums);
    add_shown(gaussian, seen, row, k, weight, v_color, sums);
  }
  return sums;
}

// If C == 0, v_gaussian is scratch memory for the sums of the colours' gradients.
template <int C, class Sums, class Placed>
SPLAT_HD void walk_gaussian(const Placed& gaussian, uint32_t rows, int32_t index, int channels, BackwardBlock& block,
                            Floats* v_gaussian, bool add, float* slot) {
  constexpr int kShape = Sums::kCount;
  Floats values[kShape + C][kChunks];
  for (int k = 0; k < kChunks; ++k) {
    Floats* chunk = v_gaussian + static_cast<int64_t>(k) * channels;
    for (int c = 0; C == 0 && c < channels; ++c) chunk[c] = Floats{};
    Floats colors[C > 0 ? C : 1] = {};
    slot_values(gaussian, walk_rows<C, Sums>(gaussian, rows, index, k, channels, block, C > 0 ? colors : chunk), k,
                values);
    for (int c = 0; c < C; ++c) values[kShape + c][k] = colors[c];
  }
  add_to_slot<kShape + C>(values, add, slot);
  for (int c = 0; C == 0 && c < channels; ++c) {
    Floats color[1][kChunks];
    for (int k = 0; k < kChunks; ++k) color[0][k] = v_gaussian[static_cast<int64_t>(k) * channels + c];
    add_to_slot<1>(color, add, slot + kShape + c);
  }
}

template <int C, class Sums, class Batch, class Scene, class Pixels>
static int32_t walk_block(const Scene& scene, const BlockJob& job, const Pixels& places, const BlockGradients& gradients,
                          int32_t filled, float* scratch) {
  const int channels = C > 0 ? C : scene.channels;
  const int64_t size = Sums::kCount + channels;
  Floats* v_colors = reinterpret_cast<Floats*>(scratch);
  Floats* v_gaussian = v_colors + static_cast<int64_t>(kBlockSide) * kChunks * channels;
  BackwardBlock block;
  Batch batch;
  const int32_t last = start_backward<C>(scene, job, gradients, v_colors, block);
  for (int32_t end = last + 1; end > job.begin; end -= kBatch) {
    const int32_t start = end - job.begin < kBatch ? job.begin : end - kBatch;
    const int count = end - start;
    stage(scene, job, places, 0, start, count, batch);
    for (int i = count - 1; i >= 0; --i) {
      const int32_t index = start + i;
      float* slot = gradients.slots + index * size;
      if (const uint32_t rows = row_bits(batch, i) & rows_with(block, index)) {
        walk_gaussian<C, Sums>(place(batch, i, places), rows, index, channels, block, v_gaussian, index < filled, slot);
      } else if (index >= filled) {
        for (int j = 0; j < size; ++j) slot[j] = 0.0f;
      }
    }
  }
  return last + 1 > filled ? last + 1 : filled;
}

}  // namespace
}  // namespace SPLAT_ISA
}  // namespace splat
