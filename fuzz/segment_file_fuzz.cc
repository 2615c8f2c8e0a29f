// A segment file: what its header says is consistent and the only way to write it, and a part that is read is exactly
// what lies there, by the same name.

#include "format/segment_file.h"
#include "segment_fixup.h"
#include "store/segment_io.h"
#include "testing/sim/sim_file_system.h"

namespace kvkeep {
namespace {

constexpr std::size_t kMostRead = 1 << 16;

void check_header(ByteSpan bytes) {
  const auto header = format::decode_header(bytes);
  if (!header) {
    const ErrorKind kind = header.error().kind;
    KVKEEP_ASSERT(kind == ErrorKind::kDamaged || kind == ErrorKind::kUnsupported, "damage, or of a later version");
    return;
  }
  KVKEEP_ASSERT(format::check_header(*header).ok(), "a header that was read can be written");
  const std::vector<std::byte> again = format::encode_header(*header);
  KVKEEP_ASSERT(again.size() <= bytes.size() && std::ranges::equal(again, bytes.first(again.size())),
                "a header has one spelling");
  KVKEEP_ASSERT(format::file_bytes(*header) == again.size() + format::payload_bytes(*header), "sizes add up");
  KVKEEP_ASSERT(format::is_file_name(format::file_name(header->name)), "it has a name");
}

// Bytes read under the header's name are those in the file; after a flipped bit nothing is read.
void check_parts(ByteSpan bytes, std::size_t flipped) {
  const auto header = format::decode_header(bytes);
  if (!header) return;
  for (const format::Part& part : header->parts) {
    if (part.size_bytes > kMostRead) continue;
    const auto place = format::find_part(*header, part.kind);
    const bool is_there = place->offset <= bytes.size() && part.size_bytes <= bytes.size() - place->offset;
    sim::SimFileSystem files;
    files.plant("/segment", fuzz::copy_of(bytes));
    std::vector<std::byte> out(part.size_bytes);
    const Status read = store::read_part(files, "/segment", *header, part.kind, out);
    const bool is_right = read.ok() && std::ranges::equal(out, bytes.subspan(place->offset, out.size()));
    KVKEEP_ASSERT(!read.ok() || is_right, "bytes that were served are those that lie there");
    KVKEEP_ASSERT(read.ok() || read.error().kind == ErrorKind::kDamaged, "a part that cannot be served is damaged");
    if (!read.ok() || !is_there || part.size_bytes == 0) continue;
    std::vector<std::byte> other = fuzz::copy_of(bytes);
    other[place->offset + flipped % part.size_bytes] ^= std::byte{1};
    files.plant("/other", std::move(other));
    KVKEEP_ASSERT(!store::read_part(files, "/other", *header, part.kind, out).ok(), "a flipped bit is seen");
  }
}

}  // namespace
}  // namespace kvkeep

KVKEEP_FUZZ_TARGET(segment_file)(const std::uint8_t* data, std::size_t size) {
  using namespace kvkeep;
  std::vector<std::byte> bytes = fuzz::copy_of(fuzz::bytes_of(data, size));
  check_header(bytes);
  fuzz::fix_header(bytes);
  check_header(bytes);
  check_parts(bytes, size);
  fuzz::fix_parts(bytes);
  check_parts(bytes, size);
  return 0;
}
