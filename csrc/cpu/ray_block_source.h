// Source of rasterize_rays and rasterize_rays_backward; lanes.h says how it is compiled. Blending is rasterize_block's, and
// the walk backwards too: here is what a block of rays is, which of its rows a Gaussian can change, and its exponent.
#include "rasterize_block_backward_source.h"
#include "rasterize_block_source.h"
#include "ray_block.h"

namespace splat {
namespace SPLAT_ISA {
namespace {

struct BlockRays {
  Floats rays[kBlockSide][kChunks * 6];  // for each chunk, origins, from the image's, and directions
  uint32_t rows;                         // those that the block has, one bit each
  bool moving;                           // whether any origin is another
  // The directions of a row, a lane for each: middle + t half, -1 <= t <= 1, but for what is shorter than `rest`.
  Floats middle[kChunks][3], half[kChunks][3];
  float rest;
  int distance, normal;                 // the channels of AlongRaysInputs, after the first of a pass
  Floats lengths[kBlockSide][kChunks];  // of directions, if there is such a distance
};

// For ray_gaussian.h: `a` is one number, or a vector.
constexpr auto kFused = [](auto a, Floats b, Floats c) { return fused(a - Floats{}, b, c); };

SPLAT_HD Floats squared_length(const Floats* v) { return v[0] * v[0] + v[1] * v[1] + v[2] * v[2]; }

constexpr float kLargest = 3.402823466e+38f;

// Where there is a ray.
SPLAT_HD Mask ray_exists(const Floats* ray) {
  const Floats length2 = squared_length(ray + 3);
  return greater(length2, Floats{}) & at_least(splat_lanes(kLargest), length2);
}

SPLAT_HD Floats larger(Floats a, Floats b) { return -smaller(-a, -b); }

SPLAT_HD float largest(Floats values) {
  float most = 0.0f;
  for (int lane = 0; lane < kLanes; ++lane) most = maximum(values[lane], most);
  return most;
}

[[gnu::noinline]] static void load_rays(const RayScene& scene, const BlockJob& job, BlockRays& block) {
  const AlongRaysInputs& in = *scene.in;
  const Vec3 shared = image_origin(in, job.first_pixel / (static_cast<int64_t>(in.lists.width) * in.lists.height));
  const float from[3] = {shared.x, shared.y, shared.z};
  block.rows = (1u << job.rows) - 1;
  block.moving = false;
  Floats columns[kChunks], error = {}, longest = {};
  for (int k = 0; k < kChunks; ++k) {
    for (int j = 0; j < 3; ++j) block.middle[k][j] = block.half[k][j] = Floats{};
  }
  for (int column = 0; column < kBlockSide; ++column) {
    const float last = static_cast<float>(job.columns - 1);
    columns[column / kLanes][column % kLanes] = last > 0.0f ? 2.0f * static_cast<float>(column) / last - 1.0f : 0.0f;
  }
  for (int row = 0; row < kBlockSide; ++row) {
    Floats* rays = block.rays[row];
    for (int j = 0; j < kChunks * 6; ++j) rays[j] = Floats{};
    if (row >= job.rows) continue;
    load_row<6>(ray_of(in, job.first_pixel + (job.top + row) * scene.image_width + job.left), 6, job.columns, 6, rays);
    float middle[3], half[3];
    for (int j = 0; j < 3; ++j) {
      const int last = job.columns - 1;
      const float begin = rays[3 + j][0], end = rays[6 * (last / kLanes) + 3 + j][last % kLanes];
      block.middle[row / kLanes][j][row % kLanes] = middle[j] = 0.5f * (begin + end);
      block.half[row / kLanes][j][row % kLanes] = half[j] = 0.5f * (end - begin);
    }
    for (int k = 0; k < kChunks; ++k) {
      Floats *ray = rays + 6 * k, off[3];
      // A ray that is not finite is none.
      const Mask drawn = at_least(splat_lanes(kLargest), squared_length(ray)) & ray_exists(ray);
      for (int j = 0; j < 3; ++j) {
        ray[j] = select(drawn, ray[j] - from[j], Floats{});
        ray[3 + j] = select(drawn, ray[3 + j], Floats{});
        off[j] = ray[3 + j] - (middle[j] + columns[k] * half[j]);
      }
      block.moving |= any(greater(squared_length(ray), Floats{}));
      error = larger(error, select(at_least(splat_lanes(1.0f), columns[k]), squared_length(off), Floats{}));
      longest = larger(longest, squared_length(ray + 3));
    }
  }
  // With what rounding may add to the products of directions.
  block.rest = 1.001f * square_root(largest(error)) + 4e-6f * square_root(largest(longest));
}

// Pixels without a direction are finished.
SPLAT_HD Floats start_transmittance(const BlockRays& block, const BlockJob& job, int row, int k) {
  return select(ray_exists(block.rays[row] + 6 * k), start_transmittance(job, row, k), splat_lanes(-1.0f));
}

// The rows of the block that a Gaussian can change: those of which a ray may come near enough.
SPLAT_HD uint32_t ray_rows(const RayGaussian& g, const BlockRays& block) {
  if (!(g.limit >= 0.0f)) return 0;
  uint32_t beyond = 0;
  for (int k = 0; k < kChunks && !block.moving; ++k) {
    const Floats *middle = block.middle[k], *half = block.half[k];
    const Floats x = dot(g.a, middle, kFused), y = dot(g.b, middle, kFused);
    const Floats along_x = dot(g.a, half, kFused), along_y = dot(g.b, half, kFused);
    const Floats t = -(x * along_x + y * along_y) / (along_x * along_x + along_y * along_y + 1e-30f);
    const Floats nearest = larger(splat_lanes(-1.0f), smaller(splat_lanes(1.0f), t));
    const Floats near_x = x + nearest * along_x, near_y = y + nearest * along_y;
    const Floats depth = magnitude(dot(g.c, middle, kFused)) + magnitude(dot(g.c, half, kFused));
    const Floats bound = g.reach * depth + g.margin * block.rest;
    beyond |= bits(greater(near_x * near_x + near_y * near_y, bound * bound)) << (k * kLanes);
  }
  return block.rows & ~beyond;
}

// Returns whether a pass from `first_channel` on has channels that are not only colours.
SPLAT_HD bool begin_shown(const RayScene& scene, int first_channel, BlockRays& block) {
  const int64_t distance = scene.in->distance_channel, normal = scene.in->normal_channel;
  block.distance = static_cast<int>(distance) - first_channel;
  block.normal = static_cast<int>(normal < 0 ? scene.channels : normal) - first_channel;
  for (int at = 0; at < kBlockSide * kChunks && distance >= 0; ++at) {
    const Floats length2 = squared_length(block.rays[at / kChunks] + 6 * (at % kChunks) + 3);
    for (int lane = 0; lane < kLanes; ++lane) block.lengths[at / kChunks][at % kChunks][lane] = square_root(length2[lane]);
  }
  return distance >= 0 || normal >= 0;
}

// kShown: whether some channels are not only colours; with kMoving.
template <bool kMoving, bool kShown>
struct RayBatch {
  const RayGaussian* gaussians[kBatch];
  const float* colors[kBatch];
  uint32_t rows[kBatch];
};

template <bool kMoving, bool kShown>
[[gnu::noinline]] static void stage(const RayScene& scene, const BlockJob&, const BlockRays& block, int first_channel,
                                    int32_t start, int count, RayBatch<kMoving, kShown>& batch) {
  for (int i = 0; i < count; ++i) __builtin_prefetch(scene.gaussians + scene.flatten_ids[start + i]);
  for (int i = 0; i < count; ++i) {
    const int64_t id = scene.flatten_ids[start + i];
    batch.gaussians[i] = scene.gaussians + id;
    batch.colors[i] = scene.colors + id * scene.channels + first_channel;
    batch.rows[i] = ray_rows(scene.gaussians[id], block);
    __builtin_prefetch(batch.colors[i]);
  }
}

template <bool kMoving, bool kShown>
SPLAT_HD uint32_t row_bits(const RayBatch<kMoving, kShown>& batch, int i) {
  return batch.rows[i];
}

template <bool kMoving, bool kShown>
struct PlacedRays {
  RayGaussian gaussian;
  const BlockRays* block;
  float opacity, limit;
  const float* color;
};

template <bool kMoving, bool kShown>
SPLAT_HD PlacedRays<kMoving, kShown> place(const RayBatch<kMoving, kShown>& batch, int i, const BlockRays& block) {
  const RayGaussian& gaussian = *batch.gaussians[i];
  return {gaussian, &block, gaussian.opacity, gaussian.limit, batch.colors[i]};
}

template <bool kMoving, bool kShown>
SPLAT_HD RayView<Floats> view(const PlacedRays<kMoving, kShown>& placed, int row, int k) {
  return view_along<kMoving>(placed.gaussian, placed.block->rays[row] + 6 * k, kFused);
}

struct RaySums {
  static constexpr int kCount = kRaySums;
  Floats values[kRaySums];
};

// Values that do not count are replaced, not multiplied by zero: they may be infinite.
template <bool kMoving>
SPLAT_HD RayView<Floats> kept_where(Mask counts, const RayView<Floats>& seen) {
  const auto kept = [&](Floats x) { return select(counts, x, Floats{}); };
  RayView<Floats> view = seen;
  view.inverse = kept(seen.inverse);
  view.squared = kept(seen.squared);
  if (kMoving) {
    view.g = {kept(seen.g.x), kept(seen.g.y), kept(seen.g.z)};
    view.u = {kept(seen.u.x), kept(seen.u.y), kept(seen.u.z)};
    view.across = {kept(seen.across.x), kept(seen.across.y), kept(seen.across.z)};
  }
  return view;
}

template <bool kMoving, bool kShown>
SPLAT_HD void add_slope(const PlacedRays<kMoving, kShown>& placed, const RayView<Floats>& seen, int row, int k, Floats s,
                        Mask differentiable, RaySums& sums) {
  const RayView<Floats> view = kept_where<kMoving>(differentiable, seen);
  add_ray_sums<kMoving>(placed.gaussian, view, placed.block->rays[row] + 6 * k, s, sums.values, kFused);
}

using ShownRays = PlacedRays<true, true>;

SPLAT_HD bool is_normal(const ShownRays& placed, int c) { return static_cast<unsigned>(c - placed.block->normal) < 3; }

// Where a normal is that of the side which the ray comes from.
SPLAT_HD Mask faces(const ShownRays& placed, int row, int k) {
  const float* n = placed.color + placed.block->normal;
  return at_least(Floats{}, dot(Vec3{n[0], n[1], n[2]}, placed.block->rays[row] + 6 * k + 3, kFused));
}

// Nothing where that is not finite: weights of 0 are multiplied too.
SPLAT_HD Floats shown(const ShownRays& placed, const RayView<Floats>& seen, int row, int k, int c) {
  const BlockRays& block = *placed.block;
  if (c == block.distance) {
    const Floats distance = magnitude(nearest_behind(seen)) * block.lengths[row][k];
    return select(at_least(splat_lanes(kLargest), distance), distance, Floats{});
  }
  const Floats color = splat_lanes(placed.color[c]);
  return is_normal(placed, c) ? select(faces(placed, row, k), color, -color) : color;
}

SPLAT_HD Floats by_color(const ShownRays& placed, const RayView<Floats>&, int row, int k, int c, Floats v_shown) {
  if (c == placed.block->distance) return Floats{};
  return is_normal(placed, c) ? select(faces(placed, row, k), v_shown, -v_shown) : v_shown;
}

SPLAT_HD void add_shown(const ShownRays& placed, const RayView<Floats>& seen, int row, int k, Floats weight,
                        const Floats* v_shown, RaySums& sums) {
  const BlockRays& block = *placed.block;
  if (block.distance < 0) return;
  const Floats slope = weight * v_shown[block.distance] * block.lengths[row][k];
  const RayView<Floats> view = kept_where<true>(greater(weight, Floats{}), seen);
  add_nearest_sums(view, block.rays[row] + 6 * k, negate_where(greater(Floats{}, nearest_behind(view)), slope),
                   sums.values, kFused);
}

template <bool kMoving, bool kShown>
SPLAT_HD void slot_values(const PlacedRays<kMoving, kShown>&, const RaySums& sums, int k, Floats (*values)[kChunks]) {
  for (int j = 0; j < kRaySums; ++j) values[j][k] = sums.values[j];
}

}  // namespace

void rasterize_rays(const RayScene& scene, const BlockJob& job, const BlockImages& images) {
  BlockRays block;
  load_rays(scene, job, block);
  for (int first = 0; first < scene.channels; first += kMaxChannels) {
    const int channels = scene.channels - first < kMaxChannels ? scene.channels - first : kMaxChannels;
    if (begin_shown(scene, first, block)) {
      rasterize_channels<0, RayBatch<true, true>>(scene, job, block, images, first, channels);
    } else if (block.moving) {
      rasterize_channels<0, RayBatch<true, false>>(scene, job, block, images, first, channels);
    } else if (channels == 3) {
      rasterize_channels<3, RayBatch<false, false>>(scene, job, block, images, first, channels);
    } else {
      rasterize_channels<0, RayBatch<false, false>>(scene, job, block, images, first, channels);
    }
  }
}

// As rasterize_block_backward.
int32_t rasterize_rays_backward(const RayScene& scene, const BlockJob& job, const BlockGradients& gradients,
                                int32_t filled, float* scratch) {
  BlockRays block;
  load_rays(scene, job, block);
  if (begin_shown(scene, 0, block)) {
    return walk_block<0, RaySums, RayBatch<true, true>>(scene, job, block, gradients, filled, scratch);
  }
  if (block.moving) return walk_block<0, RaySums, RayBatch<true, false>>(scene, job, block, gradients, filled, scratch);
  if (scene.channels == 3) {
    return walk_block<3, RaySums, RayBatch<false, false>>(scene, job, block, gradients, filled, scratch);
  }
  return walk_block<0, RaySums, RayBatch<false, false>>(scene, job, block, gradients, filled, scratch);
}

}  // namespace SPLAT_ISA
}  // namespace splat
