#pragma once

// Declarations that fuzz targets share. A target is one function, written as KVKEEP_FUZZ_TARGET(name)(data, size):
// libFuzzer calls it with inputs of its own making (make fuzz), and replay_main.cc with the files of the target's
// corpus (the everyday tests). It asserts what must hold for every input with KVKEEP_ASSERT and returns 0.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/assert.h"
#include "base/checksum.h"
#include "base/types.h"
#include "format/bytes.h"

// A program of libFuzzer has one target, of the name that it looks for. A replay has several, which are compiled
// together and so need names of their own.
#ifdef KVKEEP_LIBFUZZER
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);
#define KVKEEP_FUZZ_TARGET(name) extern "C" int LLVMFuzzerTestOneInput
#else
#define KVKEEP_FUZZ_TARGET(name)                                                                       \
  static int name##_target(const std::uint8_t* data, std::size_t size);                                \
  [[maybe_unused]] static const bool name##_is_known = kvkeep::fuzz::add_target(#name, name##_target); \
  static int name##_target
#endif

namespace kvkeep::fuzz {

using Target = int (*)(const std::uint8_t* data, std::size_t size);

// The targets of a replay, by name.
inline std::map<std::string_view, Target>& targets() {
  static std::map<std::string_view, Target> all;
  return all;
}
inline bool add_target(std::string_view name, Target target) { return targets().emplace(name, target).second; }

inline ByteSpan bytes_of(const std::uint8_t* data, std::size_t size) { return std::as_bytes(std::span(data, size)); }
inline std::string_view text_of(ByteSpan bytes) { return {reinterpret_cast<const char*>(bytes.data()), bytes.size()}; }
inline std::vector<std::byte> copy_of(ByteSpan bytes) { return {bytes.begin(), bytes.end()}; }

// Takes values from the front of an input; zeros when it is used up.
class Input {
 public:
  Input(const std::uint8_t* data, std::size_t size) : left_(bytes_of(data, size)) {}

  template <typename Integer>
  Integer number() {
    std::byte field[sizeof(Integer)] = {};
    const ByteSpan given = bytes(sizeof(Integer));
    std::ranges::copy(given, field);
    return format::load_little_endian<Integer>(field);
  }
  // In [0, bound), of two bytes. Precondition: bound > 0.
  std::size_t below(std::size_t bound) { return number<std::uint16_t>() % bound; }
  bool flag() { return (number<std::uint8_t>() & 1) != 0; }
  // Fewer where the input ends.
  ByteSpan bytes(std::size_t most) {
    const ByteSpan taken = left_.first(std::min(most, left_.size()));
    left_ = left_.subspan(taken.size());
    return taken;
  }
  // A line without its end.
  std::string_view line() {
    const std::string_view all = text_of(left_);
    const std::string_view found = all.substr(0, all.find('\n'));
    left_ = left_.subspan(std::min(found.size() + 1, left_.size()));
    return found;
  }
  std::string_view text(std::size_t most) { return text_of(bytes(most)); }
  ByteSpan rest() { return bytes(left_.size()); }
  std::size_t left() const { return left_.size(); }

 private:
  ByteSpan left_;
};

// Puts the sum of `range` at `at`, as a writer would have: random bytes never pass a checksum by themselves.
inline void put_sum(MutableByteSpan bytes, std::size_t at, ByteSpan range) {
  const Checksum sum = checksum(range);
  format::store_little_endian(sum.low, bytes.data() + at);
  format::store_little_endian(sum.high, bytes.data() + at + sizeof sum.low);
}

}  // namespace kvkeep::fuzz
