// The Python module: launches kernels on numpy arrays. A kernel's structs arrive as dictionaries with the fields' names.
#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <algorithm>
#include <array>
#include <map>
#include <set>

#include "cuda/channels.h"
#include "engine.h"
#include "kernels.h"

#undef threadIdx
#undef blockIdx
#undef blockDim
#undef gridDim

namespace py = pybind11;
namespace k = splat::kernels;

namespace {

std::set<std::string> launched;

// One launch, and the arrays that it may use.
class Call {
 public:
  Call(const char* name, simt::Size grid, simt::Size block, size_t dynamic_bytes = 0)
      : launch_{name, grid, block, dynamic_bytes, {}} {}

  // The data of a contiguous array of this very type; null for None.
  template <class T>
  T* array(const char* name, const py::handle& value) {
    if (value.is_none()) return nullptr;
    using Value = std::remove_const_t<T>;
    if (!py::isinstance<py::array_t<Value, py::array::c_style>>(value)) {
      throw py::type_error(std::string(name) + " must be a contiguous array of " +
                           py::str(py::dtype::of<Value>()).cast<std::string>());
    }
    const auto numbers = py::reinterpret_borrow<py::array>(value);
    launch_.arrays.push_back({name, numbers.data(), static_cast<size_t>(numbers.nbytes()),
                              std::min<size_t>(4, static_cast<size_t>(numbers.itemsize()))});
    return static_cast<T*>(const_cast<void*>(numbers.data()));
  }

  template <class T>
  T* array(const py::dict& fields, const char* name) {
    return array<T>(name, fields[name]);
  }

  template <class... Parameters, class... Arguments>
  void operator()(void (*kernel)(Parameters...), Arguments... arguments) {
    simt::launch(launch_, kernel, arguments...);
    launched.insert(launch_.name);
  }

 private:
  simt::Launch launch_;
};

// One thread for each of `count` items, as launch.h has it.
Call for_each(const char* name, int64_t count) {
  constexpr unsigned int kThreads = 256;
  return Call(name, {static_cast<unsigned int>((count + kThreads - 1) / kThreads)}, {kThreads});
}

template <class T>
T number(const py::dict& fields, const char* name) {
  return fields[name].cast<T>();
}

int64_t size(const py::dict& fields, const char* name, int dim) {
  return py::reinterpret_borrow<py::array>(fields[name]).shape(dim);
}

splat::TileGrid grid_of(const py::dict& in) {
  return {number<int>(in, "tile_size"), number<int>(in, "columns"), number<int>(in, "rows")};
}

splat::IntersectInputs intersect_inputs(Call& call, const py::dict& in) {
  return {call.array<const float>(in, "means"),     call.array<const float>(in, "depths"),
          call.array<const float>(in, "conics"),    call.array<const float>(in, "opacities"),
          call.array<const int32_t>(in, "radii"),   call.array<const int64_t>(in, "image_ids"),
          size(in, "means", 0),                     number<int64_t>(in, "gaussians"),
          number<int64_t>(in, "images"),            grid_of(in),
          number<int>(in, "tile_bits")};
}

k::RasterizeInputs rasterize_inputs(Call& call, const py::dict& in) {
  return {call.array<const float>(in, "means"),
          call.array<const float>(in, "conics"),
          call.array<const float>(in, "colors"),
          call.array<const float>(in, "opacities"),
          call.array<const float>(in, "backgrounds"),
          call.array<const bool>(in, "masks"),
          call.array<const int32_t>(in, "offsets"),
          call.array<const int32_t>(in, "flatten_ids"),
          size(in, "colors", 0),
          size(in, "colors", 1),
          size(in, "flatten_ids", 0),
          size(in, "offsets", 0),
          number<int>(in, "width"),
          number<int>(in, "height"),
          grid_of(in)};
}

k::RasterizeGradients rasterize_gradients(Call& call, const py::dict& in) {
  return {call.array<const float>(in, "v_colors"), call.array<const float>(in, "v_alphas"),
          call.array<const int32_t>(in, "last_ids")};
}

k::BackwardPlan backward_plan(Call& call, const py::dict& plan) {
  return {call.array<int32_t>(plan, "block_starts"), call.array<int32_t>(plan, "block_tiles"),
          reinterpret_cast<k::Checkpoint*>(call.array<float>(plan, "checkpoints")), size(plan, "block_tiles", 0)};
}

k::BackwardOutputs backward_outputs(Call& call, const py::dict& out) {
  return {call.array<float>(out, "means"),     call.array<float>(out, "means_abs"), call.array<float>(out, "conics"),
          call.array<float>(out, "colors"),    call.array<float>(out, "opacities"), call.array<float>(out, "slots")};
}

// simt_NAME_C, by a number of channels C that is a template's argument.
#define SIMT_INSTANCES(name)                      \
  template <int C>                                \
  decltype(&k::name<C>) name##_instance() {       \
    if constexpr (C == 3) return simt_##name##_3; \
    if constexpr (C == 4) return simt_##name##_4; \
    if constexpr (C == 8) return simt_##name##_8; \
    if constexpr (C == 32) return simt_##name##_32; \
  }
