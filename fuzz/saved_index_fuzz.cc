// The saved index: worthless or whole, and with one spelling.

#include "format/notes.h"
#include "segment_fixup.h"

namespace kvkeep {
namespace {

constexpr std::size_t kHeadBytes = 16;
constexpr std::size_t kEntryBytes = 20;
constexpr std::size_t kSumBytes = 16;

// Sums of the headers and of all.
void fix_index(MutableByteSpan bytes) {
  if (bytes.size() < kHeadBytes + kSumBytes) return;
  const MutableByteSpan body = bytes.first(bytes.size() - kSumBytes);
  for (std::size_t at = kHeadBytes; body.size() >= at + kEntryBytes;) {
    const auto size = format::load_little_endian<std::uint32_t>(body.data() + at + 16);
    at += kEntryBytes;
    if (size > body.size() - at) break;
    const MutableByteSpan header = body.subspan(at, size);
    fuzz::fix_header(header);
    if (const auto known = format::decode_header(header)) {
      format::store_little_endian(format::file_bytes(*known), body.data() + at - kEntryBytes);
    }
    at += size;
  }
  fuzz::put_sum(bytes, body.size(), body);
}

void check_index(ByteSpan bytes) {
  const auto entries = format::decode_index(bytes);
  if (!entries) {
    const ErrorKind kind = entries.error().kind;
    KVKEEP_ASSERT(kind == ErrorKind::kDamaged || kind == ErrorKind::kUnsupported, "damage, or of a later version");
    return;
  }
  std::vector<std::vector<std::byte>> headers;
  std::vector<format::EncodedIndexEntry> again;
  headers.reserve(entries->size());
  for (const format::IndexEntry& entry : *entries) {
    KVKEEP_ASSERT(entry.name == format::file_name(entry.header.name), "an entry is of the file its header names");
    KVKEEP_ASSERT(entry.size_bytes == format::file_bytes(entry.header), "and of its size");
    headers.push_back(format::encode_header(entry.header));
    again.push_back({entry.size_bytes, entry.modified_ns, headers.back()});
  }
  const std::vector<std::byte> encoded = format::encode_index(again);
  KVKEEP_ASSERT(entries->empty() || encoded.size() <= bytes.size(), "nothing is read that is not there");
  const auto twice = format::decode_index(encoded);
  KVKEEP_ASSERT(twice && twice->size() == entries->size(), "what was read can be written and read");
}

}  // namespace
}  // namespace kvkeep

KVKEEP_FUZZ_TARGET(saved_index)(const std::uint8_t* data, std::size_t size) {
  std::vector<std::byte> bytes = kvkeep::fuzz::copy_of(kvkeep::fuzz::bytes_of(data, size));
  kvkeep::check_index(bytes);
  kvkeep::fix_index(bytes);
  kvkeep::check_index(bytes);
  return 0;
}
