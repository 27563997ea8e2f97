// Where an exception leaves a noexcept function, since gcc 14 (Itanium C++ ABI, "Terminating").
#include <cxxabi.h>
#include <exception>
extern "C" [[gnu::weak]] void __cxa_call_terminate(void* exception) noexcept {
  if (exception) abi::__cxa_begin_catch(exception);
  std::terminate();
}
