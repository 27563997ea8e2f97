// Arguments, checked and contiguous, and outputs, allocated, of pack and its backward pass, on the CPU and on CUDA.
//
// Shapes: as in pack_rows.h.
#pragma once

#include "../math/pack_rows.h"
#include "intersect_operands.h"

namespace splat {

struct PackOperands {
  Tensor radii, means2d, depths, conics, opacities;  // [I, N, ...]
  std::optional<Tensor> colors;                      // [S, N, D]
  int64_t images, gaussians, sets, channels;
  TileGrid grid;  // its tile_size is 0 if no lists are wanted
  Tensor places;  // output: int32 [I, N]

  bool lists() const { return grid.tile_size > 0; }
  int64_t count() const { return images * gaussians; }

  PackInputs inputs() const {
    return {radii.const_data_ptr<int32_t>(),
            means2d.const_data_ptr<float>(),
            depths.const_data_ptr<float>(),
            conics.const_data_ptr<float>(),
            opacities.const_data_ptr<float>(),
            data_or_null<float>(colors),
            images,
            gaussians,
            sets,
            channels};
  }

  // The dense layout.
  IntersectInputs rows() const {
    return {means2d.const_data_ptr<float>(),
            depths.const_data_ptr<float>(),
            conics.const_data_ptr<float>(),
            opacities.const_data_ptr<float>(),
            radii.const_data_ptr<int32_t>(),
            nullptr,
            count(),
            gaussians,
            images,
            grid,
            tile_bits(grid)};
  }
};

inline int64_t checked_sets(int64_t sets, int64_t images, int64_t gaussians) {
  STD_TORCH_CHECK(sets > 0 ? images % sets == 0 : sets == 0 && images == 0,
                  "colors must be of sets for equally many of the ", images, " images; found ", sets);
  check_set_count(sets, gaussians);
  return sets;
}

inline PackOperands check_pack(const Tensor& radii, const Tensor& means2d, const Tensor& depths, const Tensor& conics,
                               const Tensor& opacities, const std::optional<Tensor>& colors, int64_t tile_size,
                               int64_t tile_width, int64_t tile_height) {
  constexpr auto f32 = ScalarType::Float;
  const int64_t images = checked_size(radii, "radii", 0, 3), n = radii.size(1);
  checked_count(images, n);
  const int64_t sets = colors ? checked_sets(checked_size(*colors, "colors", 0, 3), images, n) : images;
  const Tensor& like = means2d;
  return {checked(radii, "radii", ScalarType::Int, {images, n, 2}, like),
          checked(means2d, "means2d", f32, {images, n, 2}, like),
          checked(depths, "depths", f32, {images, n}, like),
          checked(conics, "conics", f32, {images, n, 3}, like),
          checked(opacities, "opacities", f32, {images, n}, like),
          checked(colors, "colors", f32, {sets, n, kAny}, like),
          images,
          n,
          sets,
          colors ? colors->size(2) : 0,
          tile_size == 0 ? TileGrid{0, 0, 0} : checked_grid(images, tile_size, tile_width, tile_height),
          empty_like_device({images, n}, ScalarType::Int, like)};
}

struct PackedTensors {
  Tensor image_ids, gaussian_ids;                            // int64 [M]
  Tensor radii, means2d, depths, conics, opacities, colors;  // [M, ...]

