#include "store/segment_io.h"

#include <algorithm>

namespace kvkeep::store {
namespace {

// Bytes are summed right after they were read, while they are in the processor's cache.
constexpr std::size_t kReadChunkBytes = 256 << 10;

ChecksumStream part_sum(const format::SegmentHeader& header, format::PartKind kind) {
  return format::part_checksum_stream(header.fingerprint, header.name, kind);
}

// If fewer bytes come than asked for, the file is shorter than its header says.
Status read_exactly(os::File& file, std::uint64_t offset, MutableByteSpan out) {
  TRY_ASSIGN(const std::size_t count, file.read_at(offset, out));
  if (count != out.size()) return damaged("segment file is cut short");
  return {};
}

// The whole header lies in the first kMaxHeaderBytes, so one read always suffices.
Result<format::SegmentHeader> read_header_of(os::File& file) {
  std::vector<std::byte> bytes(format::kMaxHeaderBytes);
  TRY_ASSIGN(const std::size_t count, file.read_at(0, bytes));
  return format::decode_header(ByteSpan(bytes).first(count));
}

bool same_shape(const format::Part& a, const format::Part& b) {
  return a.kind == b.kind && a.size_bytes == b.size_bytes && a.first_token == b.first_token && a.layout == b.layout &&
         a.base == b.base && a.state_bytes == b.state_bytes && a.differences == b.differences;
}

Status compare_headers(const format::SegmentHeader& found, const format::SegmentHeader& expected) {
  if (found.fingerprint != expected.fingerprint) return damaged("segment of another fingerprint");
  if (found.name != expected.name) return damaged("segment of another name");
  if (found.tenant != expected.tenant) return damaged("segment of another tenant");
  if (found.tokens != expected.tokens) return damaged("segment of other tokens");
  if (!std::ranges::equal(found.parts, expected.parts, same_shape)) return damaged("segment of other parts");
  return {};
}

Status read_payload(os::File& file, std::uint64_t offset, MutableByteSpan out, ChecksumStream& sum) {
  while (!out.empty()) {
    const MutableByteSpan chunk = out.first(std::min(out.size(), kReadChunkBytes));
    TRY(read_exactly(file, offset, chunk));
    sum.append(chunk);
    offset += chunk.size();
    out = out.subspan(chunk.size());
  }
  return {};
}

Status compare_with_file(const format::SegmentHeader& header, const std::string& name, ByteCount size,
                         const FingerprintHash& fingerprint) {
  if (header.fingerprint != fingerprint) return damaged("segment of another fingerprint");
  if (format::file_name(header.name) != name) return damaged("segment under another name");
  if (format::file_bytes(header) != size.value()) return damaged("segment file of the wrong size");
  return {};
}

// Sums a part through one small buffer.
Result<Checksum> sum_in_file(os::File& file, const format::PartPlace& place, ChecksumStream sum,
                             MutableByteSpan buffer) {
  std::uint64_t left = place.part.size_bytes;
  for (std::uint64_t offset = place.offset; left > 0;) {
    const MutableByteSpan chunk = buffer.first(std::min<std::uint64_t>(left, buffer.size()));
    TRY(read_exactly(file, offset, chunk));
    sum.append(chunk);
    offset += chunk.size();
    left -= chunk.size();
  }
  return sum.finish();
}

}  // namespace

Result<format::SegmentHeader> complete_header(const format::SegmentHeader& header,
                                              const std::vector<PartBytes>& parts) {
  format::SegmentHeader complete = header;
  complete.parts.clear();
  for (const PartBytes& part : parts) {
    format::Part entry{.kind = part.kind, .size_bytes = part.bytes.size()};
    if (const auto told = format::find_part(header, part.kind)) {
      entry.first_token = told->part.first_token;
      entry.layout = told->part.layout;
      entry.base = told->part.base;
      entry.state_bytes = told->part.state_bytes;
      entry.differences = told->part.differences;
    }
    ChecksumStream sum = part_sum(header, part.kind);
    sum.append(part.bytes);
    entry.sum = sum.finish();
    complete.parts.push_back(entry);
  }
  TRY(format::check_header(complete));
  return complete;
}

Status write_segment(os::File& file, ByteSpan header, const std::vector<PartBytes>& parts) {
  TRY(file.append(header));
  for (const PartBytes& part : parts) TRY(file.append(part.bytes));
  return {};
}

Result<format::SegmentHeader> read_header(os::FileSystem& files, const std::string& directory, const os::FileInfo& info,
                                          const FingerprintHash& fingerprint) {
  TRY_ASSIGN(const std::unique_ptr<os::File> file, files.open(directory + "/" + info.name));
  TRY_ASSIGN(format::SegmentHeader header, read_header_of(*file));
  TRY(compare_with_file(header, info.name, info.size, fingerprint));
  return header;
}

Result<format::SegmentHeader> read_any_header(os::FileSystem& files, const std::string& path) {
  TRY_ASSIGN(const std::unique_ptr<os::File> file, files.open(path));
  return read_header_of(*file);
}

Result<CheckedSegment> check_segment(os::FileSystem& files, const std::string& directory, const std::string& name,
                                     const FingerprintHash& fingerprint) {
  TRY_ASSIGN(const std::unique_ptr<os::File> file, files.open(directory + "/" + name));
  TRY_ASSIGN(const ByteCount size, file->size());
  TRY_ASSIGN(CheckedSegment checked, check_segment_file(*file, size));
  TRY(compare_with_file(checked.header, name, size, fingerprint));
  return checked;
}

Result<CheckedSegment> check_segment_file(os::File& file, ByteCount size) {
  CheckedSegment checked{.header = {}, .read = size, .base_hash = {}};
  TRY_ASSIGN(checked.header, read_header_of(file));
  if (format::file_bytes(checked.header) != size.value()) return damaged("segment file of the wrong size");
  std::vector<std::byte> buffer(kReadChunkBytes);
  for (const format::Part& part : checked.header.parts) {
    const format::PartPlace place = *format::find_part(checked.header, part.kind);
    TRY_ASSIGN(const Checksum sum, sum_in_file(file, place, part_sum(checked.header, part.kind), buffer));
    if (sum != part.sum) return damaged("payload checksum");
    if (!part.built()) continue;
    PrefixHash base;
    const MutableByteSpan bytes = std::as_writable_bytes(std::span(base.bytes));
    if (part.size_bytes < bytes.size()) return damaged("a state without its base's name");
    TRY(read_exactly(file, place.offset, bytes));
    checked.base_hash = base;
  }
  return checked;
}

Status read_part(os::FileSystem& files, const std::string& path, const format::SegmentHeader& expected,
                 format::PartKind kind, MutableByteSpan out) {
  const auto place = format::find_part(expected, kind);
  if (!place || place->part.size_bytes != out.size()) return invalid("the buffer is not of the part's size");
  TRY_ASSIGN(const std::unique_ptr<os::File> file, files.open(path));
  TRY_ASSIGN(const format::SegmentHeader found, read_header_of(*file));
  TRY(compare_headers(found, expected));
  ChecksumStream sum = part_sum(expected, kind);
  TRY(read_payload(*file, place->offset, out, sum));
  if (sum.finish() == format::find_part(found, kind)->part.sum) return {};
  return damaged("payload checksum");
}

}  // namespace kvkeep::store
