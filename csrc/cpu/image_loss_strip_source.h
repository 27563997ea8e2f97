// Source of image_loss_strip and image_loss_strip_backward; lanes.h says how it is compiled.
//
// The window is separable: each row is blurred along itself, into a ring of as many rows as the window has, and these
// are blurred across. The channels of a pixel are neighbours in a row, those of the next pixel `channels` values away.
#include "image_loss_strip.h"
#include "lanes.h"

namespace splat {
namespace SPLAT_ISA {
namespace {

SPLAT_HD Floats load(const float* from) {
  Floats values;
  __builtin_memcpy(&values, from, sizeof values);
  return values;
}

SPLAT_HD void store(Floats values, float* to) { __builtin_memcpy(to, &values, sizeof values); }

// The first `count` lanes alone; the others are 0.
SPLAT_HD Floats load_part(const float* from, int64_t count) {
  if (count >= kLanes) return load(from);
  Floats values = {};
  __builtin_memcpy(&values, from, static_cast<uint64_t>(count) * sizeof *from);
  return values;
}

SPLAT_HD void store_part(Floats values, int64_t count, float* to) {
  if (count >= kLanes) return store(values, to);
  __builtin_memcpy(to, &values, static_cast<uint64_t>(count) * sizeof *to);
}

SPLAT_HD void fill(float* values, int64_t count, float value) {
  for (int64_t i = 0; i < count; ++i) values[i] = value;
}

// Rows of `kMaps` maps, and what the window makes of them.
template <int kMaps>
struct Window {
  int64_t step, span, padded;  // floats from a pixel to the next; of a row; of a row with zeros around it
  float* rows;                 // [kMaps, padded]
  float* ring;                 // [kWindowTaps, kMaps, span]

