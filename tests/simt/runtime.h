// How the tests look at runtime.cpp.
#pragma once

#include <cstddef>
#include <map>
#include <set>
#include <string>

#include "engine.h"

namespace simt {

// The names of kernels, by their offset in the module. Must be called once.
void set_kernels(const std::map<size_t, std::string>& names);

// Memory that kernels may use until an operator is called.
void use(const Array& array);

// The kernels that ran to their end.
std::set<std::string> launched();

// How often each function of the CUDA runtime was called.
std::map<std::string, int> calls();

// The next call of this function of the CUDA runtime returns an error.
void fail(const std::string& call);

// The kernels that ptx_translator.py made, by their mangled names. Each is called with the addresses of its arguments,
// once for each thread.
const std::map<std::string, void (*)(void*)>& ptx_kernels();

}  // namespace simt