SIMT_INSTANCES(rasterize)
SIMT_INSTANCES(replay)
SIMT_INSTANCES(differentiate)

Call per_tile(const char* name, int64_t tiles, int tile_size) {
  return Call(name, {static_cast<unsigned int>(tiles)}, {static_cast<unsigned int>(k::tile_threads(tile_size))});
}

void intersect_kernels(py::module_& m) {
  m.def("count_tiles", [](const py::dict& in, py::array tiles_per_gauss, py::array depth_keys, py::array order,
                          py::array totals) {
    Call call = for_each("count_tiles", size(in, "means", 0));
    call(simt_count_tiles, intersect_inputs(call, in), call.array<int32_t>("tiles_per_gauss", tiles_per_gauss),
         call.array<uint32_t>("depth_keys", depth_keys), call.array<int32_t>("order", order),
         reinterpret_cast<k::IntersectTotals*>(call.array<uint64_t>("totals", totals)));
  });
  m.def("order_counts", [](py::array order, py::array tiles_per_gauss, py::array starts) {
    Call call = for_each("order_counts", order.size() + 1);
    call(simt_order_counts, static_cast<int64_t>(order.size()), call.array<const int32_t>("order", order),
         call.array<const int32_t>("tiles_per_gauss", tiles_per_gauss), call.array<int64_t>("starts", starts));
  });
  m.def("emit_pairs", [](const py::dict& in, py::array order, py::array starts, py::array tile_keys, py::array indices) {
    Call call = for_each("emit_pairs", size(in, "means", 0));
    call(simt_emit_pairs, intersect_inputs(call, in), call.array<const int32_t>("order", order),
         call.array<const int64_t>("starts", starts), call.array<uint32_t>("tile_keys", tile_keys),
         call.array<int32_t>("indices", indices));
  });
  m.def("write_keys", [](py::array tile_keys, py::array indices, py::array depths, py::array keys) {
    Call call = for_each("write_keys", keys.size());
    call(simt_write_keys, static_cast<int64_t>(keys.size()), call.array<const uint32_t>("tile_keys", tile_keys),
         call.array<const int32_t>("indices", indices), call.array<const float>("depths", depths),
         call.array<int64_t>("keys", keys));
  });
  m.def("find_offsets", [](py::array tile_keys, int64_t per_image, int tile_bits, py::array offsets) {
    Call call = for_each("find_offsets", offsets.size());
    call(simt_find_offsets, call.array<const uint32_t>("tile_keys", tile_keys), static_cast<int64_t>(tile_keys.size()),
         static_cast<int64_t>(offsets.size()), per_image, tile_bits, call.array<int32_t>("offsets", offsets));
  });
}

