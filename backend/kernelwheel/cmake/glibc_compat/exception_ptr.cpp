// The counts of exception_ptr, functions of libstdc++ since gcc 11. They call none of its older ones, which may also be
// in the library itself, made from these. In front of what was thrown, the header has been the same since gcc 4.5
// (Itanium C++ ABI, "Exception Objects", and a count), or exceptions could not pass between old and new libraries.
#include <cxxabi.h>
#include <exception>
#if _GLIBCXX_RELEASE >= 11
namespace {
struct Header {
  alignas(16) int count;
  alignas(16) const void* type;
  void (*destroy)(void*);
  char others[96];
};
static_assert(sizeof(Header) == 128, "as on x86-64 and aarch64");
Header* header(void* thrown) { return static_cast<Header*>(thrown) - 1; }
}
namespace std::__exception_ptr {
[[gnu::weak]] void exception_ptr::_M_addref() noexcept {
  __atomic_add_fetch(&header(_M_exception_object)->count, 1, __ATOMIC_ACQ_REL);
}
[[gnu::weak]] void exception_ptr::_M_release() noexcept {
  Header* const found = header(_M_exception_object);
  if (__atomic_sub_fetch(&found->count, 1, __ATOMIC_ACQ_REL) != 0) return;
  if (found->destroy) found->destroy(_M_exception_object);
  abi::__cxa_free_exception(_M_exception_object);
  _M_exception_object = nullptr;
}
}
#endif
