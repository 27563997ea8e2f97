// What launches kernels: the other side of simt.h. Not for the source of kernels.
#pragma once

#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <tuple>
#include <vector>

namespace simt {

struct Size {
  unsigned int x = 1, y = 1, z = 1;
};

// A kernel did what a GPU would not have forgiven, or forgiven silently.
struct KernelError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// Memory that a kernel may use: global, for one launch.
struct Array {
  std::string name;
  const void* begin;
  size_t bytes, item_bytes;
};

// Shared memory that kernels declare: an offset in the module's thread-local block. What is declared outside of a
// function is the definition of an `extern` one, of which a launch gives the size.
struct Shared {
  std::string name;
  size_t offset, bytes;
  bool dynamic;
};

// Must be called once; `anchor` is the offset of simt_anchor in the module's thread-local block.
void set_shared(std::vector<Shared> shared, size_t anchor);
// The order in which blocks, and threads of a block, take turns is drawn from this; 0 is the natural order.
void set_seed(unsigned int seed);

struct Launch {
  const char* name;
  Size grid, block;
  size_t dynamic_bytes;
  std::vector<Array> arrays;
  // Functions of a warp do not wait for lanes of their masks that have ended, as PTX has it. Ours do not rely on that.
  bool ended_lanes_leave = false;
};

// Raises KernelError. `kernel` is called with `context` once for each thread.
void run(const Launch& launch, void (*kernel)(void*), void* context);

template <class... Parameters, class... Arguments>
void launch(const Launch& launch, void (*kernel)(Parameters...), Arguments... arguments) {
  struct Call {
    void (*kernel)(Parameters...);
    std::tuple<Parameters...> arguments;
  } call = {kernel, {arguments...}};
  run(launch, [](void* context) {
    const Call& call = *static_cast<Call*>(context);
    std::apply(call.kernel, call.arguments);
  }, &call);
}

}  // namespace simt
