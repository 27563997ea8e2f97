// The launches of the kernels for the loss of images.
#include "grid_launch.h"
#include "host_functions.h"
#include "image_loss_kernels.cuh"

namespace splat {

int64_t loss_sum_count(const ImageLossInputs& in) { return kernels::loss_tiles(in); }

cudaError_t launch_image_loss(cudaStream_t stream, const ImageLossInputs& in, ImageLossSums* sums,
                              const ImageLossOutputs& out) {
  const int64_t tiles = kernels::loss_tiles(in);
  SPLAT_RETURN_ON_ERROR(
      launch_blocks(stream, tiles, kernels::kLossThreads, kernels::image_loss, in, out.partials, sums));
  return launch_blocks(stream, 1, kThreads, kernels::finish_image_loss, in, sums, tiles, out);
}

cudaError_t launch_image_loss_backward(cudaStream_t stream, const ImageLossInputs& in,
                                       const ImageLossGradients& gradients) {
  return launch_blocks(stream, kernels::loss_tiles(in), kernels::kLossThreads, kernels::image_loss_backward, in,
                       gradients);
}

}  // namespace splat
