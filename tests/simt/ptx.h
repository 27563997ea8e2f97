// What an instruction of PTX does, for the statements that ptx_translator.py makes of them. Registers hold bits, as
// they do in PTX: the type is the instruction's (PTX ISA, "Instruction Set").
#pragma once

#include <math.h>
#include <stdint.h>
#include <string.h>

#include <algorithm>
#include <limits>

#include "counters.h"
#include "simt.h"

#undef threadIdx
#undef blockIdx
#undef blockDim
#undef gridDim

extern "C" {
extern thread_local char simt_anchor;
}

namespace simt {

// Announces an access to memory that is not atomic (engine.cpp).
void memory_access(const void* address, size_t bytes, bool write);

}  // namespace simt

namespace ptx {

template <class T>
T as(uint64_t bits) {
  T value;
  memcpy(&value, &bits, sizeof value);
  return value;
}

template <class T>
uint64_t bits(T value) {
  uint64_t all = 0;
  memcpy(&all, &value, sizeof value);
  return all;
}

// A shared address is an offset from this thread's anchor, in 32 bits.
inline char* shared(uint64_t address) { return &simt_anchor + static_cast<int32_t>(address); }
inline char* global(uint64_t address) { return reinterpret_cast<char*>(address); }
inline uint64_t shared_address(const void* variable) {
  return static_cast<uint32_t>(static_cast<const char*>(variable) - &simt_anchor);
}

template <class T>
uint64_t load(const char* address) {
  simt::memory_access(address, sizeof(T), false);
  T value;
  memcpy(&value, address, sizeof value);
  return static_cast<uint64_t>(value);
}

template <class T>
uint64_t load_parameter(const char* address) {
  T value;
  memcpy(&value, address, sizeof value);
  return static_cast<uint64_t>(value);
}

template <class T>
void store_parameter(char* address, uint64_t value) {
  const T part = static_cast<T>(value);
  memcpy(address, &part, sizeof part);
}

template <class T>
void store(char* address, uint64_t value) {
  simt::memory_access(address, sizeof(T), true);
  store_parameter<T>(address, value);
}

template <class T, class Update>
uint64_t atomic(char* address, const Update& update) {
  simt::atomic_access(address, sizeof(T));
  T before;
  memcpy(&before, address, sizeof before);
  const T after = update(before);
  memcpy(address, &after, sizeof after);
  return bits(before);
}

// cvt.rzi: what is out of range becomes the nearest that is not, NaN becomes 0.
template <class To, class From>
uint64_t truncate(From value) {
  if (!(value == value)) return 0;
  if (value >= static_cast<From>(std::numeric_limits<To>::max())) return bits(std::numeric_limits<To>::max());
  if (value <= static_cast<From>(std::numeric_limits<To>::min())) return bits(std::numeric_limits<To>::min());
  return bits(static_cast<To>(value));
}

template <class T>
T flushed(T value) {
  return fabs(value) < std::numeric_limits<T>::min() ? copysign(T(0), value) : value;
}

// Of instructions with .ftz: numbers too small to be normal are zeros, read and written.
inline float as_flushed(uint64_t bits) { return flushed(as<float>(bits)); }
template <class T>
uint64_t bits_flushed(T value) {
  return bits(value);
}
template <>
inline uint64_t bits_flushed(float value) {
  return bits(flushed(value));
}

inline uint64_t shift_left(uint64_t value, uint64_t by, int width) { return by >= uint64_t(width) ? 0 : value << by; }
template <class T>
uint64_t shift_right(T value, uint64_t by) {
  const uint64_t most = sizeof(T) * 8 - 1;
  if (by > most) return bits(static_cast<T>(value < 0 ? -1 : 0));
  return bits(static_cast<T>(value >> by));
}

// bfe: bits from `position` on; those of a signed type repeat their highest one.
template <class T>
uint64_t field(uint64_t value, uint64_t position, uint64_t length) {
  const uint64_t width = sizeof(T) * 8, at = position & 255, size = std::min(length & 255, uint64_t(64));
  if (size == 0) return 0;
  const bool sign = std::numeric_limits<T>::is_signed && (value >> std::min(at + size, width) - 1 & 1) != 0;
  uint64_t found = at >= width ? (sign ? ~uint64_t(0) : 0) : value >> at;
  const uint64_t kept = std::min(size, at >= width ? 0 : width - at);
  const uint64_t low = kept == 64 ? ~uint64_t(0) : (uint64_t(1) << kept) - 1;
  found = sign ? found | ~low : found & low;
  return bits(static_cast<T>(found));
}

// bfi: the lowest bits of `a` in place of as many of `b`, from `position` on.
template <class T>
T inserted(uint64_t a, T b, uint64_t position, uint64_t length) {
  const uint64_t at = position & 255, size = length & 255;
  if (at >= sizeof(T) * 8) return b;
  const uint64_t replaced = (size >= 64 ? ~uint64_t(0) : (uint64_t(1) << size) - 1) << at;
  return static_cast<T>((a << at & replaced) | (b & ~replaced));
}

inline uint64_t permuted(uint32_t a, uint32_t b, uint32_t selector) {
  const uint64_t both = static_cast<uint64_t>(b) << 32 | a;
  uint32_t found = 0;
  for (int i = 0; i < 4; ++i) {
    const uint32_t control = selector >> 4 * i & 15;
    uint32_t byte = static_cast<uint32_t>(both >> 8 * (control & 7)) & 255;
    if ((control & 8) != 0) byte = (byte & 128) != 0 ? 255 : 0;
    found |= byte << 8 * i;
  }
  return found;
}

inline uint64_t reversed(uint32_t value) {
  uint32_t found = 0;
  for (int i = 0; i < 32; ++i) found |= (value >> i & 1) << (31 - i);
  return found;
}

inline uint32_t lane() {
  const simt::Index thread = simt::thread_index(), block = simt::block_size();
  return ((thread.z * block.y + thread.y) * block.x + thread.x) % 32;
}

inline uint64_t shuffle(simt::WarpOp op, uint64_t value, uint64_t from, uint64_t mask, bool* inside, const char* file,
                        int line) {
  const int own = static_cast<int>(lane()), by = static_cast<int>(from);
  const int source = op == simt::WarpOp::kShuffleDown ? own + by
                     : op == simt::WarpOp::kShuffleUp ? own - by
                                                      : 0;
  if (inside != nullptr) *inside = source >= 0 && source < 32;
  return simt::warp_collective(op, static_cast<uint32_t>(mask), static_cast<uint32_t>(value), by, file, line);
}

inline uint64_t ballot(bool predicate, uint64_t mask, const char* file, int line) {
  return simt::warp_collective(simt::WarpOp::kBallot, static_cast<uint32_t>(mask), predicate, 0, file, line);
}

inline uint64_t match(uint64_t value, uint64_t mask, const char* file, int line) {
  return simt::warp_collective(simt::WarpOp::kMatch, static_cast<uint32_t>(mask), value, 0, file, line);
}

// redux of signed numbers: in the order of unsigned ones, in which the engine compares, the negative ones come first.
inline uint64_t reduce(simt::WarpOp op, uint64_t value, uint64_t mask, const char* file, int line) {
  constexpr uint32_t kSign = 1u << 31;
  const uint32_t part = static_cast<uint32_t>(value) ^ kSign;
  return static_cast<uint32_t>(simt::warp_collective(op, static_cast<uint32_t>(mask), part, 0, file, line)) ^ kSign;
}

}  // namespace ptx
