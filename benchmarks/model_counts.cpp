// Follows the rasterizers' loops on the CPU, ours and gsplat 1.5.3's, and counts how often a warp goes through each of
// their parts. A part that some lane of a warp executes is counted once for the warp: the other lanes wait.
//
// Staging, testing and blending are the kernels' own functions (csrc/cuda/rasterize_tile.cuh); only the loops around
// them are written again here. gsplat's loops blend with the same functions, so that both renderers blend the same
// Gaussians for a pixel; its lists, blocks and votes are its own. model_counts.py loads this as a library.
#include <stdint.h>

#include <algorithm>

// What rasterize_tile.cuh takes from CUDA, in functions that are not called here.
#define __device__
#define __forceinline__ inline
struct Index {
  unsigned int x;
};
static const Index threadIdx = {0}, blockIdx = {0}, blockDim = {1};
static inline void atomicAdd(float* to, float value) { *to += value; }

#include "../csrc/cuda/rasterize_tile.cuh"

using splat::RasterizeInputs;
using namespace splat::kernels;

// As model_counts.Trips says; in the same order.
struct Trips {
  int64_t warps, gathered, batches, stagings, tests, steps, exponentials, visible, blending, pixel_blends;
};

namespace {

// Of both: gsplat has a thread for each pixel, and stages one Gaussian with each.
constexpr int kMostPixels = 1024;
constexpr int kSplatBatch = kBatch<3>;

struct Tile {
  ListRange range;
  int threads;
  Pixel pixels[kMostPixels];  // by thread
  bool finished[kMostPixels];
  float transmittance[kMostPixels];
  int32_t last[kMostPixels];
};

int warps_of(const Tile& tile) { return static_cast<int>(splat::divide_up(tile.threads, kWarp)); }

Tile open_tile(const RasterizeInputs& in, int64_t number, int threads,
               Pixel (*pixel)(const RasterizeInputs&, int64_t, int)) {
  Tile tile;
  tile.range = list_range(in, number);
  tile.threads = threads;
  for (int i = 0; i < threads; ++i) {
    tile.pixels[i] = pixel(in, number, i);
    tile.finished[i] = !tile.pixels[i].inside;
    tile.transmittance[i] = 1.0f;
    tile.last[i] = 0;
  }
  return tile;
}

// gsplat's threads number the pixels of a tile row by row.
Pixel pixel_by_rows(const RasterizeInputs& in, int64_t tile, int thread) {
  const splat::TileOrigin origin = splat::tile_origin(in.grid, tile);
  const int column = origin.left + thread % in.grid.tile_size, row = origin.top + thread / in.grid.tile_size;
  const float x = static_cast<float>(column) + 0.5f, y = static_cast<float>(row) + 0.5f;
  return {(origin.image * in.height + row) * in.width + column, column < in.width && row < in.height, x, y, x, y};
}

Blend blend_of(const StagedGaussian& g, const Pixel& pixel) { return blend_at(g, g.x - pixel.x, g.y - pixel.y); }

bool is_computed(const Blend& blend) { return blend.alpha != 0.0f || blend.power != 0.0f; }

bool all_finished(const Tile& tile, int first, int count) {
  return std::all_of(tile.finished + first, tile.finished + first + count, [](bool finished) { return finished; });
}

// One Gaussian for the pixels of a warp, in the forward pass. With `skips`, as in our kernel, every lane looks at the
// exponent, and those compute the exponential for which it is not too large; without, as in gsplat's, all that have not
// finished do.
void blend_step(Tile& tile, int warp, const StagedGaussian& g, int64_t position, bool skips, Trips& trips) {
  bool computed = !skips, visible = false, blends = false;
  for (int i = warp * kWarp; i < std::min((warp + 1) * kWarp, tile.threads); ++i) {
    if (tile.finished[i] && !skips) continue;
    const Blend blend = blend_of(g, tile.pixels[i]);
    computed |= is_computed(blend);
    if (tile.finished[i] || blend.alpha == 0.0f) continue;
    visible = true;
    const float next = tile.transmittance[i] * (1.0f - blend.alpha);
    if (next <= splat::kMinTransmittance) {
      tile.finished[i] = true;
      continue;
    }
    blends = true;
    ++trips.pixel_blends;
    tile.transmittance[i] = next;
    tile.last[i] = static_cast<int32_t>(position);
  }
  ++trips.steps;
  trips.exponentials += computed;
  trips.visible += visible;
  trips.blending += blends;
}

// The same in the backward pass, where a pixel takes part up to its last Gaussian. Without `skips`, all lanes that take
// part compute the exponential.
void gradient_step(const Tile& tile, int warp, const StagedGaussian& g, int64_t position, bool skips, Trips& trips) {
  bool computed = false, blends = false;
  for (int i = warp * kWarp; i < std::min((warp + 1) * kWarp, tile.threads); ++i) {
    const bool takes_part = tile.pixels[i].inside && position <= tile.last[i];
    if (!takes_part && !skips) continue;
    const Blend blend = blend_of(g, tile.pixels[i]);
    computed |= !skips || is_computed(blend);
    if (!takes_part || blend.alpha == 0.0f) continue;
    blends = true;
    ++trips.pixel_blends;
  }
  ++trips.steps;
  trips.exponentials += computed;
  trips.visible += blends;
  trips.blending += blends;
}

int32_t last_of(const Tile& tile, int first, int count) {
  int32_t last = -1;
  for (int i = first; i < std::min(first + count, tile.threads); ++i) {
    if (tile.pixels[i].inside) last = std::max(last, tile.last[i]);
  }
  return last;
}

// Stages `count` Gaussians from position `start` of the lists; a warp stages with the threads that it has for them.
void stage_all(const RasterizeInputs& in, int64_t start, int count, int warps, StagedGaussian* batch, Trips& trips) {
  for (int i = 0; i < count; ++i) batch[i] = stage(in, in.flatten_ids[start + i]);
  trips.batches += warps;
  trips.gathered += count;
  trips.stagings += splat::divide_up(count, kWarp);
}

void splat_forward(const RasterizeInputs& in, Tile& tile, Trips& trips) {
  StagedGaussian batch[kSplatBatch];
  const int warps = warps_of(tile);
  trips.warps += warps;
  for (int64_t start = tile.range.begin; start < tile.range.end; start += kSplatBatch) {
    if (all_finished(tile, 0, tile.threads)) break;
    const int count = static_cast<int>(std::min<int64_t>(tile.range.end - start, kSplatBatch));
    stage_all(in, start, count, warps, batch, trips);
    for (int warp = 0; warp < warps; ++warp) {
      const Pixel& pixel = tile.pixels[warp * kWarp];
      for (int first = 0; first < count && !all_finished(tile, warp * kWarp, kWarp); first += kWarp) {
        ++trips.tests;
        // Each lane tests before the warp blends any.
        for (int i = first; i < std::min(first + kWarp, count); ++i) {
          if (may_touch(batch[i], pixel.left, pixel.top)) blend_step(tile, warp, batch[i], start + i, true, trips);
        }
      }
    }
  }
}

void splat_backward(const RasterizeInputs& in, const Tile& tile, Trips& trips) {
  StagedGaussian batch[kSplatBatch];
  const int warps = warps_of(tile);
  trips.warps += warps;
  const int64_t end = std::max<int64_t>(tile.range.begin,
                               std::min<int64_t>(tile.range.end, int64_t{last_of(tile, 0, tile.threads)} + 1));
  for (int64_t batch_end = end; batch_end > tile.range.begin; batch_end -= kSplatBatch) {
    const int64_t start = std::max<int64_t>(tile.range.begin, batch_end - kSplatBatch);
    const int count = static_cast<int>(batch_end - start);
    stage_all(in, start, count, warps, batch, trips);
    for (int warp = 0; warp < warps; ++warp) {
      const Pixel& pixel = tile.pixels[warp * kWarp];
      const int64_t latest = last_of(tile, warp * kWarp, kWarp) - start;
      for (int tested_end = count; tested_end > 0; tested_end -= kWarp) {
        ++trips.tests;
        for (int i = tested_end - 1; i >= std::max(0, tested_end - kWarp); --i) {
          if (i <= latest && may_touch(batch[i], pixel.left, pixel.top)) {
            gradient_step(tile, warp, batch[i], start + i, true, trips);
          }
        }
      }
    }
  }
}

// One Gaussian for each thread at a time; a warp goes on until all of its lanes are finished, the block until all warps
// are.
void gsplat_forward(const RasterizeInputs& in, Tile& tile, Trips& trips) {
  StagedGaussian batch[kMostPixels];
  const int warps = warps_of(tile);
  trips.warps += warps;
  for (int64_t start = tile.range.begin; start < tile.range.end; start += tile.threads) {
    if (all_finished(tile, 0, tile.threads)) break;
    const int count = static_cast<int>(std::min<int64_t>(tile.range.end - start, tile.threads));
    stage_all(in, start, count, warps, batch, trips);
    for (int warp = 0; warp < warps; ++warp) {
      const int lanes = std::min(kWarp, tile.threads - warp * kWarp);
      for (int i = 0; i < count && !all_finished(tile, warp * kWarp, lanes); ++i) {
        blend_step(tile, warp, batch[i], start + i, false, trips);
      }
    }
  }
}

// From the end of the list, all batches; a warp begins with the last Gaussian of its pixels. A pixel that blends none
// has position 0 of all lists as its last, and one outside of the image too.
void gsplat_backward(const RasterizeInputs& in, const Tile& tile, Trips& trips) {
  StagedGaussian batch[kMostPixels];
  const int warps = warps_of(tile);
  trips.warps += warps;
  for (int64_t end = tile.range.end; end > tile.range.begin; end -= tile.threads) {
    const int64_t start = std::max<int64_t>(tile.range.begin, end - tile.threads);
    const int count = static_cast<int>(end - start);
    stage_all(in, start, count, warps, batch, trips);
    for (int warp = 0; warp < warps; ++warp) {
      const int64_t latest = std::max(0, last_of(tile, warp * kWarp, kWarp));
      for (int64_t i = std::min(end - 1, latest); i >= start; --i) {
        gradient_step(tile, warp, batch[i - start], i, false, trips);
      }
    }
  }
}

}  // namespace

