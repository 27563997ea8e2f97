// The packed layout: the rows of the Gaussians that an image shows, without the others.
//
// Shapes: I images, N Gaussians, D channels, S sets of colours, each for I / S images in turn; M rows are shown. A row
// of the dense layout is image * N + Gaussian; its place is the number of rows before it that are shown.
#pragma once

#include "project_rows.h"

namespace splat {

struct PackInputs {
  const int32_t* radii;                              // [I, N, 2]
  const float *means, *depths, *conics, *opacities;  // [I, N, 2], [I, N], [I, N, 3], [I, N]
  const float* colors;                               // [S, N, D]; null if there are none
  int64_t images, gaussians, sets, channels;
};

struct PackedRows {
  int64_t *image_ids, *gaussian_ids;           // [M]
  int32_t* radii;                              // [M, 2]
  float *means, *depths, *conics, *opacities;  // [M, 2], [M], [M, 3], [M]
  float* colors;                               // [M, D]
};

template <class T>
SPLAT_HD void copy_row(const T* from, int64_t row, T* to, int64_t place, int64_t width) {
  for (int64_t k = 0; k < width; ++k) to[width * place + k] = from[width * row + k];
}

SPLAT_HD void pack_row(const PackInputs& in, int64_t row, int64_t place, const PackedRows& out) {
  const int64_t image = row / in.gaussians, i = row % in.gaussians;
  out.image_ids[place] = image;
  out.gaussian_ids[place] = i;
  copy_row(in.radii, row, out.radii, place, 2);
  copy_row(in.means, row, out.means, place, 2);
  copy_row(in.depths, row, out.depths, place, 1);
  copy_row(in.conics, row, out.conics, place, 3);
  copy_row(in.opacities, row, out.opacities, place, 1);
  if (in.colors == nullptr) return;
  const int64_t set = image / (in.images / in.sets);
  copy_row(in.colors, set * in.gaussians + i, out.colors, place, in.channels);
}

struct PackGradients {
  const int32_t *radii, *places;  // [I, N, 2], [I, N]
  const float *means, *depths, *conics, *opacities, *colors;  // of M rows, incoming
  int64_t rows, images, gaussians, sets, channels;            // rows: M
};

// The gradients by the inputs of the same name, each shaped like it; null if there is no incoming one.
struct PackGradientOutputs {
  float *means, *depths, *conics, *opacities, *colors;
};

// The place of a row; -1 if it is not shown.
SPLAT_HD int64_t place_of(const PackGradients& in, int64_t row) {
  const int64_t place = in.places[row];
  return is_shown(in.radii, row) && place >= 0 && place < in.rows ? place : -1;
}

SPLAT_HD float unpacked(const float* packed, int64_t width, int64_t place, int64_t k) {
  return place < 0 ? 0.0f : 0.0f + packed[width * place + k];  // as if it was added, so that -0 becomes 0
}

SPLAT_HD void unpack_row(const float* packed, int64_t place, float* to, int64_t row, int64_t width) {
  if (to == nullptr) return;
  for (int64_t k = 0; k < width; ++k) to[width * row + k] = unpacked(packed, width, place, k);
}

// The gradients of Gaussian `i` of set `set`, in all images of the set in turn.
SPLAT_HD void pack_backward_row(const PackGradients& in, int64_t set, int64_t i, const PackGradientOutputs& out) {
  const int64_t images = in.images / in.sets;
  const int64_t first = set * images * in.gaussians + i, end = first + images * in.gaussians;
  for (int64_t row = first; row < end; row += in.gaussians) {
    const int64_t place = place_of(in, row);
    unpack_row(in.means, place, out.means, row, 2);
    unpack_row(in.depths, place, out.depths, row, 1);
    unpack_row(in.conics, place, out.conics, row, 3);
    unpack_row(in.opacities, place, out.opacities, row, 1);
  }
  if (out.colors == nullptr) return;
  for (int64_t k = 0; k < in.channels; ++k) {
    float sum = 0.0f;
    for (int64_t row = first; row < end; row += in.gaussians) {
      sum += unpacked(in.colors, in.channels, place_of(in, row), k);
    }
    out.colors[in.channels * (set * in.gaussians + i) + k] = sum;
  }
}

}  // namespace splat
