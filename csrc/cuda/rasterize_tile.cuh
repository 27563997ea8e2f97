// What the kernels that go through a tile's list of Gaussians share: where its pixels are, how Gaussians are staged in
// shared memory, and which of them a warp processes.
#pragma once

#include "../math/blend.h"
#include "../math/rasterize_rows.h"
#include "../math/tile_reach.h"
#include "host_functions.h"
#include "warp.cuh"

namespace splat {
namespace kernels {

// A warp processes a patch of the tile's pixels, kLanePixels of a column for each lane: what depends only on the column
// is computed once for both. Pixels of the last patches may lie outside the tile.
constexpr int kPatchWidth = 8, kPatchHeight = 8, kLanePixels = 2;
static_assert(kPatchWidth * kPatchHeight == kWarp * kLanePixels, "a warp has a patch");

SPLAT_HD int patches_across(int tile_size) { return static_cast<int>(divide_up(tile_size, kPatchWidth)); }

SPLAT_HD int tile_threads(int tile_size) {
  return kWarp * patches_across(tile_size) * static_cast<int>(divide_up(tile_size, kPatchHeight));
}

// One warp of a launch for each patch of all tiles.
SPLAT_HD int64_t patch_threads(const RasterizeInputs& in) { return in.tiles * tile_threads(in.grid.tile_size); }

// The pixels of one thread, and the pixel centres of its warp's patch: [left, left + kPatchWidth - 1] and so on.
struct Pixels {
  int64_t index[kLanePixels];  // in [images, height, width]; only where it is inside
  bool inside[kLanePixels];    // of the tile and of the image
  float x, y[kLanePixels], left, top;
};

SPLAT_HD Pixels pixels_of(const RasterizeInputs& in, int64_t tile, int thread) {
  const TileOrigin origin = tile_origin(in.grid, tile);
  const int patch = thread / kWarp, lane = thread % kWarp, across = patches_across(in.grid.tile_size);
  const int patch_row = patch / across * kPatchHeight, patch_column = patch % across * kPatchWidth;
  const int column = patch_column + lane % kPatchWidth;
  Pixels pixels;
  pixels.x = static_cast<float>(origin.left + column) + 0.5f;
  pixels.left = static_cast<float>(origin.left + patch_column) + 0.5f;
  pixels.top = static_cast<float>(origin.top + patch_row) + 0.5f;
#pragma unroll
  for (int p = 0; p < kLanePixels; ++p) {
    const int row = patch_row + lane / kPatchWidth + p * (kPatchHeight / kLanePixels);
    pixels.index[p] = (origin.image * in.height + origin.top + row) * in.width + origin.left + column;
    pixels.inside[p] = row < in.grid.tile_size && column < in.grid.tile_size && origin.top + row < in.height &&
                       origin.left + column < in.width;
    pixels.y[p] = static_cast<float>(origin.top + row) + 0.5f;
  }
  return pixels;
}

SPLAT_HD int32_t list_position(const RasterizeInputs& in, int64_t tile) {
  const int32_t count = static_cast<int32_t>(in.intersections), offset = tile < in.tiles ? in.offsets[tile] : count;
  return offset < 0 ? 0 : (offset > count ? count : offset);
}

// Where the list that begins there ends: at the next tile's. The last one ends before what the lists have room for, by
// bisection, as that is kNoGaussian.
SPLAT_HD int32_t list_end(const RasterizeInputs& in, int64_t tile, int32_t begin) {
  const int32_t end = list_position(in, tile + 1);
  if (tile + 1 < in.tiles || begin >= end || in.flatten_ids[end - 1] >= 0) return end;
  // Without a sign, the numbers of all Gaussians are below kNoGaussian.
  const auto* ids = reinterpret_cast<const uint32_t*>(in.flatten_ids) + begin;
  return begin + static_cast<int32_t>(lower_bound(ids, end - begin, int64_t{1} << 31));
}

// The largest block. It is a launch bound of the kernels, together with at least 1 block per multiprocessor: without the
// latter ptxas uses fewer registers than there are, and spills.
constexpr int kMaxThreads = kWarp * (kMaxTileSize / kPatchWidth) * (kMaxTileSize / kPatchHeight);

struct ListRange {
  int32_t begin, end;
};

// The part of flatten_ids that a tile draws.
SPLAT_HD ListRange list_range(const RasterizeInputs& in, int64_t tile) {
  const int32_t begin = list_position(in, tile);
  if (in.masks != nullptr && !in.masks[tile]) return {begin, begin};
  return {begin, list_end(in, tile, begin)};
}

// A Gaussian as the kernels below need it. `stage_gaussians` computes it once; each tile whose list has it copies it to
// shared memory.
struct StagedGaussian {
  float x, y;
  ScaledConic conic;
  float opacity;
  float reach;  // if the exact exponent exceeds this, the computed alpha is below kMinAlpha; infinite if unknown
  int32_t id;
};

// Indices come from the caller and are not trusted: one that is out of range stands for an invisible Gaussian.
SPLAT_HD bool exists(const RasterizeInputs& in, int32_t id) { return id >= 0 && id < in.count; }

SPLAT_HD StagedGaussian invisible(int32_t id) { return {0.0f, 0.0f, {0.0f, 0.0f, 0.0f}, 0.0f, -1.0f, id}; }

// Precondition: the Gaussian exists.
SPLAT_HD StagedGaussian stage(const RasterizeInputs& in, int32_t id) {
  const int64_t i = id;
  const float x = in.means[2 * i], y = in.means[2 * i + 1];
  // At an infinite distance nothing is visible; 0 times that distance would be NaN.
  if (!is_finite(x) || !is_finite(y)) return invisible(id);
  const float a = in.conics[3 * i], b = in.conics[3 * i + 1], c = in.conics[3 * i + 2], opacity = in.opacities[i];
  const float limit = visible_exponent(opacity) + kExponentSlack;
  // As in tile_reach: inside the ellipse the largest term of the exponent is at most the exponent times a c / det.
  const float product = a * c, determinant = product - b * b;
  const bool elliptic = a > 0.0f && c > 0.0f && determinant > 16.0f * kExponentUlps * product;
  const float reach = elliptic ? limit * (1.0f + kExponentUlps * product / determinant) : __builtin_huge_valf();
  return {x, y, scaled_conic(a, b, c), opacity, reach, id};
}

// False only if the Gaussian is invisible in the whole patch, by the smallest exponent within the rectangle of the
// patch's pixel centres: it is 0 if the rectangle contains the Gaussian's centre, and otherwise lies on a side that
// faces it.
static __device__ __forceinline__ bool may_touch(const StagedGaussian& g, float left, float top) {
  const float low_x = left - g.x, low_y = top - g.y;
  const float high_x = low_x + static_cast<float>(kPatchWidth - 1), high_y = low_y + static_cast<float>(kPatchHeight - 1);
  // The point of the rectangle nearest to the centre in each coordinate.
  const float near_x = clamp(0.0f, low_x, high_x), near_y = clamp(0.0f, low_y, high_y);
  const float on_x = clamp(-0.5f * g.conic.b * near_y * reciprocal(g.conic.half_a), low_x, high_x);
  const float on_y = clamp(-0.5f * g.conic.b * near_x * reciprocal(g.conic.half_c), low_y, high_y);
  const float vertical = gaussian_exponent(near_x, on_y, g.conic), horizontal = gaussian_exponent(on_x, near_y, g.conic);
  return !(minimum(vertical, horizontal) > g.reach);
}

struct Blend {
  bool visible;
  float alpha;  // if it is visible
  float power;  // d alpha / d opacity then: alpha / opacity, or 0 if alpha is clamped
};

// The terms of an exponent that a column of pixels shares, at dx from the Gaussian's centre: it is
// (half_c dy + linear) dy + constant, rounded four times; gaussian_exponent rounds seven times, as the CPU does.
struct ColumnTerms {
  float linear, constant;
};

static __device__ __forceinline__ ColumnTerms column_terms(const ScaledConic& conic, float dx) {
  return {conic.b * dx, conic.half_a * dx * dx};
}

// The effect on a pixel of a Gaussian whose centre is at dy from it. The comparisons are false for NaN.
static __device__ __forceinline__ Blend blend_at(const StagedGaussian& g, const ColumnTerms& terms, float dy,
                                                 float max_alpha) {
  const float exponent = fused(fused(g.conic.half_c, dy, terms.linear), dy, terms.constant);
  const float power = power_of_two(-exponent), alpha = g.opacity * power;
  const bool clamped = alpha > max_alpha;
  return {exponent >= 0.0f && alpha >= kMinAlpha, clamped ? max_alpha : alpha, clamped ? 0.0f : power};
}

// Gaussians staged at a time. Fewer with more channels, so that several blocks fit on a multiprocessor.
template <int C>
constexpr int kBatch = C <= 4 ? 128 : 64;

// Two halves of a Gaussian. Blending needs the first half of StagedExtent.
struct alignas(16) StagedCentre {
  float x, y, half_a, b;
};
struct alignas(16) StagedExtent {
  float half_c, opacity, reach;
  int32_t id;
};
static_assert(sizeof(StagedCentre) == 16 && sizeof(StagedExtent) == 16, "as much as a lane reads at once");

// In global memory, as a sector of its own.
struct alignas(32) StagedRecord {
  StagedCentre centre;
  StagedExtent extent;
};
static_assert(sizeof(StagedRecord) == kStagedFloats * sizeof(float), "what the host allocates");

SPLAT_HD StagedRecord record_of(const StagedGaussian& g) {
  return {{g.x, g.y, g.conic.half_a, g.conic.b}, {g.conic.half_c, g.opacity, g.reach, g.id}};
}

// In shared memory, with the colours by four, three being padded. Each is an array of its own, so that lanes that read or
// write neighbours do so in different banks, and all are at the same distance from one address.
template <int C>
struct SharedBatch {
  StagedCentre centres[kBatch<C>];
  StagedExtent extents[kBatch<C>];
  alignas(16) float colors[(C + 3) / 4][kBatch<C>][4];
};

template <int C>
static __device__ __forceinline__ StagedGaussian staged(const SharedBatch<C>& batch, int i) {
  const StagedCentre centre = batch.centres[i];
  const StagedExtent extent = batch.extents[i];
  return {centre.x, centre.y, {centre.half_a, centre.b, extent.half_c}, extent.opacity, extent.reach, extent.id};
}

// Copies `count` Gaussians from position `start` of the lists, by all threads of the block, and the colours
// [first_channel, first_channel + channels) of each; the others of C are 0. The caller provides the barriers before and
// after.
template <int C>
static __device__ __forceinline__ void stage_batch(const RasterizeInputs& in, const StagedRecord* records,
                                                   int64_t start, int count, int64_t first_channel, int channels,
                                                   SharedBatch<C>& batch) {
  for (int i = static_cast<int>(threadIdx.x); i < count; i += static_cast<int>(blockDim.x)) {
    const int32_t id = in.flatten_ids[start + i];
    const StagedRecord record = exists(in, id) ? records[id] : record_of(invisible(id));
    batch.centres[i] = record.centre;
    batch.extents[i] = record.extent;
    const float* color = in.colors + static_cast<int64_t>(id) * in.channels + first_channel;
#pragma unroll
    for (int k = 0; k < C; ++k) batch.colors[k / 4][i][k % 4] = k < channels && exists(in, id) ? color[k] : 0.0f;
  }
}

// color . v for the channels [first, channels).
static __device__ __forceinline__ float dot_from(int first, int64_t channels, const float* color, const float* v) {
  float dot = 0.0f;
#pragma unroll(1)
  for (int64_t k = first; k < channels; ++k) dot = fused(color[k], v[k], dot);
  return dot;
}

}  // namespace kernels
}  // namespace splat
