#pragma once

// Small segments whose bytes are a function of their name, for tests of code that stores them.

#include <cstdint>
#include <string>
#include <vector>

#include "format/segment_file.h"

namespace kvkeep::sim {

struct SampleSegment {
  format::SegmentHeader header;  // sums filled
  std::vector<std::byte> payload;
};

inline FingerprintHash sample_fingerprint(std::uint8_t number) {
  FingerprintHash fingerprint;
  fingerprint.bytes.fill(number);
  return fingerprint;
}

// Returns bytes that differ for every number and position.
inline std::vector<std::byte> sample_bytes(std::uint64_t number, std::size_t size) {
  std::vector<std::byte> bytes(size);
  std::uint64_t state = number * 0x9e3779b97f4a7c15ull + 1;
  for (std::byte& byte : bytes) {
    state = state * 6364136223846793005ull + 1442695040888963407ull;
    byte = static_cast<std::byte>(state >> 56);
  }
  return bytes;
}

// Segment `number` of conversation `conversation`: tokens [8 * number, 8 * number + 8), rows of `size` bytes.
inline SampleSegment sample_segment(const FingerprintHash& fingerprint, std::uint32_t conversation,
                                    std::uint32_t number, std::size_t size) {
  constexpr std::uint32_t kTokens = 8;
  SampleSegment sample;
  sample.header.fingerprint = fingerprint;
  PrefixHasher hasher(fingerprint);
  const auto id = [&](std::uint32_t i) { return static_cast<TokenId>(conversation * 1000 + i); };
  for (std::uint32_t i = 0; i < kTokens * number; ++i) hasher.append(TokenSpan(std::vector{id(i)}));
  sample.header.name.begin = hasher.position();
  sample.header.name.begin_hash = hasher.current();
  for (std::uint32_t i = kTokens * number; i < kTokens * (number + 1); ++i) sample.header.tokens.push_back(id(i));
  hasher.append(sample.header.tokens);
  sample.header.name.end = hasher.position();
  sample.header.name.end_hash = hasher.current();
  sample.payload = sample_bytes(conversation * 100 + number + 7, size);
  format::Part part;
  part.size_bytes = size;
  part.sum = format::part_checksum(fingerprint, sample.header.name, part.kind, sample.payload);
  sample.header.parts = {part};
  return sample;
}

// A leaf of one part at the end of sample_segment(): window rows of the same tokens, or a point.
inline SampleSegment sample_leaf(const FingerprintHash& fingerprint, std::uint32_t conversation, std::uint32_t number,
                                 format::PartKind kind, std::size_t size) {
  SampleSegment sample = sample_segment(fingerprint, conversation, number, 0);
  format::SegmentName& name = sample.header.name;
  name.kind = kind;
  if (kind != format::PartKind::kWindowRows) {
    name.begin = name.end;
    name.begin_hash = name.end_hash;
    sample.header.tokens.clear();
  }
  sample.payload = sample_bytes(conversation * 100 + number + 7 + 1000 * static_cast<std::uint64_t>(kind), size);
  format::Part part{.kind = kind, .size_bytes = size};
  part.sum = format::part_checksum(fingerprint, name, kind, sample.payload);
  sample.header.parts = {part};
  return sample;
}

}  // namespace kvkeep::sim
