// The functions that the host calls to run our kernels; sort.h has those that sort. They are plain functions on
// addresses in the GPU's memory, which launch on a stream of the current device and do not wait. Arrays are contiguous,
// and of the shapes that their structs say; with nothing to do, nothing is launched. Each returns the error of its
// launches, or cudaSuccess.
#pragma once

#include <cuda_runtime_api.h>

#include "../math/image_loss_rows.h"
#include "../math/intersect_rows.h"
#include "../math/pack_rows.h"
#include "../math/project_rows.h"
#include "../math/rasterize_2dgs_rows.h"
#include "../math/rasterize_along_rays_rows.h"
#include "../math/rasterize_rows.h"
#include "../math/spherical_harmonics_rows.h"

namespace splat {

// Words of memory that a kernel sets to 0 for the next one.
struct Words {
  uint32_t* first;
  int64_t count;
};

// gaussians.cu

// Sets the arrays, and *invalid to the number of rows that are left out because a number is not finite.
cudaError_t launch_project(cudaStream_t stream, const ProjectInputs& in, const ProjectionRows& out,
                           unsigned long long* invalid);

constexpr int kPoseEntries = 12;  // the first three rows of a viewmat
// The blocks of `project_backward`; each leaves the sums of its Gaussians.
int64_t pose_sum_count(int64_t gaussians);

// v_coeffs like the coefficients, v_viewmats [I, 4, 4] or null; with it, pose_sums [pose_sum_count(N), I, kPoseEntries] is
// temporary.
cudaError_t launch_project_backward(cudaStream_t stream, const ProjectInputs& in,
                                    const ProjectionGradientRows& gradients, const GaussianGradients& out,
                                    float* v_coeffs, float* pose_sums, float* v_viewmats);

cudaError_t launch_spherical_harmonics(cudaStream_t stream, const HarmonicsInputs& in, float* colors);

cudaError_t launch_spherical_harmonics_backward(cudaStream_t stream, const HarmonicsInputs& in, const float* v_colors,
                                                float* v_directions, float* v_coeffs);

// launches.cu

struct IntersectTotals {
  unsigned long long tiles;    // pairs of all Gaussians
  unsigned long long flagged;  // Gaussians of one kind, which the launch names
};

// The floats of a Gaussian as its pairs are made from it.
constexpr int kListedFloats = 8;

// [count] each: the number of tiles, the depth_key, and the Gaussian's number; and [count, kListedFloats], whose address is
// a multiple of 32 bytes, of those that have tiles.
struct DepthOrder {
  int32_t* tiles_per_gauss;
  uint32_t* keys;
  int32_t* order;
  float* records;
};

// The words of 32 bits that a launch of so many threads needs to add up over them, an even number. They are 0 before, and
// their address is a multiple of 8 bytes.
int64_t sum_words(int64_t threads);

// Sets the arrays and *totals, with a flag for Gaussians whose image does not exist, and the words of 32 bits behind
// *totals to 0.
cudaError_t launch_count_tiles(cudaStream_t stream, const IntersectInputs& in, const DepthOrder& out,
                               IntersectTotals* totals, int64_t words);

// The pairs of each Gaussian, in the order of depth in [room]; none of a Gaussian for all of whose pairs there is no room,
// nor of those behind it, and none at all if there are 2^32 or more. If there are Gaussians, also clears words. `zeros`:
// sum_words(count). Preconditions: `by_depth` is what launch_count_tiles or launch_pack left, in order; *totals what the
// former or launch_count_shown left; and no image is bad.
cudaError_t launch_emit_pairs(cudaStream_t stream, const IntersectInputs& in, const DepthOrder& by_depth,
                              uint32_t* zeros, const IntersectTotals* totals, int64_t room, uint32_t* tile_keys,
                              int32_t* indices, const Words& cleared);

// offsets [I, rows, columns]: the position of each tile's first pair. Precondition: tile_keys [total] ascend.
cudaError_t launch_find_offsets(cudaStream_t stream, const IntersectInputs& in, int64_t total,
                                const uint32_t* tile_keys, int32_t* offsets);

// Of the dense layout. Sets places [count], the number of shown rows before each; tiles [count], unless it is null; and
// *totals, with a flag for rows that are shown, and the words behind it as launch_count_tiles does, of which it uses the
// first sum_words(count).
cudaError_t launch_count_shown(cudaStream_t stream, const IntersectInputs& in, int32_t* places, int32_t* tiles,
                               IntersectTotals* totals, int64_t words);

// Packs the rows that are shown; unless tiles is null, also sets what launch_count_tiles does, for the packed rows.
// Precondition: places and tiles are those of the above.
cudaError_t launch_pack(cudaStream_t stream, const PackInputs& in, const int32_t* places, const int32_t* tiles,
                        const PackedRows& out, const DepthOrder& packed);

cudaError_t launch_pack_backward(cudaStream_t stream, const PackGradients& in, const PackGradientOutputs& out);

// launches.cu, rasterize_backward.cu

// The floats of a Gaussian as the kernels below read it.
constexpr int kStagedFloats = 8;

// Sets staged [count, kStagedFloats], whose address is a multiple of 32 bytes, and the gradients that are not null to 0.
cudaError_t launch_stage_gaussians(cudaStream_t stream, const RasterizeInputs& in, float* staged,
                                   const RasterizeGradientOutputs& cleared);

// Precondition, as for the gradient: staged as above.
cudaError_t launch_rasterize(cudaStream_t stream, const RasterizeInputs& in, const float* staged,
                             const RasterizeOutputs& out);

// The values in a slot before those of the colours: mean, absolute mean, conic, opacity.
constexpr int kSlotValues = 8;

// Adds to the outputs, or, if they are not null, to slots [intersections, kSlotValues + channels], in the same order each
// time. Precondition: those are 0.
cudaError_t launch_differentiate(cudaStream_t stream, const RasterizeInputs& in, const float* staged,
                                 const RasterizeGradients& gradients, const RasterizeGradientOutputs& out,
                                 float* slots);

// The input of the sort that launch_sum_slots needs: the Gaussian at each position of the lists, and the position.
// Also clears words.
cudaError_t launch_number_positions(cudaStream_t stream, const RasterizeInputs& in, uint32_t* ids, int32_t* positions,
                                    const Words& cleared);

// Sets the outputs to the sums of each Gaussian's slots. runs [2, count] is temporary.
cudaError_t launch_sum_slots(cudaStream_t stream, const RasterizeInputs& in, const uint32_t* ids,
                             const int32_t* positions, const float* slots, int32_t* runs,
                             const RasterizeGradientOutputs& out);

// The parts in which the pixels of an image are summed for the gradient of its background.
SPLAT_HD int64_t background_slices(int64_t pixels) {
  const int64_t slices = pixels / 4096 + 1;
  return slices < 256 ? slices : 256;
}

// v_backgrounds [I, channels]; partial [I, background_slices(pixels), channels] is temporary.
cudaError_t launch_sum_backgrounds(cudaStream_t stream, const RasterizeInputs& in, int64_t images,
                                   const RasterizeGradients& gradients, float* partial, float* v_backgrounds);

// image_loss.cu

// The tiles of the images; each leaves its sums.
int64_t loss_sum_count(const ImageLossInputs& in);

// sums [loss_sum_count] is temporary.
cudaError_t launch_image_loss(cudaStream_t stream, const ImageLossInputs& in, ImageLossSums* sums,
                              const ImageLossOutputs& out);

cudaError_t launch_image_loss_backward(cudaStream_t stream, const ImageLossInputs& in,
                                       const ImageLossGradients& gradients);

// rasterize_2dgs.cu

// The floats of a 2D Gaussian as the kernels below read it.
constexpr int kSurfelFloats = 16;

// Sets surfels [count, kSurfelFloats], whose address is a multiple of 64 bytes.
cudaError_t launch_load_surfels(cudaStream_t stream, const Rasterize2dgsInputs& in, float* surfels);

cudaError_t launch_rasterize_2dgs(cudaStream_t stream, const Rasterize2dgsInputs& in, const float* surfels,
                                  const Rasterize2dgsOutputs& out);

// Adds to the outputs, in no fixed order. Precondition: those are 0.
cudaError_t launch_differentiate_2dgs(cudaStream_t stream, const Rasterize2dgsInputs& in, const float* surfels,
                                      const Rasterize2dgsGradients& gradients,
                                      const Rasterize2dgsGradientOutputs& out);

// rasterize_along_rays.cu

// The floats of a Gaussian in an image as the kernels below read it.
constexpr int kRayGaussianFloats = 16;

// Sets gaussians [count, kRayGaussianFloats], whose address is a multiple of 64 bytes.
cudaError_t launch_load_ray_gaussians(cudaStream_t stream, const AlongRaysInputs& in, float* gaussians);

cudaError_t launch_rasterize_along_rays(cudaStream_t stream, const AlongRaysInputs& in, const float* gaussians,
                                        const RasterizeOutputs& out);

// Adds to the gradient of the colours, in no fixed order, and sets the others; sums [count, kRaySums] is temporary.
// Precondition: sums and that gradient are 0.
cudaError_t launch_differentiate_along_rays(cudaStream_t stream, const AlongRaysInputs& in, const float* gaussians,
                                            const RasterizeGradients& gradients, float* sums,
                                            const AlongRaysGradientOutputs& out);

}  // namespace splat
