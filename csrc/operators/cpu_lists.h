// The check of the lists that images on the CPU are drawn by: what is used as an index into memory is not trusted.
#pragma once

#include <torch/headeronly/util/Exception.h>

#include "../math/rasterize_rows.h"
#include "../math/sort_keys.h"

namespace splat {

// The lists end before what they have room for.
inline RasterizeInputs checked_lists(RasterizeInputs in) {
  while (in.intersections > 0 && in.flatten_ids[in.intersections - 1] == kNoGaussian) --in.intersections;
  for (int64_t i = 0; i < in.intersections; ++i) {
    STD_TORCH_CHECK(in.flatten_ids[i] >= 0 && in.flatten_ids[i] < in.count, "flatten_ids[", i, "] is ",
                    in.flatten_ids[i], ", but there are ", in.count, " Gaussians");
  }
  int32_t previous = 0;
  for (int64_t i = 0; i < in.tiles; ++i) {
    STD_TORCH_CHECK(in.offsets[i] >= previous && in.offsets[i] <= in.intersections,
                    "isect_offsets must ascend from 0 to the ", in.intersections, " entries of flatten_ids; entry ",
                    i, " is ", in.offsets[i], " after ", previous);
    previous = in.offsets[i];
  }
  return in;
}

template <class Operands>
auto checked_lists(const Operands& p) -> decltype(p.inputs()) {
  auto in = p.inputs();
  in.lists = checked_lists(in.lists);
  return in;
}

}  // namespace splat
