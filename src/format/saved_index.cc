#include "format/saved_index.h"

#include <algorithm>

#include "format/bytes.h"

namespace kvkeep::format {
namespace {

constexpr std::array<char, 8> kIndexMagic = {'K', 'V', 'K', 'I', 'D', 'X', '\r', '\n'};
constexpr std::uint32_t kIndexVersion = 1;
constexpr std::size_t kSumBytes = 16;

Error bad_index(const char* what) { return damaged(std::string("saved index: ") + what); }

Result<IndexEntry> decode_entry(Reader& reader) {
  IndexEntry entry;
  entry.size_bytes = reader.number<std::uint64_t>();
  entry.modified_ns = static_cast<std::int64_t>(reader.number<std::uint64_t>());
  const auto header_bytes = reader.number<std::uint32_t>();
  if (header_bytes > kMaxHeaderBytes) return bad_index("header too large");
  const ByteSpan bytes = reader.raw(header_bytes);
  if (reader.failed()) return bad_index("too short");
  TRY_ASSIGN(entry.header, decode_header(bytes));
  if (entry.size_bytes != file_bytes(entry.header)) return bad_index("file size");
  entry.name = file_name(entry.header.name);
  entry.encoded = bytes;
  return entry;
}

}  // namespace

std::vector<std::byte> encode_index(const std::vector<EncodedIndexEntry>& entries) {
  Writer writer;
  std::size_t size = 64;
  for (const EncodedIndexEntry& entry : entries) size += 20 + entry.header.size();
  writer.reserve(size);
  writer.raw(std::as_bytes(std::span(kIndexMagic)));
  writer.number(kIndexVersion);
  writer.number(static_cast<std::uint32_t>(entries.size()));
  for (const EncodedIndexEntry& entry : entries) {
    writer.number(entry.size_bytes);
    writer.number(static_cast<std::uint64_t>(entry.modified_ns));
    writer.number(static_cast<std::uint32_t>(entry.header.size()));
    writer.raw(entry.header);
  }
  writer.sum(checksum(writer.bytes()));
  return writer.take();
}

Result<std::vector<IndexEntry>> decode_index(ByteSpan bytes) {
  if (bytes.size() < kIndexMagic.size() + 8 + kSumBytes) return bad_index("too short");
  const ByteSpan body = bytes.first(bytes.size() - kSumBytes);
  if (std::memcmp(body.data(), kIndexMagic.data(), kIndexMagic.size()) != 0) return bad_index("magic");
  Reader sum_reader(bytes.last(kSumBytes));
  if (checksum(body) != sum_reader.sum()) return bad_index("checksum");
  Reader reader(body.subspan(kIndexMagic.size()));
  const auto version = reader.number<std::uint32_t>();
  if (version > kIndexVersion) return unsupported("saved index: of a later version");
  if (version != kIndexVersion) return bad_index("version");
  const auto count = reader.number<std::uint32_t>();
  if (count > kMaxIndexEntries) return bad_index("too many entries");
  std::vector<IndexEntry> entries;
  entries.reserve(std::min<std::size_t>(count, reader.left() / kFixedHeaderBytes));
  for (std::uint32_t i = 0; i < count; ++i) {
    TRY_ASSIGN(IndexEntry entry, decode_entry(reader));
    entries.push_back(std::move(entry));
  }
  if (reader.left() != 0) return bad_index("bytes after the last entry");
  return entries;
}

}  // namespace kvkeep::format
