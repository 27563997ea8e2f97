// The CUDA runtime and what torch has for CUDA, as far as the operators use them, for tensors in the host's memory.
//
// A kernel may use what its operator got from torch: the tensors that were checked, and those that it allocated, which
// are filled with garbage so that it shows what a kernel must write and does not.
#include "runtime.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#include <algorithm>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include <torch/csrc/inductor/aoti_torch/c/shim.h>
#include <torch/csrc/stable/c/shim.h>

#include "cuda_runtime.h"
#include "engine.h"

namespace simt {
namespace {

std::map<const char*, Array> memory;  // of the operator that runs, by the first byte
std::map<size_t, std::string> kernel_names;
std::set<std::string> launched_names;

struct Copy {
  void* to;
  std::vector<char> bytes;
};
std::vector<Copy> copies;  // that no event follows yet

void arrive(std::vector<Copy>& pending) {
  for (const Copy& copy : std::exchange(pending, {})) memcpy(copy.to, copy.bytes.data(), copy.bytes.size());
}

// The CUDA runtime keeps the last error until it is asked for it, and reports it at the next launch.
cudaError_t last_error = cudaSuccess;
std::string failing_call;

std::map<std::string, int> call_counts;

cudaError_t called(const char* name) {
  ++call_counts[name];
  if (failing_call != name) return cudaSuccess;
  failing_call.clear();
  return last_error = cudaErrorUnknown;
}

std::string name_of(const void* kernel) {
  Dl_info info = {};
  dladdr(kernel, &info);
  return kernel_names.at(static_cast<size_t>(static_cast<const char*>(kernel) - static_cast<char*>(info.dli_fbase)));
}

void add_memory(AtenTensorHandle tensor, bool is_new) {
  void* data = nullptr;
  int64_t count = 0, dims = 0;
  int64_t* sizes = nullptr;
  int32_t dtype = 0;
  aoti_torch_get_data_ptr(tensor, &data);
  aoti_torch_get_numel(tensor, &count);
  aoti_torch_get_dim(tensor, &dims);
  aoti_torch_get_sizes(tensor, &sizes);
  aoti_torch_get_dtype(tensor, &dtype);
  if (count == 0) return;
  std::string name = is_new ? "a new tensor [" : "a tensor [";
  for (int64_t i = 0; i < dims; ++i) name += (i > 0 ? ", " : "") + std::to_string(sizes[i]);
  const size_t item = aoti_torch_dtype_element_size(dtype), bytes = static_cast<size_t>(count) * item;
  use({name + "]", data, bytes, std::min<size_t>(4, item)});
  if (is_new) memset(data, 0xFA, bytes);
}

// Of the arguments of aten::empty: without a GPU, torch pins no memory.
void leave_pinning_out(StableIValue* stack) {
  delete reinterpret_cast<StableIValue*>(std::exchange(stack[4], 0));
}

}  // namespace

void set_kernels(const std::map<size_t, std::string>& names) { kernel_names = names; }

void use(const Array& array) {
  const char* begin = static_cast<const char*>(array.begin);
  // What was here before has been freed.
  auto other = memory.lower_bound(begin);
  if (other != memory.begin() && std::prev(other)->first + std::prev(other)->second.bytes > begin) --other;
  while (other != memory.end() && other->first < begin + array.bytes) other = memory.erase(other);
  memory[begin] = array;
}

std::set<std::string> launched() { return launched_names; }

std::map<std::string, int> calls() { return call_counts; }

void fail(const std::string& call) { failing_call = call; }

cudaError_t launch_on_host(const void* kernel, dim3 grid, dim3 block, size_t dynamic_bytes, void** arguments) {
  if (last_error != cudaSuccess || called("cudaLaunchKernelEx") != cudaSuccess) return last_error;
  const std::string name = name_of(kernel);
  Launch launch = {name.c_str(), {grid.x, grid.y, grid.z}, {block.x, block.y, block.z}, dynamic_bytes, {}};
  for (const auto& [begin, array] : memory) launch.arrays.push_back(array);
  run(launch, ptx_kernels().at(name), arguments);
  launched_names.insert(name);
  return cudaSuccess;
}

}  // namespace simt

