// The threads of a block are fibres, each with a stack of its own, that take turns: one runs until it waits or ends.
// Errors are
//   - an access outside of the launch's arrays, the shared memory and the thread's own variables;
//   - shared memory that is read before this block wrote it;
//   - a race: two threads use the same bytes, one of them to write, not both by atomics, and no barrier between them
//     (for threads of different blocks there is none);
//   - a barrier that not all threads of a block reach: others have ended, or wait at another;
//   - a function of a warp that not all lanes of its mask call, or that reads a lane outside of it.
#include <setjmp.h>
#include <sys/mman.h>
#include <ucontext.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <memory>
#include <numeric>
#include <random>
#include <sstream>

#include "counters.h"
#include "engine.h"
#include "ptx.h"
#include "simt.h"

// simt.h's names for the source of kernels.
#undef threadIdx
#undef blockIdx
#undef blockDim
#undef gridDim

extern "C" {
// Where this thread's copies of the shared memory are, once its offset among them is known.
thread_local char simt_anchor = 0;
}

namespace simt {
namespace {

#ifdef SIMT_COUNT
constexpr bool kCount = true;
#else
constexpr bool kCount = false;
#endif
constexpr size_t kStackBytes = 256 << 10;
constexpr int kWarp = 32;

enum class State { kReady, kAtBarrier, kInWarp, kEnded };

struct Fibre {
  char* stack = nullptr;
  ucontext_t start;
  jmp_buf resume;
  bool started = false;
  State state = State::kReady;
  Index index = {0, 0, 0};
  int number = 0;
  // What it waits for.
  int op = 0;
  unsigned int mask = 0;
  uint64_t value = 0;
  int lane_argument = 0;
  const char* file = nullptr;
  int line = 0;
  // How many barriers of the block, and full ones of its warp, it has passed.
  int barriers = 0, warp_barriers = 0;
};

// Who touched some bytes, and when.
struct Access {
  int64_t block = -1;
  int thread = 0, barriers = 0, warp_barriers = 0;
  bool atomic = false;
};

struct Cell {
  Access write, read;
  // Since the barrier before `read`: of its warp alone, or of several.
  bool several_readers = false, several_warps = false;
};

struct Region {
  std::string name;
  const char* begin;
  size_t bytes;
  bool shared;
  size_t granule;  // bytes of a cell
  std::vector<Cell> cells = {};
};

std::vector<Shared> shared_memory;
size_t anchor_offset = 0;
unsigned int seed = 0;
std::vector<Fibre> fibres;

// Of the launch that runs; null if none does.
struct Running {
  const Launch* launch;
  void (*kernel)(void*);
  void* context;
  std::map<const char*, Region> regions;  // by their first byte
  Index block = {0, 0, 0};
  int64_t block_number = 0;
  int threads = 0;
  std::string error = {};
};
Running* running = nullptr;
Fibre* self = nullptr;
jmp_buf scheduler;

[[noreturn]] void leave() { _longjmp(scheduler, 1); }

void wait(State state) {
  self->state = state;
  if (_setjmp(self->resume) == 0) leave();
}

std::string describe(const Index& index) {
  return "(" + std::to_string(index.x) + ", " + std::to_string(index.y) + ", " + std::to_string(index.z) + ")";
}

std::string describe_thread(const Fibre& fibre) { return "thread " + describe(fibre.index); }

std::string describe_place(const char* file, int line) {
  const char* slash = strrchr(file, '/');
  return std::string(slash == nullptr ? file : slash + 1) + ":" + std::to_string(line);
}

std::string describe_launch(const Fibre& fibre) {
  return std::string(running->launch->name) + ": " + describe_thread(fibre) + " of block " + describe(running->block) +
         " ";
}

// Ends the launch. Only in a fibre.
[[noreturn]] void fail(const std::string& message) {
  running->error = describe_launch(*self) + message;
  leave();
}

void enter() {
  running->kernel(running->context);
  self->state = State::kEnded;
  leave();
}

void resume(Fibre& fibre) {
  self = &fibre;
  if (kCount) count_thread(fibre.number);
  if (_setjmp(scheduler) == 0) {
    if (fibre.started) _longjmp(fibre.resume, 1);
    fibre.started = true;
    setcontext(&fibre.start);
  }
  self = nullptr;
}

void prepare(Fibre& fibre, int number, const Size& block) {
  if (fibre.stack == nullptr) {
    void* memory = mmap(nullptr, kStackBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) throw std::bad_alloc();
    fibre.stack = static_cast<char*>(memory);
  }
  fibre.started = false;
  fibre.state = State::kReady;
  fibre.barriers = fibre.warp_barriers = 0;
  fibre.number = number;
  const auto n = static_cast<unsigned int>(number);
  fibre.index = {n % block.x, n / block.x % block.y, n / block.x / block.y};
  getcontext(&fibre.start);
  fibre.start.uc_stack.ss_sp = fibre.stack;
  // Stacks do not end at the same places of pages, which would share few lines of the cache.
  fibre.start.uc_stack.ss_size = kStackBytes - static_cast<size_t>(number % 61) * 1088;
  fibre.start.uc_link = nullptr;
  makecontext(&fibre.start, enter, 0);
}

std::string describe_wait(const Fibre& fibre) {
  if (fibre.state == State::kEnded) return describe_thread(fibre) + " has ended";
  return describe_thread(fibre) + " waits at " + describe_place(fibre.file, fibre.line);
}

// Lets all go on that wait at the block's barrier; an error unless all do, at the same.
void release_barrier() {
  const Fibre& first = *std::find_if(fibres.begin(), fibres.begin() + running->threads,
                                     [](const Fibre& fibre) { return fibre.state != State::kEnded; });
  int count = 0;
  for (int i = 0; i < running->threads; ++i) {
    const Fibre& fibre = fibres[i];
    if (first.state == State::kAtBarrier && fibre.state == State::kAtBarrier && fibre.line == first.line &&
        strcmp(fibre.file, first.file) == 0) {
      count += fibre.value != 0;
      continue;
    }
    const Fibre& other = fibre.state == State::kEnded || &fibre != &first ? fibre : first;
    running->error = std::string(running->launch->name) + ": divergence in block " + describe(running->block) + ": " +
                     describe_wait(first) + ", but " + describe_wait(other);
    if (first.state == State::kInWarp || fibre.state == State::kInWarp) {
      const Fibre& stuck = first.state == State::kInWarp ? first : fibre;
      std::ostringstream text;
      text << running->launch->name << ": divergence in a warp of block " << describe(running->block) << ": "
           << describe_wait(stuck) << " for the lanes 0x" << std::hex << stuck.mask << std::dec;
      const int warp = stuck.number / kWarp * kWarp;
      for (int lane = 0; lane < kWarp; ++lane) {
        if ((stuck.mask >> lane & 1) == 0) continue;
        if (warp + lane >= running->threads) {
          text << ", but the block has no lane " << lane;
          break;
        }
        const Fibre& missing = fibres[warp + lane];
        if (missing.state == State::kInWarp && missing.line == stuck.line && missing.op == stuck.op) continue;
        text << ", but " << describe_wait(missing);
        break;
      }
      running->error = text.str();
    }
    return;
  }
  if (kCount) end_visits();
  for (int i = 0; i < running->threads; ++i) {
    Fibre& fibre = fibres[i];
    ++fibre.barriers;
    fibre.state = State::kReady;
    switch (static_cast<BlockOp>(fibre.op)) {
      case BlockOp::kSync: break;
      case BlockOp::kCount: fibre.value = count; break;
      case BlockOp::kAnd: fibre.value = count == running->threads; break;
      case BlockOp::kOr: fibre.value = count > 0; break;
    }
  }
}

uint64_t lanes_with(const uint64_t* values, unsigned int mask, uint64_t value) {
  uint64_t lanes = 0;
  for (int lane = 0; lane < kWarp; ++lane) lanes |= static_cast<uint64_t>((mask >> lane & 1) && values[lane] == value) << lane;
  return lanes;
}

// Whether a thread is where the other waits, in a function of the warp, or need not come.
bool has_arrived(int number, const Fibre& other) {
  if (number >= running->threads) return false;
  const Fibre& fibre = fibres[number];
  if (fibre.state == State::kEnded) return running->launch->ended_lanes_leave;
  return fibre.state == State::kInWarp && fibre.op == other.op && fibre.mask == other.mask && fibre.line == other.line &&
         (fibre.file == other.file || strcmp(fibre.file, other.file) == 0);
}

// Whether all lanes have arrived that one of them waits for, but for itself.
bool all_have_arrived(const Fibre& fibre) {
  const int warp = fibre.number / kWarp * kWarp, own = fibre.number % kWarp;
  for (int lane = kWarp - 1; lane >= 0; --lane) {  // the last one mostly comes last
    if ((fibre.mask >> lane & 1) != 0 && lane != own && !has_arrived(warp + lane, fibre)) return false;
  }
  return true;
}

void exchange(const Fibre& last);

// Lets lanes go on that wait for others which have ended meanwhile; whether there are any.
bool release_warp() {
  for (int i = 0; i < running->threads; ++i) {
    if (fibres[i].state != State::kInWarp || !all_have_arrived(fibres[i])) continue;
    exchange(fibres[i]);
    return true;
  }
  return false;
}

void run_block(const std::vector<int>& order, const Size& block) {
  for (int i = 0; i < running->threads; ++i) prepare(fibres[i], i, block);
  if (kCount) begin_counting_block(running->threads);
  for (;;) {
    bool progress = false;
    int ended = 0;
    for (const int i : order) {
      if (fibres[i].state == State::kReady) {
        progress = true;
        resume(fibres[i]);
        if (!running->error.empty()) return;
      }
      ended += fibres[i].state == State::kEnded;
    }
    if (ended == running->threads) {
      if (kCount) end_visits();
      return;
    }
    if (!progress && !release_warp()) release_barrier();
    if (!running->error.empty()) return;
  }
}

std::vector<int> turns(int count, std::mt19937& random) {
  std::vector<int> order(count);
  std::iota(order.begin(), order.end(), 0);
  if (seed != 0) std::shuffle(order.begin(), order.end(), random);
  return order;
}

// Whether what `before` did is surely over when the present thread does something.
bool ordered(const Access& before, const Access& now) {
  if (before.block != now.block) return false;
  return before.thread == now.thread || before.barriers < now.barriers ||
         (before.thread / kWarp == now.thread / kWarp && before.warp_barriers < now.warp_barriers);
}

void check_race(Region& region, size_t first, size_t bytes, bool write, bool atomic) {
  if (region.cells.empty()) region.cells.resize((region.bytes + region.granule - 1) / region.granule);
  const Access now = {running->block_number, self->number, self->barriers, self->warp_barriers, atomic};
  const auto conflict = [&](const char* what, const Access& before) {
    fail(std::string(write ? "writes" : "reads") + " byte " + std::to_string(first) + " of " + region.name + ", which " +
         "thread " + std::to_string(before.thread) + " of block " + std::to_string(before.block) + " " + what +
         " with no barrier between");
  };
  for (size_t i = first / region.granule; i <= (first + bytes - 1) / region.granule; ++i) {
    Cell& cell = region.cells[i];
    if (region.shared && cell.write.block != now.block) {
      if (!write) fail("reads byte " + std::to_string(first) + " of " + region.name + " before this block wrote it");
      cell = {};
    }
    if (cell.write.block >= 0 && !(atomic && cell.write.atomic) && !ordered(cell.write, now)) {
      conflict("writes", cell.write);
    }
    if (write) {
      const bool races = cell.read.block >= 0 && !(atomic && cell.read.atomic) &&
                         (!ordered(cell.read, now) ||
                          (cell.read.block == now.block && cell.read.barriers >= now.barriers &&
                           (cell.several_warps ||
                            (cell.several_readers && cell.read.warp_barriers >= now.warp_barriers))));
      if (races) conflict("reads", cell.read);
      cell.write = now;
    }
    if (!write || atomic) {
      const bool same_turn = cell.read.block == now.block && cell.read.barriers == now.barriers;
      cell.several_readers = same_turn && cell.read.warp_barriers == now.warp_barriers &&
                             (cell.several_readers || cell.read.thread != now.thread);
      cell.several_warps = same_turn && (cell.several_warps || cell.read.thread / kWarp != now.thread / kWarp);
      cell.read = now;
    }
  }
}

void check_access(const void* address, size_t bytes, bool write, bool atomic) {
  if (self == nullptr || bytes == 0) return;
  const char* first = static_cast<const char*>(address);
  if (first >= self->stack && first + bytes <= self->stack + kStackBytes) return;
  auto above = running->regions.upper_bound(first);
  if (above != running->regions.begin()) {
    Region& region = std::prev(above)->second;
    const auto at = static_cast<size_t>(first - region.begin);
    if (at + bytes <= region.bytes) return check_race(region, at, bytes, write, atomic);
  }
  std::ostringstream text;
  text << (write ? "writes " : "reads ") << bytes << " bytes outside of its memory: ";
  const bool has_below = above != running->regions.begin(), has_above = above != running->regions.end();
  if (!has_below && !has_above) {
    text << "it has none";
  } else {
    const Region* near = has_below ? &std::prev(above)->second : &above->second;
    if (has_below && has_above && above->second.begin - first < first - (near->begin + near->bytes)) near = &above->second;
    text << near->name << " has " << near->bytes << " bytes, and this is at " << first - near->begin;
  }
  fail(text.str());
}

}  // namespace

void set_shared(std::vector<Shared> shared, size_t anchor) {
  shared_memory = std::move(shared);
  anchor_offset = anchor;
}

void set_seed(unsigned int value) { seed = value; }

void run(const Launch& launch, void (*kernel)(void*), void* context) {
  Running state = {&launch, kernel, context, {}};
  state.threads = static_cast<int>(launch.block.x * launch.block.y * launch.block.z);
  if (state.threads == 0 || state.threads > 1024) throw KernelError("a block has 1 to 1024 threads");
  for (const Array& array : launch.arrays) {
    const char* begin = static_cast<const char*>(array.begin);
    if (array.bytes > 0) state.regions.emplace(begin, Region{array.name, begin, array.bytes, false, array.item_bytes});
  }
  for (const Shared& shared : shared_memory) {
    const char* begin = &simt_anchor - anchor_offset + shared.offset;
    const size_t bytes = shared.dynamic ? std::min(shared.bytes, launch.dynamic_bytes) : shared.bytes;
    if (bytes > 0) state.regions.emplace(begin, Region{"shared " + shared.name, begin, bytes, true, 1});
  }
  if (fibres.size() < static_cast<size_t>(state.threads)) fibres.resize(state.threads);
  running = &state;
  if (kCount) begin_counting(launch.name);
  std::mt19937 random(seed);
  const int blocks = static_cast<int>(launch.grid.x * launch.grid.y * launch.grid.z);
  for (const int number : turns(blocks, random)) {
    const auto n = static_cast<unsigned int>(number);
    state.block = {n % launch.grid.x, n / launch.grid.x % launch.grid.y, n / launch.grid.x / launch.grid.y};
    state.block_number = number;
    run_block(turns(state.threads, random), launch.block);
    if (!state.error.empty()) break;
  }
  running = nullptr;
  if (kCount) end_counting();
  if (!state.error.empty()) throw KernelError(state.error);
}

Index thread_index() { return self->index; }
Index block_index() { return running->block; }
Index block_size() { return {running->launch->block.x, running->launch->block.y, running->launch->block.z}; }
Index grid_size() { return {running->launch->grid.x, running->launch->grid.y, running->launch->grid.z}; }

int block_barrier(BlockOp op, int predicate, const char* file, int line) {
  self->op = static_cast<int>(op);
  self->value = predicate != 0;
  self->file = file;
  self->line = line;
  wait(State::kAtBarrier);
  return static_cast<int>(self->value);
}

unsigned int active_lanes(const char* file, int line) {
  self->op = static_cast<int>(WarpOp::kActive);
  self->mask = 0;  // nobody is waited for: what else can go on goes on first (release_warp)
  self->file = file;
  self->line = line;
  wait(State::kInWarp);
  return static_cast<unsigned int>(self->value);
}

uint64_t warp_collective(WarpOp op, unsigned int mask, uint64_t value, int argument, const char* file, int line) {
  const int own = self->number % kWarp;
  self->op = static_cast<int>(op);
  self->mask = mask;
  self->value = value;
  self->lane_argument = argument;
  self->file = file;
  self->line = line;
  if ((mask >> own & 1) == 0) fail("calls at " + describe_place(file, line) + " with a mask that leaves it out");
  if (!all_have_arrived(*self)) {
    wait(State::kInWarp);
    return self->value;
  }
  exchange(*self);
  if (!running->error.empty()) leave();
  return self->value;
}

namespace {

// The last lane has arrived: works out what all receive.
void exchange(const Fibre& last) {
  const int warp = last.number / kWarp * kWarp;
  const auto op = static_cast<WarpOp>(last.op);
  unsigned int mask = last.mask;
  if (kCount && mask == 0xffffffffu) end_visits(warp / kWarp);
  for (int lane = 0; lane < kWarp; ++lane) {
    if (warp + lane < running->threads && fibres[warp + lane].state == State::kEnded) mask &= ~(1u << lane);
  }
  for (int lane = 0; op == WarpOp::kActive && lane < kWarp && warp + lane < running->threads; ++lane) {
    const Fibre& fibre = fibres[warp + lane];
    if (fibre.state == State::kInWarp && fibre.op == last.op && fibre.line == last.line) mask |= 1u << lane;
  }
  uint64_t values[kWarp] = {}, all = op == WarpOp::kActive ? mask : 0;
  bool first = true;
  for (int lane = 0; lane < kWarp; ++lane) {
    if ((mask >> lane & 1) == 0) continue;
    const uint64_t part = values[lane] = fibres[warp + lane].value;
    switch (op) {
      case WarpOp::kBallot: all |= part << lane; break;
      case WarpOp::kAdd: all += part; break;
      case WarpOp::kMinimum: all = first ? part : std::min(all, part); break;
      case WarpOp::kMaximum: all = first ? part : std::max(all, part); break;
      default: break;
    }
    first = false;
  }
  for (int lane = 0; lane < kWarp; ++lane) {
    if ((mask >> lane & 1) == 0) continue;
    Fibre& fibre = fibres[warp + lane];
    int source = lane;
    switch (op) {
      case WarpOp::kShuffle: source = fibre.lane_argument & (kWarp - 1); break;
      case WarpOp::kShuffleUp: source = std::max(lane - fibre.lane_argument, -1); break;
      case WarpOp::kShuffleDown: source = lane + fibre.lane_argument; break;
      case WarpOp::kShuffleXor: source = lane ^ fibre.lane_argument; break;
      case WarpOp::kSync: fibre.warp_barriers += last.mask == 0xffffffffu; break;
      case WarpOp::kMatch: fibre.value = lanes_with(values, mask, fibre.value); break;
      default: fibre.value = all; break;
    }
    if (source < 0 || source >= kWarp) source = lane;
    if ((mask >> source & 1) == 0) {
      running->error = describe_launch(fibre) + "shuffles at " + describe_place(fibre.file, fibre.line) + " from lane " +
                       std::to_string(source) + ", which the mask leaves out";
      return;
    }
    if (op >= WarpOp::kShuffle && op <= WarpOp::kShuffleXor) fibre.value = values[source];
    fibre.state = State::kReady;
  }
}

}  // namespace

void memory_access(const void* address, size_t bytes, bool write) {
  if (!kCount) check_access(address, bytes, write, false);
}

void atomic_access(const void* address, int size) {
  if (!kCount) check_access(address, static_cast<size_t>(size), true, true);
}

}  // namespace simt

// What a compiler calls for -fsanitize=thread.
extern "C" {
void __tsan_init() {}
void __tsan_func_entry(void*) {}
void __tsan_func_exit() {}
#define SIMT_ACCESS(size)                                                                     \
  void __tsan_read##size(void* address) { simt::check_access(address, size, false, false); }  \
  void __tsan_write##size(void* address) { simt::check_access(address, size, true, false); }  \
  void __tsan_unaligned_read##size(void* address) { simt::check_access(address, size, false, false); } \
  void __tsan_unaligned_write##size(void* address) { simt::check_access(address, size, true, false); }
SIMT_ACCESS(1)
SIMT_ACCESS(2)
SIMT_ACCESS(4)
SIMT_ACCESS(8)
SIMT_ACCESS(16)
void __tsan_read_range(void* address, size_t size) { simt::check_access(address, size, false, false); }
void __tsan_write_range(void* address, size_t size) { simt::check_access(address, size, true, false); }
}
