// Source of rasterize_block and rasterize_block_backward, and of project_rows, for 3D Gaussians; lanes.h says how it is
// compiled.
#include "gaussian_rows_source.h"
#include "rasterize_block_backward_source.h"
#include "rasterize_block_source.h"

namespace splat {
namespace SPLAT_ISA {
namespace {

template <bool kAbsolute>
SPLAT_HD int32_t walk(const BlockScene& scene, const BlockJob& job, const BlockGradients& gradients, int32_t filled,
                      float* scratch) {
  using Sums = MomentSums<kAbsolute>;
  const PixelCentres centres = pixel_centres(job);
  switch (scene.channels) {
    case 1:
      return walk_block<1, Sums, BlockBatch>(scene, job, centres, gradients, filled, scratch);
    case 3:
      return walk_block<3, Sums, BlockBatch>(scene, job, centres, gradients, filled, scratch);
    case 4:
      return walk_block<4, Sums, BlockBatch>(scene, job, centres, gradients, filled, scratch);
    default:
      return walk_block<0, Sums, BlockBatch>(scene, job, centres, gradients, filled, scratch);
  }
}

}  // namespace

void rasterize_block(const BlockScene& scene, const BlockJob& job, const BlockImages& images) {
  const PixelCentres centres = pixel_centres(job);
  for (int first = 0; first < scene.channels; first += kMaxChannels) {
    const int channels = scene.channels - first < kMaxChannels ? scene.channels - first : kMaxChannels;
    switch (channels) {
      case 1:
        rasterize_channels<1, BlockBatch>(scene, job, centres, images, first, channels);
        break;
      case 3:
        rasterize_channels<3, BlockBatch>(scene, job, centres, images, first, channels);
        break;
      case 4:
        rasterize_channels<4, BlockBatch>(scene, job, centres, images, first, channels);
        break;
      default:
        rasterize_channels<0, BlockBatch>(scene, job, centres, images, first, channels);
    }
  }
}

// Writes the slots of the entries [filled, result) of the tile's list and adds to those of [job.begin, filled). No
// pixel of the block needs entry `result` or a later one.
int32_t rasterize_block_backward(const BlockScene& scene, const BlockJob& job, const BlockGradients& gradients,
                                 int32_t filled, float* scratch) {
  return gradients.absolute ? walk<true>(scene, job, gradients, filled, scratch)
                            : walk<false>(scene, job, gradients, filled, scratch);
}

}  // namespace SPLAT_ISA
}  // namespace splat
