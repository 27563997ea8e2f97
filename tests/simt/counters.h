// What counts the work of warps while kernels are executed as PTX: ptx_counting.py writes the calls, which are compiled
// with SIMT_COUNT alone. Nothing is checked then, for speed: that is what the tests do.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace simt {

enum class Space { kGlobal, kShared };

// Of one basic block of a kernel. A visit is one execution by a warp, with any of its lanes.
struct BlockCount {
  int64_t visits = 0, lanes = 0;
  int64_t divergent = 0;  // visits whose lanes part at the branch at the end
};

// Of one instruction that accesses memory.
struct SiteCount {
  int64_t requests = 0;  // of warps
  int64_t lanes = 0;
  int64_t parts = 0;  // sectors of 32 bytes, or wavefronts of shared memory
};

struct KernelCount {
  int64_t launches = 0, warps = 0;
  int64_t read = 0, written = 0;  // sectors of global memory that a launch touches, each once
  std::vector<BlockCount> blocks;
  std::vector<SiteCount> sites;
};

// By name, since they were cleared.
const std::map<std::string, KernelCount>& counted();
void clear_counts();

// In a thread, by the statements of a kernel. The first begins it. `path` says in which trips of which loops the lane
// is; `site` is the number of the block's first one of `sites`, `index` one of them.
uint64_t count_entry();
inline uint64_t count_trip(uint64_t path, uint64_t loop, uint64_t trip) {
  uint64_t mixed = (path ^ (loop << 48) ^ trip) * 0x9E3779B97F4A7C15ull;
  mixed = (mixed ^ mixed >> 29) * 0xBF58476D1CE4E5B9ull;
  return (mixed ^ mixed >> 32) << 12;  // a block's number is added
}
void count_visit(uint64_t key, int block, int site, int sites);
void count_taken();
void count_access(int index, const void* address, int bytes, Space space, bool write);

// By the engine. Threads of a block are numbered.
void begin_counting(const char* kernel);
void begin_counting_block(int threads);
void count_thread(int number);
// All lanes of a warp that have not ended are at the same place; or of all warps.
void end_visits(int warp);
void end_visits();
void end_counting();

}  // namespace simt