void rasterize_kernels(py::module_& m) {
  m.def("rasterize", [](const py::dict& in, py::array colors, py::array alphas, py::array last_ids, int chunk) {
    splat::for_each_chunk(size(in, "colors", 1), chunk, [&](auto c, int64_t first, int channels) {
      Call call = per_tile("rasterize", size(in, "offsets", 0), number<int>(in, "tile_size"));
      const k::RasterizeOutputs out = {call.array<float>("colors", colors), call.array<float>("alphas", alphas),
                                       call.array<int32_t>("last_ids", last_ids)};
      call(rasterize_instance<decltype(c)::value>(), rasterize_inputs(call, in), out, first, channels);
    });
  });
  m.def("block_bound", &k::block_bound);
  m.def("count_blocks", [](const py::dict& in, const py::dict& plan, py::array last_ids) {
    Call call = per_tile("count_blocks", size(in, "offsets", 0) + 1, number<int>(in, "tile_size"));
    call(simt_count_blocks, rasterize_inputs(call, in), call.array<const int32_t>("last_ids", last_ids),
         backward_plan(call, plan));
  });
  m.def("replay", [](const py::dict& in, const py::dict& gradients, const py::dict& plan, int chunk) {
    splat::for_each_chunk(size(in, "colors", 1), chunk, [&](auto c, int64_t first, int channels) {
      if (first > 0) return;
      Call call = per_tile("replay", size(in, "offsets", 0), number<int>(in, "tile_size"));
      call(replay_instance<decltype(c)::value>(), rasterize_inputs(call, in), rasterize_gradients(call, gradients),
           backward_plan(call, plan), channels);
    });
  });
  m.def("differentiate", [](const py::dict& in, const py::dict& gradients, const py::dict& plan, const py::dict& out,
                            int chunk) {
    const int64_t blocks = k::block_bound(size(in, "flatten_ids", 0), size(in, "offsets", 0));
    splat::for_each_chunk(size(in, "colors", 1), chunk, [&](auto c, int64_t first, int channels) {
      Call call("differentiate", {static_cast<unsigned int>(blocks)}, {k::kDifferentiateThreads});
      call(differentiate_instance<decltype(c)::value>(), rasterize_inputs(call, in),
           rasterize_gradients(call, gradients), backward_plan(call, plan), backward_outputs(call, out), first,
           channels);
    });
  });
  m.def("number_positions", [](const py::dict& in, py::array ids, py::array positions) {
    Call call = for_each("number_positions", positions.size());
    call(simt_number_positions, rasterize_inputs(call, in), call.array<uint32_t>("ids", ids),
         call.array<int32_t>("positions", positions));
  });
  m.def("sum_slots", [](const py::dict& in, py::array ids, py::array positions, const py::dict& out) {
    Call call = for_each("sum_slots", size(in, "colors", 0) * k::kWarp);
    call(simt_sum_slots, rasterize_inputs(call, in), call.array<const uint32_t>("ids", ids),
         call.array<const int32_t>("positions", positions), backward_outputs(call, out));
  });
  m.def("slice_background", [](py::array alphas, py::array v_colors, py::array partial) {
    const int64_t images = partial.shape(0), slices = partial.shape(1), channels = partial.shape(2);
    Call call("slice_background", {static_cast<unsigned int>(images * slices)}, {256});
    call(simt_slice_background, call.array<const float>("alphas", alphas), call.array<const float>("v_colors", v_colors),
         static_cast<int64_t>(alphas.size()) / images, slices, channels, call.array<float>("partial", partial));
  });
  m.def("sum_slices", [](py::array partial, py::array v_backgrounds) {
    Call call = for_each("sum_slices", v_backgrounds.size());
    call(simt_sum_slices, call.array<const float>("partial", partial), static_cast<int64_t>(partial.shape(0)),
         static_cast<int64_t>(partial.shape(1)), static_cast<int64_t>(partial.shape(2)),
         call.array<float>("v_backgrounds", v_backgrounds));
  });
}

k::ProjectInputs project_inputs(Call& call, const py::dict& in) {
  return {{call.array<const float>(in, "means"), call.array<const float>(in, "quats"),
           call.array<const float>(in, "scales"), call.array<const float>(in, "covars"),
           call.array<const float>(in, "opacities")},
          {call.array<const float>(in, "coeffs"), in["coeffs"].is_none() ? 0 : size(in, "coeffs", 2),
           number<int>(in, "degree"), !in["coeffs"].is_none() && size(in, "coeffs", 0) == 1},
          call.array<const float>(in, "viewmats"),
          call.array<const float>(in, "Ks"),
          size(in, "viewmats", 0),
          size(in, "means", 0),
          {number<int>(in, "width"), number<int>(in, "height"), number<float>(in, "eps2d"),
           number<float>(in, "near_plane"), number<float>(in, "far_plane"), number<float>(in, "radius_clip"),
           number<bool>(in, "antialiased"), number<int>(in, "camera_model")}};
}

void project_kernels(py::module_& m) {
  m.def("project", [](const py::dict& in, const py::dict& out) {
    Call call = for_each("project", size(in, "viewmats", 0) * size(in, "means", 0));
    const splat::ProjectionRows outputs = {call.array<int32_t>(out, "radii"), call.array<float>(out, "means2d"),
                                           call.array<float>(out, "depths"), call.array<float>(out, "conics"),
                                           call.array<float>(out, "compensations"), call.array<float>(out, "colors")};
    call(simt_project, project_inputs(call, in), outputs);
  });
  m.def("project_backward", [](const py::dict& in, const py::dict& out, py::array v_coeffs, py::array pose_sums) {
    const auto blocks = static_cast<unsigned int>(pose_sums.shape(0));
    Call call("project_backward", {blocks}, {k::kProjectBackwardThreads});
    const splat::ProjectionGradientRows gradients = {
        call.array<const int32_t>(in, "radii"),       call.array<const float>(in, "conics"),
        call.array<const float>(in, "compensations"), call.array<const float>(in, "colors"),
        call.array<const float>(in, "v_means2d"),     call.array<const float>(in, "v_depths"),
        call.array<const float>(in, "v_conics"),      call.array<const float>(in, "v_compensations"),
        call.array<const float>(in, "v_colors")};
    const splat::GaussianGradients outputs = {call.array<float>(out, "means"), call.array<float>(out, "quats"),
                                              call.array<float>(out, "scales"), call.array<float>(out, "covars")};
    call(simt_project_backward, project_inputs(call, in), gradients, outputs,
         call.array<float>("v_coeffs", v_coeffs), call.array<float>("pose_sums", pose_sums));
  });
  m.def("sum_poses", [](py::array pose_sums, py::array v_viewmats) {
    const int64_t blocks = pose_sums.shape(0), images = pose_sums.shape(1);
    Call call("sum_poses", {static_cast<unsigned int>(16 * images)}, {k::kPoseThreads});
    call(simt_sum_poses, call.array<const float>("pose_sums", pose_sums), blocks, images,
         call.array<float>("v_viewmats", v_viewmats));
  });
}

