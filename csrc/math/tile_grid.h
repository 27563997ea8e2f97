// The tiles that images are cut into, and how the tiles of all images are numbered.
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

}  // namespace splat
