// The numbers of channels that kernels are compiled for. Each adds seconds to a build, for every architecture.
#pragma once

#include <algorithm>
#include <cstdint>
#include <type_traits>

namespace splat {

// Calls run(std::integral_constant<int, C>(), first, channels) for each chunk of the channels, where C >= channels is a
// number that kernels are compiled for.
template <class Run>
void for_each_chunk(int64_t all_channels, int largest, const Run& run) {
  for (int64_t first = 0; first < all_channels; first += largest) {
    const int channels = static_cast<int>(std::min<int64_t>(largest, all_channels - first));
    if (channels <= 3) {
      run(std::integral_constant<int, 3>(), first, channels);
    } else if (channels == 4) {
      run(std::integral_constant<int, 4>(), first, channels);
    } else if (channels <= 8) {
      run(std::integral_constant<int, 8>(), first, channels);
    } else {
      run(std::integral_constant<int, 32>(), first, channels);
    }
  }
}

}  // namespace splat
