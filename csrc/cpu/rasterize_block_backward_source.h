// Source of rasterize_block_backward; rasterize_lanes.h says how it is compiled.
//
// A pixel's colour is sum_i T_i alpha_i c_i + T_end background, with T_i the transmittance in front of Gaussian i. Its
// derivative by alpha_i is T_i c_i - B_i / (1 - alpha_i), where B_i is what everything behind i adds to the colour.
// Only the products of colours with the gradient v of the pixel matter, so B is one number per pixel, sum_c B_c v_c,
// for any number of channels. The walk goes from back to front: T_i = T_{i+1} / (1 - alpha_i).
#include "rasterize_lanes.h"

namespace splat {
namespace SPLAT_ISA {
namespace {

struct BackwardBlock {
  Floats transmittance[kBlockSide][kChunks];  // behind the Gaussians that have not been visited yet
  Floats behind[kBlockSide][kChunks];         // B, and the gradient of alpha = 1 - T_end
  Ints last[kBlockSide][kChunks];             // the entry of the list that was blended last, or -1
  Floats pixel_x[kChunks];
  int32_t row_last[kBlockSide];
  const Floats* v_colors;  // [16 rows, kChunks, channels]
};

// Where the walk begins. Returns the last entry of the list that any pixel needs.
template <int C>
SPLAT_HD int32_t start_backward(const BlockScene& scene, const BlockJob& job, const BlockGradients& in,
                                Floats* v_colors, BackwardBlock& block) {
  const int channels = C > 0 ? C : scene.channels;
  column_centres(job, block.pixel_x);
  block.v_colors = v_colors;
  int32_t block_last = -1;
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
      block.transmittance[row][k] = 1.0f - alphas[k];
      block.behind[row][k] = block.transmittance[row][k] * (background - v_alphas[k]);
    }
    int32_t row_last = -1;
    for (int column = 0; column < kBlockSide; ++column) {
      // This is not trusted either: it must be an entry of this list.
      const int32_t last = column < job.columns ? in.last[pixel + column] : -1;
      const int32_t kept = last < job.end ? last : job.end - 1;
      block.last[row][column / kLanes][column % kLanes] = kept;
      row_last = kept > row_last ? kept : row_last;
    }
    block.row_last[row] = row_last;
    block_last = row_last > block_last ? row_last : block_last;
  }
  return block_last;
}

// Sums over the block's rows, one for each column.
template <int C>
struct ColumnSums {
  Floats s, s_dy, s_dy2, absolute_x, absolute_y;
  Floats colors[C > 0 ? C : 1];
};

// The sum of the 16 columns, in an order that does not depend on kLanes.
SPLAT_HD float sum_columns(const Floats* columns) {
  typedef float Four __attribute__((vector_size(16)));
  Four quarters[4];
  __builtin_memcpy(quarters, columns, sizeof quarters);
  const Four sums = (quarters[0] + quarters[2]) + (quarters[1] + quarters[3]);
  return (sums[0] + sums[2]) + (sums[1] + sums[3]);
}

// Visits Gaussian i of the batch, entry `index` of the list, in chunk k of each row: adds to the sums of the columns,
// and updates the block from behind the Gaussian to in front of it. If C == 0, v_gaussian receives the sums of the
// colours' gradients.
template <int C, bool kAbsolute>
SPLAT_HD ColumnSums<C> walk_rows(const BlockJob& job, const BlockBatch& batch, int i, int32_t index, int k, int channels,
                                 BackwardBlock& block, Floats* v_gaussian) {
  const int used = C > 0 ? C : channels;
  const ScaledConic conic = {batch.half_a[i], batch.b[i], batch.half_c[i]};
  const float* color = batch.colors[i];
  const Floats dx = batch.x[i] - block.pixel_x[k];
  ColumnSums<C> sums = {};
  Floats* v_color_sums = C > 0 ? sums.colors : v_gaussian;
  for (int row = batch.row_begin[i]; row < batch.row_end[i]; ++row) {
    if (index > block.row_last[row]) continue;
    const float dy = batch.y[i] - (static_cast<float>(job.top + row) + 0.5f);
    // As in blend_row, to the last bit.
    const Floats exponent = gaussian_exponent(dx, dy, conic);
    const Mask reached = at_least(exponent, Floats{}) & at_least(splat_lanes(batch.limit[i]), exponent) &
                         at_least(block.last[row][k], index);
    if (kLanes < 16 && !any(reached)) continue;  // as in blend_row
    const Floats unclamped = batch.opacity[i] * exp2_negative(exponent);
    const Floats largest = splat_lanes(kMaxAlpha);
    const Mask clamped = greater(unclamped, largest);
    const Floats alpha = select(clamped, largest, unclamped);
    const Mask blended = reached & at_least(alpha, splat_lanes(kMinAlpha));

    // T_i = T / (1 - alpha) = T + T odds. Values that are not blended are replaced, not multiplied by zero, because
    // they may be infinite.
    const Floats odds = select(blended, alpha / (1.0f - alpha), Floats{});
    const Floats transmittance = block.transmittance[row][k];
    const Floats weight = odds * transmittance;
    const Floats* v_color = block.v_colors + static_cast<int64_t>(row * kChunks + k) * used;
    Floats product = color[0] * v_color[0];
    for (int c = 1; c < used; ++c) product += color[c] * v_color[c];
    for (int c = 0; c < used; ++c) v_color_sums[c] += select(blended, weight * v_color[c], Floats{});
    const Floats behind = block.behind[row][k];
    const Floats light = transmittance * product;
    // alpha_i times the derivative by alpha_i: the derivative by its logarithm.
    const Mask differentiable = blended & ~clamped;
    const Floats s = select(differentiable, odds * (light - behind), Floats{});
    block.transmittance[row][k] = transmittance + weight;
    block.behind[row][k] = select(blended, behind + odds * light, behind);

    const Floats s_dy = s * dy;
    sums.s += s;
    sums.s_dy += s_dy;
    sums.s_dy2 += s_dy * dy;
    if (kAbsolute) {
      const Floats x = s * (2.0f * conic.half_a * dx + conic.b * dy), y = s * (conic.b * dx + 2.0f * conic.half_c * dy);
      sums.absolute_x += select(differentiable, magnitude(x), Floats{});
      sums.absolute_y += select(differentiable, magnitude(y), Floats{});
    }
  }
  return sums;
}

template <int C, bool kAbsolute>
SPLAT_HD void walk_gaussian(const BlockJob& job, const BlockBatch& batch, int i, int32_t index, int channels,
                            BackwardBlock& block, Floats* v_gaussian, bool add, float* slot) {
  const int used = C > 0 ? C : channels;
  constexpr int kShape = kMoments + (kAbsolute ? 2 : 0);
  Floats moments[kMoments + 2][kChunks];
  Floats colors[C > 0 ? C : 1][kChunks];
  for (int k = 0; k < kChunks; ++k) {
    Floats* chunk = v_gaussian + static_cast<int64_t>(k) * used;
    if (C == 0) {
      for (int c = 0; c < used; ++c) chunk[c] = Floats{};
    }
    const ColumnSums<C> sums = walk_rows<C, kAbsolute>(job, batch, i, index, k, channels, block, chunk);
    const Floats dx = batch.x[i] - block.pixel_x[k];
    moments[0][k] = sums.s;
    moments[1][k] = sums.s * dx;
    moments[2][k] = sums.s_dy;
    moments[3][k] = sums.s * dx * dx;
    moments[4][k] = sums.s_dy * dx;
    moments[5][k] = sums.s_dy2;
    moments[6][k] = sums.absolute_x;
    moments[7][k] = sums.absolute_y;
    for (int c = 0; c < C; ++c) colors[c][k] = sums.colors[c];
  }
  for (int j = 0; j < kShape; ++j) {
    float sum = sum_columns(moments[j]);
    if (kAbsolute && j >= kMoments) sum *= 1.0f / kLog2E;
    slot[j] = add ? slot[j] + sum : sum;
  }
  for (int c = 0; c < used; ++c) {
    Floats gathered[kChunks];
    for (int k = 0; k < kChunks; ++k) gathered[k] = C > 0 ? colors[c][k] : v_gaussian[static_cast<int64_t>(k) * used + c];
    const float sum = sum_columns(gathered);
    slot[kShape + c] = add ? slot[kShape + c] + sum : sum;
  }
}

template <int C, bool kAbsolute>
static int32_t walk_block(const BlockScene& scene, const BlockJob& job, const BlockGradients& gradients,
                          int32_t filled, float* scratch) {
  const int channels = C > 0 ? C : scene.channels;
  const int64_t size = kMoments + (kAbsolute ? 2 : 0) + channels;
  Floats* v_colors = reinterpret_cast<Floats*>(scratch);
  Floats* v_gaussian = v_colors + static_cast<int64_t>(kBlockSide) * kChunks * channels;
  BackwardBlock block;
  BlockBatch batch;
  const int32_t last = start_backward<C>(scene, job, gradients, v_colors, block);
  for (int32_t end = last + 1; end > job.begin; end -= kBatch) {
    const int32_t start = end - job.begin < kBatch ? job.begin : end - kBatch;
    const int count = end - start;
    stage(scene, job, 0, start, count, batch);
    for (int i = count - 1; i >= 0; --i) {
      const int32_t index = start + i;
      float* slot = gradients.slots + index * size;
      if (batch.row_begin[i] < batch.row_end[i]) {
        walk_gaussian<C, kAbsolute>(job, batch, i, index, channels, block, v_gaussian, index < filled, slot);
      } else if (index >= filled) {
        for (int j = 0; j < size; ++j) slot[j] = 0.0f;
      }
    }
  }
  return last + 1 > filled ? last + 1 : filled;
}

template <bool kAbsolute>
SPLAT_HD int32_t walk(const BlockScene& scene, const BlockJob& job, const BlockGradients& gradients, int32_t filled,
                      float* scratch) {
  switch (scene.channels) {
    case 1:
      return walk_block<1, kAbsolute>(scene, job, gradients, filled, scratch);
    case 3:
      return walk_block<3, kAbsolute>(scene, job, gradients, filled, scratch);
    case 4:
      return walk_block<4, kAbsolute>(scene, job, gradients, filled, scratch);
    default:
      return walk_block<0, kAbsolute>(scene, job, gradients, filled, scratch);
  }
}

}  // namespace

// Writes the slots of the entries [filled, result) of the tile's list and adds to those of [job.begin, filled). No
// pixel of the block needs entry `result` or a later one.
int32_t rasterize_block_backward(const BlockScene& scene, const BlockJob& job, const BlockGradients& gradients,
                                 int32_t filled, float* scratch) {
  return gradients.absolute ? walk<true>(scene, job, gradients, filled, scratch)
                            : walk<false>(scene, job, gradients, filled, scratch);
}

}  // namespace SPLAT_ISA
}  // namespace splat