  PackedRows pointers() const {
    return {image_ids.mutable_data_ptr<int64_t>(), gaussian_ids.mutable_data_ptr<int64_t>(),
            radii.mutable_data_ptr<int32_t>(),     means2d.mutable_data_ptr<float>(),
            depths.mutable_data_ptr<float>(),      conics.mutable_data_ptr<float>(),
            opacities.mutable_data_ptr<float>(),   colors.mutable_data_ptr<float>()};
  }
};

inline PackedTensors empty_rows(const PackOperands& p, int64_t rows) {
  constexpr auto f32 = ScalarType::Float;
  const Tensor& like = p.means2d;
  return {empty_like_device({rows}, ScalarType::Long, like),
          empty_like_device({rows}, ScalarType::Long, like),
          empty_like_device({rows, 2}, ScalarType::Int, like),
          empty_like_device({rows, 2}, f32, like),
          empty_like_device({rows}, f32, like),
          empty_like_device({rows, 3}, f32, like),
          empty_like_device({rows}, f32, like),
          empty_like_device({rows, p.channels}, f32, like)};
}

// What `intersect` gives for the packed rows; all empty if no lists are wanted.
struct PackedLists {
  Tensor tiles_per_gauss, flatten_ids, offsets;
};

struct PackResults {
  PackedTensors rows;
  PackedLists lists;
};

inline PackedLists no_lists(const PackOperands& p) {
  const auto none = [&] { return empty_like_device({0}, ScalarType::Int, p.means2d); };
  return {none(), none(), empty_like_device({p.images, 0, 0}, ScalarType::Int, p.means2d)};
}

inline IntersectOperands check_packed_intersect(const PackOperands& p, const PackedTensors& rows) {
  return check_intersect(rows.means2d, rows.radii, rows.depths, rows.conics, rows.opacities, rows.image_ids, p.images,
                         p.grid.tile_size, p.grid.columns, p.grid.rows, std::nullopt);
}

struct PackBackwardOperands {
  Tensor radii, places;                                                        // [I, N, 2], [I, N]
  std::optional<Tensor> v_means2d, v_depths, v_conics, v_opacities, v_colors;  // [M, ...], incoming
  int64_t rows, images, gaussians, sets, channels;
  // Outputs, like the inputs of pack; size 0 where there is no incoming one.
  Tensor means2d, depths, conics, opacities, colors;

  PackGradients gradients() const {
    return {radii.const_data_ptr<int32_t>(), places.const_data_ptr<int32_t>(), data_or_null<float>(v_means2d),
            data_or_null<float>(v_depths),   data_or_null<float>(v_conics),    data_or_null<float>(v_opacities),
            data_or_null<float>(v_colors),   rows, images, gaussians,
            sets_with_work(sets, images > 0 || channels > 0), channels};
  }

  PackGradientOutputs outputs() const {
    // Asked of what comes in, which may have no rows, and then no address.
    const auto wanted = [](const std::optional<Tensor>& v, const Tensor& out) {
      return v ? out.mutable_data_ptr<float>() : nullptr;
    };
    return {wanted(v_means2d, means2d), wanted(v_depths, depths), wanted(v_conics, conics),
            wanted(v_opacities, opacities), wanted(v_colors, colors)};
  }
};

inline PackBackwardOperands check_pack_backward(const Tensor& radii, const Tensor& places, int64_t sets,
                                                const std::optional<Tensor>& v_means2d,
                                                const std::optional<Tensor>& v_depths,
                                                const std::optional<Tensor>& v_conics,
                                                const std::optional<Tensor>& v_opacities,
                                                const std::optional<Tensor>& v_colors) {
  constexpr auto f32 = ScalarType::Float;
  const int64_t images = checked_size(radii, "radii", 0, 3), n = radii.size(1);
  checked_sets(sets, images, n);
  int64_t rows = 0;
  for (const auto* v : {&v_means2d, &v_depths, &v_conics, &v_opacities, &v_colors}) {
    if (*v && (*v)->dim() > 0) rows = (*v)->size(0);
  }
  const int64_t channels = v_colors ? checked_size(*v_colors, "v_colors", 1, 2) : 0;
  const Tensor& like = radii;
  const auto dense = [&](const std::optional<Tensor>& v, int64_t first, int64_t width) {
    return empty_like_device({v ? first : 0, n, width}, f32, like);
  };
  const auto scalars = [&](const std::optional<Tensor>& v) { return empty_like_device({v ? images : 0, n}, f32, like); };
  return {checked(radii, "radii", ScalarType::Int, {images, n, 2}, like),
          checked(places, "places", ScalarType::Int, {images, n}, like),
          checked(v_means2d, "v_means2d", f32, {rows, 2}, like),
          checked(v_depths, "v_depths", f32, {rows}, like),
          checked(v_conics, "v_conics", f32, {rows, 3}, like),
          checked(v_opacities, "v_opacities", f32, {rows}, like),
          checked(v_colors, "v_colors", f32, {rows, channels}, like),
          rows,
          images,
          n,
          sets,
          channels,
          dense(v_means2d, images, 2),
          scalars(v_depths),
          dense(v_conics, images, 3),
          scalars(v_opacities),
          dense(v_colors, sets, channels)};
}

}  // namespace splat
