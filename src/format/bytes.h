#pragma once

// Little-endian fields, on every machine. Writer appends; Reader never goes outside its bytes: after the first
// field that does not fit, failed() stays true and every field reads as zero.

#include <array>
#include <cstring>
#include <string>
#include <vector>

#include "base/checksum.h"
#include "base/hash.h"
#include "base/types.h"

namespace kvkeep::format {

template <typename Integer>
void store_little_endian(Integer value, std::byte* out) {
  for (std::size_t i = 0; i < sizeof value; ++i) out[i] = static_cast<std::byte>(value >> (8 * i));
}

template <typename Integer>
Integer load_little_endian(const std::byte* bytes) {
  Integer value = 0;
  for (std::size_t i = 0; i < sizeof value; ++i) {
    value = static_cast<Integer>(value | static_cast<Integer>(static_cast<Integer>(bytes[i]) << (8 * i)));
  }
  return value;
}

class Writer {
 public:
  void reserve(std::size_t size) { bytes_.reserve(size); }
  template <typename Integer>
  void number(Integer value) {
    const std::size_t at = bytes_.size();
    bytes_.resize(at + sizeof value);
    store_little_endian(value, bytes_.data() + at);
  }
  void raw(ByteSpan bytes) { bytes_.insert(bytes_.end(), bytes.begin(), bytes.end()); }
  template <typename Tag>
  void hash(const Hash256<Tag>& value) {
    raw(std::as_bytes(std::span(value.bytes)));
  }
  void sum(const Checksum& value) {
    number(value.low);
    number(value.high);
  }
  void zeros_to(std::size_t size) { bytes_.resize(size); }
  std::size_t size() const { return bytes_.size(); }
  ByteSpan bytes() const { return bytes_; }
  std::vector<std::byte> take() { return std::move(bytes_); }

 private:
  std::vector<std::byte> bytes_;
};

class Reader {
 public:
  explicit Reader(ByteSpan bytes) : bytes_(bytes) {}
  template <typename Integer>
  Integer number() {
    const ByteSpan field = raw(sizeof(Integer));
    return failed_ ? Integer{0} : load_little_endian<Integer>(field.data());
  }
  ByteSpan raw(std::size_t size) {
    if (failed_ || bytes_.size() - at_ < size) {
      failed_ = true;
      return {};
    }
    at_ += size;
    return bytes_.subspan(at_ - size, size);
  }
  template <typename Hash>
  Hash hash() {
    Hash value;
    const ByteSpan field = raw(value.bytes.size());
    if (!failed_) std::memcpy(value.bytes.data(), field.data(), field.size());
    return value;
  }
  Checksum sum() {
    Checksum value;
    value.low = number<std::uint64_t>();
    value.high = number<std::uint64_t>();
    return value;
  }
  // Everything up to offset `end` must be zero (reserved fields and padding hold nothing yet).
  bool zeros_to(std::size_t end) {
    if (end < at_) return false;
    for (const std::byte byte : raw(end - at_)) {
      if (byte != std::byte{0}) return false;
    }
    return !failed_;
  }
  std::size_t left() const { return failed_ ? 0 : bytes_.size() - at_; }
  bool failed() const { return failed_; }

 private:
  ByteSpan bytes_;
  std::size_t at_ = 0;
  bool failed_ = false;
};

}  // namespace kvkeep::format
