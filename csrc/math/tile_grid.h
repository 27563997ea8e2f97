// The tiles that an image is cut into.
#pragma once

#include "platform.h"

namespace splat {

struct TileGrid {
  int tile_size;  // pixels
  int columns, rows;
};

// The number of bits needed to write `value`; gsplat 1.5.3 lays out its intersection keys with it.
SPLAT_HD int bit_length(int64_t value) {
  int bits = 0;
  for (; value > 0; value >>= 1) ++bits;
  return bits;
}

}  // namespace splat
