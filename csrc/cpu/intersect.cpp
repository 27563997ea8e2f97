// splat::intersect on the CPU.
//
// Instead of sorting all pairs of Gaussian and tile, the Gaussians are sorted once, by depth, and their pairs are then
// distributed in that order by a counting sort over the tiles of all images. Both sorts are stable, so the order is the
// same for any number of threads.
#include <algorithm>
#include <numeric>

#include "available_memory.h"
#include "functions.h"
#include "parallel.h"

namespace splat {
namespace cpu {
namespace {

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
  entries.reserve(static_cast<size_t>(in.count));
  for (int64_t i = 0; i < in.count; ++i) {
    if (is_shown(in.radii, i)) {
      entries.push_back({float_bits(in.depths[i]), static_cast<int32_t>(i)});
    }
  }
  radix_sort(entries);
  return entries;
}

void prefetch(const IntersectInputs& in, int64_t i) {
  __builtin_prefetch(in.means + 2 * i);
  __builtin_prefetch(in.radii + 2 * i);
  __builtin_prefetch(in.conics + 3 * i);
  __builtin_prefetch(in.opacities + i);
}

// Calls visit(run), in order, for each row of tiles that one of entries [begin, end) reaches.
template <class Visit>
void for_each_run(const IntersectInputs& in, const std::vector<DepthEntry>& entries, int64_t begin, int64_t end,
                  const Visit& visit) {
  constexpr int64_t kAhead = 16;  // by depth, Gaussians are scattered in memory
  for (int64_t e = begin; e < end; ++e) {
    if (e + kAhead < end) prefetch(in, entries[e + kAhead].index);
    const int32_t index = entries[e].index;
    const TileReach reach = reach_of(in, index);
    const int64_t image_start = image_of(in, index) * tiles_per_image(in.grid);
    for (int row = reach.row_begin; row < reach.row_end; ++row) {
      const TileSpan span = tile_span(in.grid, reach, row);
      const auto row_start = static_cast<int32_t>(image_start + static_cast<int64_t>(row) * in.grid.columns);
      if (span.begin < span.end) visit(TileRun{row_start + span.begin, row_start + span.end, index});
    }
  }
}

// The number of contiguous pieces of the entries, each with its own counters for all tiles: two per thread, because
// Gaussians in front cover more tiles, unless the counters would take more than 64 MiB.
int64_t piece_count(int64_t tiles) {
  const int64_t affordable = (int64_t{64} << 20) / (4 * std::max<int64_t>(tiles, 1));
  return std::clamp<int64_t>(affordable, 1, 2 * thread_count());
}

// What the runs of all pieces take once one piece has room for twice as many, if there is not so much memory, else 0.
int64_t bytes_not_there(const std::vector<TileRun>& runs, int64_t pieces) {
  const int64_t bytes = 2 * static_cast<int64_t>(runs.capacity() * sizeof(TileRun)) * pieces;
  return bytes > kUnaskedBytes && bytes > available_memory() ? bytes : 0;
}

}  // namespace

TilePairs::TilePairs(const IntersectInputs& in, int32_t* tiles_per_gauss)
    : in_(in),
      entries_(sorted_by_depth(in)),
      tiles_(in.images * tiles_per_image(in.grid)),
      pieces_(piece_count(tiles_)),
      runs_(static_cast<size_t>(pieces_)),
      places_(static_cast<size_t>(pieces_ * tiles_), 0) {
  std::vector<int64_t> counts(static_cast<size_t>(pieces_), 0), missing(static_cast<size_t>(pieces_), 0);
  std::fill(tiles_per_gauss, tiles_per_gauss + in.count, 0);
  parallel_dynamic(pieces_, 1, [&](int64_t, int64_t piece) {
    int32_t* in_tiles = places_.data() + piece * tiles_;
    std::vector<TileRun>& runs = runs_[piece];
    int64_t count = 0, bytes = 0;
    for_each_run(in_, entries_, piece_start(piece), piece_start(piece + 1), [&](const TileRun& run) {
      for (int32_t tile = run.first; tile < run.end; ++tile) ++in_tiles[tile];
      tiles_per_gauss[run.index] += run.end - run.first;
      count += run.end - run.first;
      if (bytes == 0 && runs.size() == runs.capacity()) bytes = bytes_not_there(runs, pieces_);
      if (bytes == 0) runs.push_back(run);
    });
    counts[piece] = count;
    missing[piece] = bytes;
  });
  missing_bytes_ = *std::max_element(missing.begin(), missing.end());
  count_ = std::accumulate(counts.begin(), counts.end(), int64_t{0});
}

void TilePairs::write(int32_t* indices, int32_t* offsets) {
  int32_t next = 0;
  for (int64_t tile = 0; tile < tiles_; ++tile) {
    offsets[tile] = next;
    for (int64_t piece = 0; piece < pieces_; ++piece) {
      const int32_t count = places_[piece * tiles_ + tile];
      places_[piece * tiles_ + tile] = next;
      next += count;
    }
  }
  parallel_dynamic(pieces_, 1, [&](int64_t, int64_t piece) {
    int32_t* place = places_.data() + piece * tiles_;
    for (const TileRun& run : runs_[piece]) {
      for (int32_t tile = run.first; tile < run.end; ++tile) indices[place[tile]++] = run.index;
    }
  });
}

int64_t TilePairs::piece_start(int64_t piece) const { return static_cast<int64_t>(entries_.size()) * piece / pieces_; }

}  // namespace cpu
}  // namespace splat