cudaError_t cudaMemsetAsync(void* to, int value, size_t bytes, cudaStream_t) {
  if (simt::called("cudaMemsetAsync") != cudaSuccess) return simt::last_error;
  memset(to, value, bytes);
  return cudaSuccess;
}

// A copy arrives only when the host waits for it.
cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes, cudaMemcpyKind, cudaStream_t) {
  if (simt::called("cudaMemcpyAsync") != cudaSuccess) return simt::last_error;
  const char* begin = static_cast<const char*>(from);
  simt::copies.push_back({to, {begin, begin + bytes}});
  return cudaSuccess;
}

struct CUevent_st {
  std::vector<simt::Copy> copies;  // before it
};

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned int) {
  if (simt::called("cudaEventCreateWithFlags") != cudaSuccess) return simt::last_error;
  *event = new CUevent_st;
  return cudaSuccess;
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t) {
  if (simt::called("cudaEventRecord") != cudaSuccess) return simt::last_error;
  event->copies = std::exchange(simt::copies, {});
  return cudaSuccess;
}

cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  if (simt::called("cudaEventSynchronize") != cudaSuccess) return simt::last_error;
  simt::arrive(event->copies);
  return cudaSuccess;
}

cudaError_t cudaStreamSynchronize(cudaStream_t) {
  if (simt::called("cudaStreamSynchronize") != cudaSuccess) return simt::last_error;
  simt::arrive(simt::copies);
  return cudaSuccess;
}

cudaError_t cudaEventDestroy(cudaEvent_t event) {
  delete event;
  return cudaSuccess;
}

cudaError_t cudaGetLastError() { return std::exchange(simt::last_error, cudaSuccess); }

// Calls of torch that the linker redirects to here (--wrap).
extern "C" {

AOTITorchError __real_torch_call_dispatcher(const char* name, const char* overload, StableIValue* stack, uint64_t abi);

AOTITorchError __wrap_torch_call_dispatcher(const char* name, const char* overload, StableIValue* stack, uint64_t abi) {
  const bool is_empty = strcmp(name, "aten::empty") == 0;
  if (is_empty) simt::leave_pinning_out(stack);
  const AOTITorchError status = __real_torch_call_dispatcher(name, overload, stack, abi);
  if (status == AOTI_TORCH_SUCCESS) {
    AtenTensorHandle tensor = nullptr;
    memcpy(&tensor, stack, sizeof tensor);
    if (is_empty) simt::add_memory(tensor, true);
    if (strcmp(name, "aten::contiguous") == 0) simt::add_memory(tensor, false);
  }
  return status;
}

// The first thing that an operator does.
AOTITorchError __wrap_aoti_torch_create_device_guard(int32_t, DeviceGuardHandle* guard) {
  simt::memory.clear();
  *guard = nullptr;
  return AOTI_TORCH_SUCCESS;
}

AOTITorchError __wrap_aoti_torch_delete_device_guard(DeviceGuardHandle) { return AOTI_TORCH_SUCCESS; }

AOTITorchError __wrap_aoti_torch_get_current_cuda_stream(int32_t, void** stream) {
  *stream = nullptr;
  return AOTI_TORCH_SUCCESS;
}

AOTITorchError __wrap_torch_c10_cuda_check_msg(int32_t error, const char*, const char*, uint32_t, bool, char** message) {
  *message = error == cudaSuccess ? nullptr : strdup(("CUDA error " + std::to_string(error)).c_str());
  return AOTI_TORCH_SUCCESS;
}

void __wrap_torch_c10_cuda_free_error_msg(char* message) { free(message); }
}
