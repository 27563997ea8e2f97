// splat::intersect on the CPU.
//
// Instead of sorting all pairs of Gaussian and tile, the Gaussians are sorted once, by depth, and their pairs are then
// distributed in that order by a counting sort over the tiles of all images. Both sorts are stable, so the order is the
// same for any number of threads.
#include <algorithm>
#include <numeric>
#include <tuple>
#include <vector>

#include <torch/csrc/stable/library.h>

#include "../intersect_operands.h"
#include "parallel.h"

namespace splat {
namespace {

struct DepthEntry {
  uint32_t key;  // bits of the depth
  int32_t index;
};

// Sorts by the keys; stable.
void radix_sort(std::vector<DepthEntry>& entries) {
  constexpr int kDigit = 11;
  std::vector<DepthEntry> other(entries.size());
  for (int shift = 0; shift < 32; shift += kDigit) {
    constexpr uint32_t kMask = (1u << kDigit) - 1;
    std::vector<int64_t> start((1u << kDigit) + 1, 0);
    for (const DepthEntry& entry : entries) ++start[(entry.key >> shift & kMask) + 1];
    for (size_t digit = 1; digit < start.size(); ++digit) start[digit] += start[digit - 1];
    for (const DepthEntry& entry : entries) other[start[entry.key >> shift & kMask]++] = entry;
    entries.swap(other);
  }
}

// The indices of the Gaussians that were not culled, ordered by depth, then index.
std::vector<DepthEntry> sorted_by_depth(const IntersectInputs& in) {
  std::vector<DepthEntry> entries;
  for (int64_t i = 0; i < in.count; ++i) {
    if (in.radii[2 * i] > 0 && in.radii[2 * i + 1] > 0) {
      entries.push_back({float_bits(in.depths[i]), static_cast<int32_t>(i)});
    }
  }
  radix_sort(entries);
  return entries;
}

// Calls visit(first_tile, end_tile, index), in order, for each row of tiles that one of entries [begin, end) touches.
template <class Visit>
void for_each_span(const IntersectInputs& in, const std::vector<DepthEntry>& entries, int64_t begin, int64_t end,
                   const Visit& visit) {
  for (int64_t e = begin; e < end; ++e) {
    const int32_t index = entries[e].index;
    const TileReach reach = reach_of(in, index);
    const int64_t image_start = image_of(in, index) * tiles_per_image(in.grid);
    for (int row = reach.row_begin; row < reach.row_end; ++row) {
      const TileSpan span = tile_span(in.grid, reach, row);
      const int64_t row_start = image_start + static_cast<int64_t>(row) * in.grid.columns;
      visit(row_start + span.begin, row_start + span.end, index);
    }
  }
}

// The number of contiguous pieces of the entries, each with its own counters for all tiles: one per thread, unless the
// counters would take more than 64 MiB.
int64_t piece_count(const IntersectOperands& p) {
  const int64_t affordable = (int64_t{64} << 20) / (4 * std::max<int64_t>(p.tiles(), 1));
  return std::clamp<int64_t>(affordable, 1, torch::stable::get_num_threads());
}

std::tuple<Tensor, Tensor, Tensor, Tensor> intersect(Tensor means2d, Tensor radii, Tensor depths, Tensor conics,
                                                     Tensor opacities, std::optional<Tensor> image_ids, int64_t images,
                                                     int64_t tile_size, int64_t tile_width, int64_t tile_height) {
  const IntersectOperands p = check_intersect(means2d, radii, depths, conics, opacities, image_ids, images, tile_size,
                                              tile_width, tile_height);
  const IntersectInputs in = p.inputs();
  if (in.image_ids != nullptr) {
    for (int64_t i = 0; i < p.count; ++i) {
      STD_TORCH_CHECK(in.image_ids[i] >= 0 && in.image_ids[i] < images, "image_ids[", i, "] is ", in.image_ids[i],
                      ", but there are ", images, " images");
    }
  }
  const std::vector<DepthEntry> entries = sorted_by_depth(in);
  const int64_t tiles = p.tiles(), visible = static_cast<int64_t>(entries.size());
  const int64_t pieces = piece_count(p);
  const auto piece_start = [&](int64_t piece) { return visible * piece / pieces; };

  // First the number of entries of each piece in each tile, then the next free place.
  std::vector<int32_t> places(static_cast<size_t>(pieces * tiles), 0);
  std::vector<int64_t> totals(static_cast<size_t>(pieces), 0);
  int32_t* tiles_per_gauss = p.tiles_per_gauss.mutable_data_ptr<int32_t>();
  std::fill(tiles_per_gauss, tiles_per_gauss + p.count, 0);
  parallel_dynamic(pieces, 1, [&](int64_t, int64_t piece) {
    int32_t* counts = places.data() + piece * tiles;
    int64_t total = 0;
    for_each_span(in, entries, piece_start(piece), piece_start(piece + 1),
                  [&](int64_t first, int64_t last, int32_t index) {
                    for (int64_t tile = first; tile < last; ++tile) ++counts[tile];
                    tiles_per_gauss[index] += static_cast<int32_t>(last - first);
                    total += last - first;
                  });
    totals[piece] = total;
  });
  const int64_t total = std::accumulate(totals.begin(), totals.end(), int64_t{0});
  check_intersections(total);
  int32_t* offsets = p.offsets.mutable_data_ptr<int32_t>();
  int32_t next = 0;
  for (int64_t tile = 0; tile < tiles; ++tile) {
    offsets[tile] = next;
    for (int64_t piece = 0; piece < pieces; ++piece) {
      const int32_t count = places[piece * tiles + tile];
      places[piece * tiles + tile] = next;
      next += count;
    }
  }

  Tensor isect_ids = empty_like_device({total}, ScalarType::Long, means2d);
  Tensor flatten_ids = empty_like_device({total}, ScalarType::Int, means2d);
  int64_t* ids = isect_ids.mutable_data_ptr<int64_t>();
  int32_t* flat = flatten_ids.mutable_data_ptr<int32_t>();
  parallel_dynamic(pieces, 1, [&](int64_t, int64_t piece) {
    int32_t* place = places.data() + piece * tiles;
    for_each_span(in, entries, piece_start(piece), piece_start(piece + 1),
                  [&](int64_t first, int64_t last, int32_t index) {
                    const int64_t image = image_of_tile(in.grid, first);
                    const int64_t first_of_image = image * tiles_per_image(in.grid);
                    for (int64_t tile = first; tile < last; ++tile) {
                      const int32_t at = place[tile]++;
                      ids[at] = intersection_key(tile_key(image, tile - first_of_image, in.tile_bits), in.depths[index]);
                      flat[at] = index;
                    }
                  });
  });
  return {p.tiles_per_gauss, isect_ids, flatten_ids, p.offsets};
}

}  // namespace
}  // namespace splat

STABLE_TORCH_LIBRARY_IMPL(splat, CPU, m) { m.impl("intersect", TORCH_BOX(&splat::intersect)); }
