#include "format/record_file.h"

#include "base/assert.h"
#include "format/bytes.h"

namespace kvkeep::format {
namespace {

constexpr std::array<char, 8> kRecordMagic = {'K', 'V', 'K', 'R', 'E', 'C', '\r', '\n'};
constexpr std::uint32_t kRecordVersion = 1;

// The length is summed too: a torn one must not make later bytes look like a payload.
Checksum sum_of(ByteSpan payload) {
  Writer writer;
  writer.number(static_cast<std::uint32_t>(payload.size()));
  writer.raw(payload);
  return checksum(writer.bytes());
}

}  // namespace

std::vector<std::byte> encode_record_file_head(std::uint32_t kind) {
  Writer writer;
  writer.raw(std::as_bytes(std::span(kRecordMagic)));
  writer.number(kRecordVersion);
  writer.number(kind);
  return writer.take();
}

std::vector<std::byte> encode_record(ByteSpan payload) {
  KVKEEP_ASSERT(payload.size() <= kMaxRecordBytes, "a record too large");
  Writer writer;
  writer.number(static_cast<std::uint32_t>(payload.size()));
  writer.sum(sum_of(payload));
  writer.raw(payload);
  return writer.take();
}

RecordFile decode_record_file(ByteSpan bytes, std::uint32_t kind) {
  if (bytes.empty()) return {};
  const std::vector<std::byte> head = encode_record_file_head(kind);
  if (bytes.size() < head.size() || std::memcmp(bytes.data(), head.data(), head.size()) != 0) return {{}, false};
  Reader reader(bytes.subspan(head.size()));
  RecordFile file;
  while (reader.left() > 0) {
    const auto size = reader.number<std::uint32_t>();
    const Checksum sum = reader.sum();
    if (reader.failed() || size > kMaxRecordBytes || size > reader.left()) return {std::move(file.payloads), false};
    const ByteSpan payload = reader.raw(size);
    if (sum_of(payload) != sum) return {std::move(file.payloads), false};
    file.payloads.push_back(payload);
  }
  return file;
}

}  // namespace kvkeep::format
