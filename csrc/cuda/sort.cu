// What sort.h declares, with CUB, which takes long to compile and is therefore used only here, with one instantiation
// of each: counts fit into 32 bits.
// Ranges for profilers and numbers of 16 bits, whose headers take a third of the time.
#define CCCL_DISABLE_NVTX
#define CCCL_DISABLE_FP16_SUPPORT
#include <cub/device/device_radix_sort.cuh>
#include <cub/device/device_scan.cuh>

#include "sort.h"

namespace splat {

cudaError_t launch_sort(cudaStream_t stream, void* memory, size_t& bytes, PairBuffers& pairs, int64_t count, int bits) {
  const int other = 1 - pairs.current;
  cub::DoubleBuffer<uint32_t> keys(pairs.keys[pairs.current], pairs.keys[other]);
  cub::DoubleBuffer<int32_t> values(pairs.values[pairs.current], pairs.values[other]);
  const cudaError_t status =
      cub::DeviceRadixSort::SortPairs(memory, bytes, keys, values, static_cast<int>(count), 0, bits, stream);
  if (keys.selector != values.selector) return cudaErrorUnknown;
  if (keys.selector == 1) pairs.current = other;
  return status;
}

cudaError_t launch_exclusive_sum(cudaStream_t stream, void* memory, size_t& bytes, int32_t* numbers, int64_t count) {
  return cub::DeviceScan::ExclusiveSum(memory, bytes, numbers, numbers, static_cast<uint32_t>(count), stream);
}

}  // namespace splat
