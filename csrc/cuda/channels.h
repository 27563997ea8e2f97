// The numbers of channels that kernels are compiled for. Each adds seconds to a build, for every architecture.
#pragma once

#include <cuda_runtime_api.h>
#include <stdint.h>

namespace splat {

constexpr int kMostChannels = 32;

template <int C>
struct Channels {
  static constexpr int value = C;
};

// Calls run(Channels<C>(), first, channels) for each chunk of the channels, where C >= channels is a number that kernels
// are compiled for, until a call returns an error; returns that.
template <class Run>
cudaError_t for_each_chunk(int64_t all_channels, int largest, const Run& run) {
  cudaError_t status = cudaSuccess;
  for (int64_t first = 0; first < all_channels && status == cudaSuccess; first += largest) {
    const int channels = all_channels - first < largest ? static_cast<int>(all_channels - first) : largest;
    if (channels <= 3) {
      status = run(Channels<3>(), first, channels);
    } else if (channels == 4) {
      status = run(Channels<4>(), first, channels);
    } else if (channels <= 8) {
      status = run(Channels<8>(), first, channels);
    } else {
      status = run(Channels<kMostChannels>(), first, channels);
    }
  }
  return status;
}

}  // namespace splat
