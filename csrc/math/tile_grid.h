// The tiles that images are cut into, how the tiles of all images are numbered, and the keys that order them.
//
// All images are of one size. Tiles are numbered image by image, row by row.
#pragma once

#include "integers.h"

namespace splat {

struct TileGrid {
  int tile_size;  // pixels
  int columns, rows;
};

SPLAT_HD int64_t tiles_per_image(const TileGrid& grid) { return static_cast<int64_t>(grid.rows) * grid.columns; }

SPLAT_HD int64_t image_of_tile(const TileGrid& grid, int64_t tile) { return tile / tiles_per_image(grid); }

// The image of a tile, and its first pixel there.
struct TileOrigin {
  int64_t image;
  int left, top;
};

SPLAT_HD TileOrigin tile_origin(const TileGrid& grid, int64_t tile) {
  const int64_t image = image_of_tile(grid, tile);
  const int64_t in_image = tile - image * tiles_per_image(grid);
  return {image, static_cast<int>(in_image % grid.columns) * grid.tile_size,
          static_cast<int>(in_image / grid.columns) * grid.tile_size};
}

// The key of an intersection is image | tile | depth, laid out as in gsplat 1.5.3: the lower 32 bits are those of the
// depth, and the tile has as many bits as it takes to write the number of tiles in an image.
SPLAT_HD int tile_bits(const TileGrid& grid) { return bit_length(tiles_per_image(grid)); }

// The upper half of a key. `tile` is numbered within the image.
SPLAT_HD uint32_t tile_key(int64_t image, int64_t tile, int tile_bits) {
  return static_cast<uint32_t>(image << tile_bits | tile);
}

SPLAT_HD int64_t intersection_key(uint32_t tile_key, float depth) {
  return static_cast<int64_t>(static_cast<uint64_t>(tile_key) << 32 | float_bits(depth));
}

}  // namespace splat
