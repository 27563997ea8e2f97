// Distributing work among torch's threads.
#pragma once

#include <atomic>

#include <torch/csrc/stable/ops.h>

namespace splat {

// Calls work(worker, i) for each i in [0, count), on the thread that is free next: for work of unequal size. Threads
// take `piece` items at a time. `worker` is below the number of threads, and no two calls with the same one overlap.
template <class Work>
void parallel_dynamic(int64_t count, int64_t piece, const Work& work) {
  std::atomic<int64_t> next{0};
  const int64_t workers = torch::stable::get_num_threads();
  // Each worker takes pieces until there are none left, so it does not matter how torch distributes the workers.
  torch::stable::parallel_for(0, workers, 1, [&](int64_t worker, int64_t) {
    for (;;) {
      const int64_t begin = next.fetch_add(piece);
      if (begin >= count) return;
      const int64_t end = begin + piece < count ? begin + piece : count;
      for (int64_t i = begin; i < end; ++i) work(worker, i);
    }
  });
}

}  // namespace splat