// Both passes over all tiles of one image, by the loops of gsplat or by ours. Adds to forward and backward; writes the
// alphas of the pixels [height, width].
extern "C" void follow(bool gsplat, const float* means, const float* conics, const float* opacities,
                       const int32_t* offsets, const int32_t* flatten_ids, int64_t count, int64_t intersections,
                       int width, int height, int tile_size, Trips* forward, Trips* backward, float* alphas) {
  const splat::TileGrid grid = {tile_size, static_cast<int>(splat::divide_up(width, tile_size)),
                                static_cast<int>(splat::divide_up(height, tile_size))};
  const int64_t tiles = splat::tiles_per_image(grid);
  const RasterizeInputs in = {means, conics, nullptr, opacities, nullptr, nullptr, offsets, flatten_ids,
                              count, 3,      intersections, tiles, width, height,  grid};
  for (int64_t number = 0; number < tiles; ++number) {
    Tile tile = gsplat ? open_tile(in, number, tile_size * tile_size, pixel_by_rows)
                       : open_tile(in, number, tile_threads(tile_size), pixel_of);
    if (gsplat) {
      gsplat_forward(in, tile, *forward);
      gsplat_backward(in, tile, *backward);
    } else {
      splat_forward(in, tile, *forward);
      splat_backward(in, tile, *backward);
    }
    for (int i = 0; i < tile.threads; ++i) {
      if (tile.pixels[i].inside) alphas[tile.pixels[i].index] = 1.0f - tile.transmittance[i];
    }
  }
}
