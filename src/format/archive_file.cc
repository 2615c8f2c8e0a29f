#include "format/archive_file.h"

#include <string>

#include "format/bytes.h"

namespace kvkeep::format {
namespace {

constexpr std::array<char, 8> kMagic = {'K', 'V', 'K', 'A', 'R', 'C', '\r', '\n'};
constexpr std::uint32_t kVersion = 1;

}  // namespace

std::vector<std::byte> encode_archive_head() {
  Writer writer;
  writer.raw(std::as_bytes(std::span(kMagic)));
  writer.number(kVersion);
  writer.zeros_to(kArchiveHeadBytes);
  return writer.take();
}

std::vector<std::byte> encode_archive_number(std::uint64_t number) {
  Writer writer;
  writer.number(number);
  return writer.take();
}

Status check_archive_head(ByteSpan bytes) {
  Reader reader(bytes);
  const ByteSpan magic = reader.raw(kMagic.size());
  if (reader.failed() || std::memcmp(magic.data(), kMagic.data(), kMagic.size()) != 0) {
    return invalid("not an archive of kvkeep cache export");
  }
  const auto version = reader.number<std::uint32_t>();
  if (version != kVersion) return invalid("an archive of version " + std::to_string(version) + ", which is not known");
  if (!reader.zeros_to(kArchiveHeadBytes)) return invalid("an archive whose head is damaged");
  return {};
}

std::uint64_t decode_archive_number(ByteSpan bytes) { return Reader(bytes).number<std::uint64_t>(); }

}  // namespace kvkeep::format