splat::HarmonicsInputs harmonics_inputs(Call& call, const py::dict& in) {
  return {call.array<const float>(in, "directions"), call.array<const float>(in, "coeffs"),
          call.array<const bool>(in, "mask"),        size(in, "directions", 0),
          size(in, "directions", 1),                 size(in, "coeffs", 2),
          size(in, "coeffs", 0) == 1,                number<int>(in, "degree")};
}

void harmonics_kernels(py::module_& m) {
  m.def("spherical_harmonics", [](const py::dict& in, py::array colors) {
    Call call = for_each("spherical_harmonics", size(in, "directions", 0) * size(in, "directions", 1));
    call(simt_spherical_harmonics, harmonics_inputs(call, in), call.array<float>("colors", colors));
  });
  m.def("spherical_harmonics_backward", [](const py::dict& in, py::array v_directions, py::array v_coeffs) {
    Call call = for_each("spherical_harmonics_backward", size(in, "coeffs", 0) * size(in, "coeffs", 1));
    call(simt_spherical_harmonics_backward, harmonics_inputs(call, in), call.array<const float>(in, "v_colors"),
         call.array<float>("v_directions", v_directions), call.array<float>("v_coeffs", v_coeffs));
  });
}

void finite_kernels(py::module_& m) {
  m.def("find_finite", [](const py::dict& in, py::array finite, py::array invalid) {
    const int64_t scenes = size(in, "means", 0), gaussians = size(in, "means", 1);
    Call call = for_each("find_finite", scenes * gaussians);
    const splat::FiniteInputs inputs = {call.array<const float>(in, "means"),
                                        call.array<const float>(in, "quats"),
                                        call.array<const float>(in, "scales"),
                                        call.array<const float>(in, "covars"),
                                        call.array<const float>(in, "opacities"),
                                        call.array<const float>(in, "colors"),
                                        scenes,
                                        gaussians,
                                        size(in, "colors", 1),
                                        in["covars"].is_none() ? 0 : size(in, "covars", 2),
                                        size(in, "colors", 3)};
    call(simt_find_finite, inputs, call.array<bool>("finite", finite),
         call.array<unsigned long long>("invalid", invalid));
  });
}

using BrokenKernel = void (*)(const float*, float*);

void broken_kernels(py::module_& m) {
  static const std::map<std::string, BrokenKernel> kernels = {
#define SIMT_ENTRY(name, function) {#name, simt_##name},
      SIMT_BROKEN_KERNELS(SIMT_ENTRY)
#undef SIMT_ENTRY
  };
  m.def("run_broken", [](const std::string& name, py::array in, py::array out, std::array<unsigned int, 3> grid,
                         std::array<unsigned int, 3> block, size_t dynamic_bytes) {
    Call call(kernels.find(name)->first.c_str(), {grid[0], grid[1], grid[2]}, {block[0], block[1], block[2]},
              dynamic_bytes);
    call(kernels.at(name), call.array<const float>("in", in), call.array<float>("out", out));
  });
}

}  // namespace

PYBIND11_MODULE(splat_simt, m) {
  py::register_exception<simt::KernelError>(m, "KernelError");
  m.def("set_shared", [](const std::vector<std::tuple<std::string, size_t, size_t, bool>>& shared, size_t anchor) {
    std::vector<simt::Shared> all;
    for (const auto& [name, offset, bytes, dynamic] : shared) all.push_back({name, offset, bytes, dynamic});
    simt::set_shared(all, anchor);
  });
  m.def("set_seed", &simt::set_seed);
  m.def("launched", [] { return launched; });
  intersect_kernels(m);
  rasterize_kernels(m);
  project_kernels(m);
  harmonics_kernels(m);
  finite_kernels(m);
  broken_kernels(m);
}
