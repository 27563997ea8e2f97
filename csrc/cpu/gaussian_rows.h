// The inner loops of project on the CPU. Their source, gaussian_rows_source.h, is compiled once per instruction set: from
// SSE4.1 on what is chosen by a condition needs no branch, which takes a third of the time.
#pragma once

#include "../math/project_rows.h"

namespace splat {

// A gradient by a pose, summed: of the viewmat's first three rows, row-major.
struct PoseSum {
  double rows[12];
};

// project_rows: the rows of Gaussians [begin, end) in an image; returns how many are left out because a number is not
// finite. project_rows_backward: the gradients of Gaussians [begin, end), and what they add to pose_sums [images], unless
// that is null.
#define SPLAT_GAUSSIAN_ROWS                                                                                           \
  int64_t project_rows(const CameraParameters& camera, const ProjectInputs& in, int64_t image, int64_t begin,         \
                       int64_t end, const ProjectionRows& out);                                                       \
  void project_rows_backward(const CameraParameters* cameras, const ProjectInputs& in,                                \
                             const ProjectionGradientRows& gradients, int64_t begin, int64_t end,                     \
                             const GaussianGradients& out, float* v_coeffs, PoseSum* pose_sums)

namespace baseline {
SPLAT_GAUSSIAN_ROWS;
}
namespace avx2 {
SPLAT_GAUSSIAN_ROWS;
}
namespace avx512 {
SPLAT_GAUSSIAN_ROWS;
}

}  // namespace splat
