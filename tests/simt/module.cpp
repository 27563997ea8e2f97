// The Python module: what the tests set and ask for, and the launch of kernels that are wrong.
#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <algorithm>
#include <array>

#include "broken_kernels.h"
#include "counters.h"
#include "cuda/sort.h"
#include "engine.h"
#include "runtime.h"

#undef threadIdx
#undef blockIdx
#undef blockDim
#undef gridDim

namespace py = pybind11;

namespace {

const std::map<std::string, void (*const*)(const float*, float*)> broken_kernels = {
#define SIMT_ENTRY(name) {#name, &simt_##name},
    SIMT_BROKEN_KERNELS(SIMT_ENTRY)
#undef SIMT_ENTRY
};

simt::Array array(const char* name, const py::array& numbers) {
  return {name, numbers.data(), static_cast<size_t>(numbers.nbytes()), static_cast<size_t>(numbers.itemsize())};
}

// Calls a function of sort.h with as many words as it takes, which are 0.
template <class Launch>
void with_zeros(int64_t words, const Launch& launch) {
  std::vector<uint64_t> memory(static_cast<size_t>(words / 2 + 1));
  simt::use({"zeros", memory.data(), static_cast<size_t>(words) * sizeof(uint32_t), sizeof(uint32_t)});
  if (launch(reinterpret_cast<uint32_t*>(memory.data())) != cudaSuccess) throw std::runtime_error("not launched");
}

void run_broken(const std::string& name, py::array_t<float, py::array::c_style> in,
                py::array_t<float, py::array::c_style> out, std::array<unsigned int, 3> grid,
                std::array<unsigned int, 3> block, size_t dynamic_bytes) {
  const simt::Launch launch = {name.c_str(), {grid[0], grid[1], grid[2]}, {block[0], block[1], block[2]},
                               dynamic_bytes, {array("in", in), array("out", out)}};
  simt::launch(launch, *broken_kernels.at(name), in.data(), out.mutable_data());
}

// A kernel's argument: the bytes of a number, an array, None for a null pointer, or a tuple of these for a struct.
std::string value_of(const py::handle& argument, std::vector<simt::Array>& arrays) {
  if (py::isinstance<py::bytes>(argument)) return py::cast<std::string>(argument);
  if (py::isinstance<py::tuple>(argument)) {
    std::string all;
    for (const py::handle& part : argument) all += value_of(part, arrays);
    return all;
  }
  const void* begin = nullptr;
  if (!argument.is_none()) {
    const auto numbers = py::cast<py::array>(argument);
    if ((numbers.flags() & py::array::c_style) == 0) throw py::value_error("an array must be contiguous");
    begin = numbers.data();
    arrays.push_back({"array " + std::to_string(arrays.size()), begin, static_cast<size_t>(numbers.nbytes()),
                      std::min<size_t>(4, static_cast<size_t>(numbers.itemsize()))});
  }
  return {reinterpret_cast<const char*>(&begin), sizeof begin};
}

// Launches a kernel that is executed as PTX.
void run_ptx(const std::string& name, std::array<unsigned int, 3> grid, std::array<unsigned int, 3> block,
             size_t dynamic_bytes, const std::vector<py::object>& arguments, bool ended_lanes_leave) {
  simt::Launch launch = {name.c_str(), {grid[0], grid[1], grid[2]}, {block[0], block[1], block[2]}, dynamic_bytes, {}};
  launch.ended_lanes_leave = ended_lanes_leave;
  std::vector<std::string> values;
  for (const py::object& argument : arguments) values.push_back(value_of(argument, launch.arrays));
  std::vector<char*> addresses;
  for (std::string& value : values) addresses.push_back(value.data());
  simt::run(launch, simt::ptx_kernels().at(name), addresses.data());
}

template <class T>
using Numbers = py::array_t<T, py::array::c_style>;

// The keys and the values, sorted.
py::tuple sort_pairs(const Numbers<uint32_t>& keys, const Numbers<int32_t>& values, int bits) {
  Numbers<uint32_t> all_keys[2] = {keys.attr("copy")(), keys.attr("copy")()};
  Numbers<int32_t> all_values[2] = {values.attr("copy")(), values.attr("copy")()};
  splat::PairBuffers pairs = {{}, {}, 0};
  for (int half = 0; half < 2; ++half) {
    pairs.keys[half] = all_keys[half].mutable_data();
    pairs.values[half] = all_values[half].mutable_data();
    simt::use(array("keys", all_keys[half]));
    simt::use(array("values", all_values[half]));
  }
  with_zeros(splat::sort_words(keys.size(), bits),
             [&](uint32_t* zeros) { return splat::launch_sort(nullptr, zeros, pairs, keys.size(), bits); });
  return py::make_tuple(all_keys[pairs.current], all_values[pairs.current]);
}

}  // namespace

PYBIND11_MODULE(SIMT_OPERATORS, m) {
  // This module's own: a process may have several. What an operator raises is torch's to translate.
  py::register_local_exception<simt::KernelError>(m, "KernelError", PyExc_RuntimeError);
  m.def("set_shared", [](const std::vector<std::tuple<std::string, size_t, size_t, bool>>& shared, size_t anchor) {
    std::vector<simt::Shared> all;
    for (const auto& [name, offset, bytes, dynamic] : shared) all.push_back({name, offset, bytes, dynamic});
    simt::set_shared(all, anchor);
  });
  m.def("set_kernels", &simt::set_kernels);
  m.def("set_seed", &simt::set_seed);
  m.def("launched", &simt::launched);
  m.def("calls", &simt::calls);
  // By kernel: launches, warps, sectors read and written; its blocks and its sites.
  m.def("counts", [] {
    std::map<std::string, std::map<std::string, std::vector<std::vector<int64_t>>>> all;
    for (const auto& [name, kernel] : simt::counted()) {
      auto& found = all[name];
      found["blocks"] = found["sites"] = {};
      found["kernel"] = {{kernel.launches, kernel.warps, kernel.read, kernel.written}};
      for (const auto& block : kernel.blocks) {
        found["blocks"].push_back({block.visits, block.lanes, block.divergent});
      }
      for (const auto& site : kernel.sites) found["sites"].push_back({site.requests, site.lanes, site.parts});
    }
    return all;
  });
  m.def("clear_counts", &simt::clear_counts);
  m.def("fail", &simt::fail);
  m.def("run_broken", &run_broken);
  m.def("run_ptx", &run_ptx);
  m.def("sort_pairs", &sort_pairs);
}
