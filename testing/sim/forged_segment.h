#pragma once

// Segment files with other bytes than were stored and correct checksums: damage that no checksum can find.

#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "format/segment_file.h"

namespace kvkeep::sim {

struct WholeSegment {
  format::SegmentHeader header;
  std::vector<std::byte> payload;
};

// Returns nullopt if the file is no whole segment.
inline std::optional<WholeSegment> read_segment(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  const ByteSpan bytes = std::as_bytes(std::span(text));
  auto header = format::decode_header(bytes);
  if (!header || bytes.size() != format::file_bytes(*header)) return std::nullopt;
  const ByteSpan payload = bytes.last(format::payload_bytes(*header));
  return WholeSegment{std::move(*header), {payload.begin(), payload.end()}};
}

// Writes a segment of one part, which keeps its size, under its own name.
inline void write_segment(const std::filesystem::path& path, WholeSegment segment) {
  format::SegmentHeader& header = segment.header;
  format::Part& part = header.parts.front();
  part.sum = format::part_checksum(header.fingerprint, header.name, part.kind, segment.payload);
  const std::vector<std::byte> encoded = format::encode_header(header);
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  for (const ByteSpan bytes : {ByteSpan(encoded), ByteSpan(segment.payload)}) {
    file.write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
  }
}

}  // namespace kvkeep::sim