  // Where a row's values are, between the zeros.
  float* row(int map) const { return rows + map * padded + kWindowRadius * step; }
  // Where row `number`, counted from the first that the window reaches, is blurred to.
  float* blurred(int number) const { return ring + number % kWindowTaps * kMaps * span; }
};

template <int kMaps>
SPLAT_HD Window<kMaps> make_window(const ImageLossInputs& in, float* scratch) {
  const int64_t padded = padded_span(in);
  const Window<kMaps> window = {in.channels, row_span(in), padded, scratch, scratch + kWindowMeans * padded};
  fill(window.rows, kMaps * window.padded, 0.0f);
  return window;
}

template <int kMaps>
SPLAT_HD void blur_along(const Window<kMaps>& window, float* to) {
  for (int map = 0; map < kMaps; ++map) {
    const float* from = window.rows + map * window.padded;
    for (int64_t i = 0; i < window.span; i += kLanes) {
      Floats sum = {};
      for (int tap = 0; tap < kWindowTaps; ++tap) {
        sum = fused(splat_lanes(window_weight(tap)), load(from + tap * window.step + i), sum);
      }
      store(sum, to + map * window.span + i);
    }
  }
}

// The blurred rows that a row's window reaches.
struct Reach {
  const float* rows[kWindowTaps];
};

// Of the values from `i` on.
template <int kMaps>
SPLAT_HD void blur_across(const Window<kMaps>& window, const Reach& reach, int64_t i, Floats (&sums)[kMaps]) {
  for (int map = 0; map < kMaps; ++map) {
    sums[map] = Floats{};
    for (int tap = 0; tap < kWindowTaps; ++tap) {
      sums[map] = fused(splat_lanes(window_weight(tap)), load(reach.rows[tap] + map * window.span + i), sums[map]);
    }
  }
}

// For each row of a strip, calls finish(row, reach), after read(row, own) has filled window.row() for each row that is
// reached; `own` says whether it is one of the strip's.
template <int kMaps, class Read, class Finish>
SPLAT_HD void for_each_row(const ImageLossInputs& in, int64_t strip, const Window<kMaps>& window, const Read& read,
                           const Finish& finish) {
  const int top = static_cast<int>(strip % strips_per_image(in)) * kStripRows;
  const int bottom = top + kStripRows < in.height ? top + kStripRows : in.height;
  for (int row = top - kWindowRadius; row < bottom + kWindowRadius; ++row) {
    float* blurred = window.blurred(row - top + kWindowRadius);
    if (row >= 0 && row < in.height) {
      read(row, row >= top && row < bottom);
      blur_along(window, blurred);
    } else {
      fill(blurred, kMaps * window.span, 0.0f);
    }
    const int middle = row - kWindowRadius;
    if (middle < top) continue;
    Reach reach;
    for (int tap = 0; tap < kWindowTaps; ++tap) reach.rows[tap] = window.blurred(middle - top + tap);
    finish(middle, reach);
  }
}

// Copies a row, with 0 where the mask, if there is one, is false.
SPLAT_HD void copy_masked(const float* from, const bool* mask, int64_t pixels, int64_t channels, float* to) {
  if (mask == nullptr) {
    __builtin_memcpy(to, from, static_cast<uint64_t>(pixels * channels) * sizeof *to);
    return;
  }
  for (int64_t i = 0; i < pixels; ++i) {
    for (int64_t c = i * channels; c < (i + 1) * channels; ++c) to[c] = mask[i] ? from[c] : 0.0f;
  }
}

// Sums a run's columns in double precision, and begins the next one.
SPLAT_HD double end_run(float* run, int64_t span) {
  double sums[8] = {};
  for (int64_t i = 0; i < span; i += 8) {
    for (int lane = 0; lane < 8; ++lane) sums[lane] += run[i + lane];
  }
  fill(run, span, 0.0f);
  return ((sums[0] + sums[1]) + (sums[2] + sums[3])) + ((sums[4] + sums[5]) + (sums[6] + sums[7]));
}

}  // namespace

ImageLossSums image_loss_strip(const ImageLossInputs& in, int64_t strip, float* partials, float* scratch) {
  const auto window = make_window<kWindowMeans>(in, scratch);
  const int64_t image = strip / strips_per_image(in), values = in.width * in.channels, total = value_count(in);
  float* const absolute = window.ring + kWindowTaps * kWindowMeans * window.span;  // the runs of both sums
  float* const similar = absolute + window.span;
  float* const counted = similar + window.span;  // of a row: 1 where SSIM is counted, else 0
  fill(absolute, 3 * window.span, 0.0f);
  const auto mask_of = [&](int row) {
    return in.mask == nullptr ? nullptr : in.mask + (image * in.height + row) * in.width;
  };
  const auto run_ends = [&](int row) { return row % kRunRows == kRunRows - 1 || row == in.height - 1; };
  ImageLossSums sums = {};

  const auto read = [&](int row, bool own) {
    const int64_t start = (image * in.height + row) * values;
    float *x = window.row(0), *y = window.row(1), *squares = window.row(2), *product = window.row(3);
    copy_masked(in.image + start, mask_of(row), in.width, in.channels, x);
    copy_masked(in.target + start, mask_of(row), in.width, in.channels, y);
    for (int64_t i = 0; i < values; i += kLanes) {
      const int64_t count = values - i;
      const Floats a = load_part(x + i, count), b = load_part(y + i, count);
      store_part(fused(b, b, a * a), count, squares + i);
      store_part(a * b, count, product + i);
      if (own) store(load(absolute + i) + magnitude(a - b), absolute + i);
    }
    if (own && run_ends(row)) sums.absolute += end_run(absolute, window.span);
  };

  const auto finish = [&](int row, const Reach& reach) {
    const bool* mask = mask_of(row);
    int64_t pixels = 0;
    for (int column = 0; column < in.width; ++column) {
      const bool counts = in_margins(in, row, column) && (mask == nullptr || mask[column]);
      fill(counted + column * in.channels, in.channels, counts ? 1.0f : 0.0f);
      pixels += counts;
    }
    sums.counted += static_cast<double>(pixels * in.channels);
    float* to = partials == nullptr ? nullptr : partials + (image * in.height + row) * values;
    for (int64_t i = 0; i < values; i += kLanes) {
      Floats moments[kWindowMeans];
      blur_across(window, reach, i, moments);
      const Similarity<Floats> found = similarity(moments);
      const Floats weight = load(counted + i);
      store(load(similar + i) + weight * found.value, similar + i);
      if (to == nullptr) continue;
      store_part(weight * found.by_mean, values - i, to + i);
      store_part(weight * found.by_squares, values - i, to + total + i);
      store_part(weight * found.by_product, values - i, to + 2 * total + i);
    }
    if (run_ends(row)) sums.similarity += end_run(similar, window.span);
  };

  for_each_row(in, strip, window, read, finish);
  return sums;
}

void image_loss_strip_backward(const ImageLossInputs& in, int64_t strip, const ImageLossGradients& gradients,
                               float* scratch) {
  const auto window = make_window<kPartials>(in, scratch);
  const int64_t image = strip / strips_per_image(in), values = in.width * in.channels, total = value_count(in);
  const float by_absolute = *gradients.v_value * gradients.weights[0];
  const float by_similarity = *gradients.v_value * (2.0f * gradients.weights[1]);

  const auto read = [&](int row, bool) {
    const float* from = gradients.partials + (image * in.height + row) * values;
    for (int map = 0; map < kPartials; ++map) {
      copy_masked(from + map * total, nullptr, in.width, in.channels, window.row(map));
    }
  };

  const auto finish = [&](int row, const Reach& reach) {
    const int64_t start = (image * in.height + row) * values;
    float* to = gradients.v_image + start;
    for (int64_t i = 0; i < values; i += kLanes) {
      const int64_t count = values - i;
      Floats partials[kPartials];
      blur_across(window, reach, i, partials);
      const Floats x = load_part(in.image + start + i, count), y = load_part(in.target + start + i, count);
      const Floats v = fused(partials[2], y, fused(partials[1], x, partials[0]));
      const Floats sign = select(greater(x, y), splat_lanes(by_absolute),
                                 select(greater(y, x), splat_lanes(-by_absolute), Floats{}));
      store_part(fused(splat_lanes(by_similarity), v, sign), count, to + i);
    }
    if (in.mask == nullptr) return;
    copy_masked(to, in.mask + (image * in.height + row) * in.width, in.width, in.channels, to);
  };

  for_each_row(in, strip, window, read, finish);
}

}  // namespace SPLAT_ISA
}  // namespace splat
