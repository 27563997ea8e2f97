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

// A tile's key is image | tile, which is the upper half of gsplat 1.5.3's key of an intersection; the tile has as many
// bits as it takes to write the number of tiles in an image.
SPLAT_HD int tile_bits(const TileGrid& grid) { return bit_length(tiles_per_image(grid)); }

// `tile` is numbered within the image.
SPLAT_HD uint32_t tile_key(int64_t image, int64_t tile, int tile_bits) {
  return static_cast<uint32_t>(image << tile_bits | tile);
}

}  // namespace splat
