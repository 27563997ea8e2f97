// Distributing work among torch's threads, by the C interface of its stable ABI.
#pragma once

#include <atomic>
#include <new>

#include <torch/csrc/stable/c/shim.h>
#include <torch/headeronly/util/shim_utils.h>

namespace splat {

inline int64_t thread_count() {
  uint32_t count = 1;
  TORCH_ERROR_CODE_CHECK(torch_get_num_threads(&count));
  return count;
}

// Calls work(begin, end) for parts of [0, count) of at least `grain` items. If `work` gets no memory, that is thrown here:
// torch's C interface would only say that the call failed. Not by an exception_ptr, which takes a newer libstdc++.
template <class Work>
void parallel_for(int64_t count, int64_t grain, const Work& work) {
  struct Call {
    const Work& work;
    std::atomic<bool> lacks_memory{false};
  } call = {work};
  const auto part = [](int64_t begin, int64_t end, void* context) {
    Call& self = *static_cast<Call*>(context);
    try {
      self.work(begin, end);
    } catch (const std::bad_alloc&) {
      self.lacks_memory = true;
    }
  };
  TORCH_ERROR_CODE_CHECK(torch_parallel_for(0, count, grain, part, &call));
  if (call.lacks_memory) throw std::bad_alloc();
}

// Calls work(worker, i) for each i in [0, count), on the thread that is free next: for work of unequal size. Threads
// take `piece` items at a time. `worker` is below the number of threads, and no two calls with the same one overlap.
template <class Work>
void parallel_dynamic(int64_t count, int64_t piece, const Work& work) {
  std::atomic<int64_t> next{0};
  // Each worker takes pieces until there are none left, so it does not matter how torch distributes the workers.
  parallel_for(thread_count(), 1, [&](int64_t worker, int64_t) {
    for (;;) {
      const int64_t begin = next.fetch_add(piece);
      if (begin >= count) return;
      const int64_t end = begin + piece < count ? begin + piece : count;
      for (int64_t i = begin; i < end; ++i) work(worker, i);
    }
  });
}

}  // namespace splat
