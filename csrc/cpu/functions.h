// What the operators call on the CPU: plain functions on arrays, contiguous and of the shapes that their structs say.
// They run on torch's threads.
#pragma once

#include <memory>
#include <vector>

#include "../math/image_loss_rows.h"
#include "../math/intersect_rows.h"
#include "../math/pack_rows.h"
#include "../math/project_rows.h"
#include "../math/rasterize_2dgs_rows.h"
#include "../math/rasterize_along_rays_rows.h"
#include "../math/rasterize_rows.h"
#include "../math/spherical_harmonics_rows.h"

namespace splat {
namespace cpu {

// gaussians.cpp

// Returns the number of rows that are left out because a number is not finite.
int64_t project(const ProjectInputs& in, const ProjectionRows& out);

// v_coeffs is shaped like the coefficients, v_viewmats [I, 4, 4], or null if nobody needs it.
void project_backward(const ProjectInputs& in, const ProjectionGradientRows& gradients, const GaussianGradients& out,
                      float* v_coeffs, float* v_viewmats);

void spherical_harmonics(const HarmonicsInputs& in, float* colors);

void spherical_harmonics_backward(const HarmonicsInputs& in, const float* v_colors, float* v_directions,
                                  float* v_coeffs);

// Sets places [I, N]; returns the number of rows that are shown.
int64_t place_rows(const PackInputs& in, int32_t* places);

// Precondition: `out` has as many rows.
void pack(const PackInputs& in, const int32_t* places, const PackedRows& out);

void pack_backward(const PackGradients& in, const PackGradientOutputs& out);

// intersect.cpp

struct DepthEntry {
  uint32_t key;  // bits of the depth
  int32_t index;
};

// Tiles [first, end) of one row, of all images, that a Gaussian reaches.
struct TileRun {
  int32_t first, end, index;
};

// The pairs of Gaussian and tile: counted first, because their number is the size of what receives them. All images must
// exist.
class TilePairs {
 public:
  // Sets tiles_per_gauss [count].
  TilePairs(const IntersectInputs& in, int32_t* tiles_per_gauss);

  int64_t count() const { return count_; }

  // Bytes of the rows of tiles that were counted but not kept, because there is no memory for them; then there is nothing
  // to write.
  int64_t missing_bytes() const { return missing_bytes_; }

  // Sets indices [count()], in order, and offsets [I, rows, columns]. Preconditions: count() <= kMaxCount, and
  // missing_bytes() is 0. Can be called once.
  void write(int32_t* indices, int32_t* offsets);

 private:
  int64_t piece_start(int64_t piece) const;

  IntersectInputs in_;
  std::vector<DepthEntry> entries_;  // the visible Gaussians, in order
  int64_t tiles_, pieces_, count_ = 0, missing_bytes_ = 0;
  std::vector<std::vector<TileRun>> runs_;  // of each piece, in order
  std::vector<int32_t> places_;  // [pieces, tiles]: how many pairs each piece has in each tile; then the next free place
};

// rasterize.cpp, rasterize_backward.cpp

// Precondition, as for the gradient: flatten_ids in [0, count), offsets ascending.
void rasterize(const RasterizeInputs& in, const RasterizeOutputs& out);

void rasterize_backward(const RasterizeInputs& in, const RasterizeGradients& gradients,
                        const RasterizeGradientOutputs& out);

// v_backgrounds [images, channels].
void sum_backgrounds(const RasterizeInputs& in, int64_t images, const RasterizeGradients& gradients,
                     float* v_backgrounds);

// image_loss.cpp

void image_loss(const ImageLossInputs& in, const ImageLossOutputs& out);

void image_loss_backward(const ImageLossInputs& in, const ImageLossGradients& gradients);

// rasterize_2dgs.cpp, with the same preconditions

void rasterize_2dgs(const Rasterize2dgsInputs& in, const Rasterize2dgsOutputs& out);

void rasterize_2dgs_backward(const Rasterize2dgsInputs& in, const Rasterize2dgsGradients& gradients,
                             const Rasterize2dgsGradientOutputs& out);

// rasterize_along_rays.cpp, with the same preconditions

void rasterize_along_rays(const AlongRaysInputs& in, const RasterizeOutputs& out);

void rasterize_along_rays_backward(const AlongRaysInputs& in, const RasterizeGradients& gradients,
                                   const AlongRaysGradientOutputs& out);

// instruction_set.cpp

// Selects an instruction set by name; false if this CPU does not have it, or there is no such name.
bool select_instruction_set(const char* name);

// The one in use.
const char* instruction_set_name();

}  // namespace cpu
}  // namespace splat
