// The operators on single Gaussians on the CPU.
#include <algorithm>
#include <atomic>

#include "functions.h"
#include "gaussian_rows.h"
#include "instruction_set.h"
#include "parallel.h"

namespace splat {
namespace cpu {
namespace {

std::vector<CameraParameters> load_cameras(const ProjectInputs& in) {
  std::vector<CameraParameters> cameras;
  cameras.reserve(static_cast<size_t>(in.images));
  for (int64_t image = 0; image < in.images; ++image) {
    cameras.push_back(load_camera(in.viewmats + 16 * image, in.intrinsics + 9 * image));
  }
  return cameras;
}

// The number of Gaussians whose gradients by the camera one thread sums. It does not depend on the number of threads,
// so that sums are always made in the same order.
constexpr int64_t kChunk = 1024;

}  // namespace

int64_t project(const ProjectInputs& in, const ProjectionRows& out) {
  const std::vector<CameraParameters> cameras = load_cameras(in);
  const auto project_rows = SPLAT_FOR_INSTRUCTION_SET(project_rows);
  std::atomic<int64_t> invalid{0};
  for (int64_t image = 0; image < in.images; ++image) {
    parallel_for(in.count, 1024, [&](int64_t begin, int64_t end) {
      invalid += project_rows(cameras[image], in, image, begin, end, out);
    });
  }
  return invalid;
}

void project_backward(const ProjectInputs& in, const ProjectionGradientRows& gradients, const GaussianGradients& out,
                      float* v_coeffs, float* v_viewmats) {
  const std::vector<CameraParameters> cameras = load_cameras(in);
  const auto project_rows_backward = SPLAT_FOR_INSTRUCTION_SET(project_rows_backward);
  const int64_t chunks = divide_up(in.count, kChunk);
  std::vector<PoseSum> poses(static_cast<size_t>(chunks * in.images));
  parallel_dynamic(chunks, 1, [&](int64_t, int64_t chunk) {
    const int64_t begin = chunk * kChunk, end = std::min(begin + kChunk, in.count);
    project_rows_backward(cameras.data(), in, gradients, begin, end, out, v_coeffs,
                          v_viewmats == nullptr ? nullptr : poses.data() + chunk * in.images);
  });

  for (int64_t image = 0; v_viewmats != nullptr && image < in.images; ++image) {
    PoseSum total = {};
    for (int64_t chunk = 0; chunk < chunks; ++chunk) {
      for (int k = 0; k < 12; ++k) total.rows[k] += poses[chunk * in.images + image].rows[k];
    }
    for (int k = 0; k < 16; ++k) v_viewmats[16 * image + k] = k < 12 ? static_cast<float>(total.rows[k]) : 0.0f;
  }
}

void spherical_harmonics(const HarmonicsInputs& in, float* colors) {
  parallel_for(in.images * in.gaussians, 1024, [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) harmonics_row(in, row, colors);
  });
}

void spherical_harmonics_backward(const HarmonicsInputs& in, const float* v_colors, float* v_directions,
                                  float* v_coeffs) {
  // One thread makes all sums of a set, over the images that share it, in their order.
  parallel_for(set_count(in), 256, [&](int64_t begin, int64_t end) {
    for (int64_t set = begin; set < end; ++set) harmonics_set_backward(in, set, v_colors, v_directions, v_coeffs);
  });
}

int64_t place_rows(const PackInputs& in, int32_t* places) {
  int32_t next = 0;
  for (int64_t row = 0; row < in.images * in.gaussians; ++row) {
    places[row] = next;
    next += is_shown(in.radii, row);
  }
  return next;
}

void pack(const PackInputs& in, const int32_t* places, const PackedRows& out) {
  parallel_for(in.images * in.gaussians, 1024, [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      if (is_shown(in.radii, row)) pack_row(in, row, places[row], out);
    }
  });
}

void pack_backward(const PackGradients& in, const PackGradientOutputs& out) {
  parallel_for(in.sets * in.gaussians, 1024, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) pack_backward_row(in, i / in.gaussians, i % in.gaussians, out);
  });
}

}  // namespace cpu
}  // namespace splat
