#include "format/archive_file.h"

#include <string>

#include "format/bytes.h"

namespace kvkeep::format {
namespace {

constexpr std::array<char, 8> kArchiveMagic = {'K', 'V', 'K', 'A', 'R', 'C', '\r', '\n'};
constexpr std::uint32_t kArchiveVersion = 1;
constexpr std::uint32_t kArchiveWithNotes = 2;

Error not_a_note() { return invalid("an archive whose notes of models are damaged"); }

}  // namespace

std::vector<std::byte> encode_archive_head(bool with_notes) {
  Writer writer;
  writer.raw(std::as_bytes(std::span(kArchiveMagic)));
  writer.number(with_notes ? kArchiveWithNotes : kArchiveVersion);
  writer.zeros_to(kArchiveHeadBytes);
  return writer.take();
}

std::vector<std::byte> encode_archive_number(std::uint64_t number) {
  Writer writer;
  writer.number(number);
  return writer.take();
}

Result<bool> check_archive_head(ByteSpan bytes) {
  Reader reader(bytes);
  const ByteSpan magic = reader.raw(kArchiveMagic.size());
  if (reader.failed() || std::memcmp(magic.data(), kArchiveMagic.data(), kArchiveMagic.size()) != 0) {
    return invalid("not an archive of kvkeep cache export");
  }
  const auto version = reader.number<std::uint32_t>();
  if (version != kArchiveVersion && version != kArchiveWithNotes)
    return invalid("an archive of version " + std::to_string(version) + ", which is not known");
  if (!reader.zeros_to(kArchiveHeadBytes)) return invalid("an archive whose head is damaged");
  return version == kArchiveWithNotes;
}

// The sum covers all of it, for nothing else would show damage in a text.
std::vector<std::byte> encode_archive_notes(const std::vector<ArchiveNote>& notes) {
  Writer writer;
  writer.number(static_cast<std::uint64_t>(notes.size()));
  for (const ArchiveNote& note : notes) {
    writer.hash(note.fingerprint);
    writer.number(static_cast<std::uint64_t>(note.text.size()));
    writer.raw(std::as_bytes(std::span(note.text)));
  }
  writer.sum(checksum(writer.bytes()));
  return writer.take();
}

Result<std::vector<ArchiveNote>> decode_archive_notes(ByteSpan bytes) {
  constexpr std::size_t kSumBytes = 16;
  if (bytes.size() < kSumBytes || bytes.size() > kMaxArchiveNotesBytes) return not_a_note();
  const ByteSpan body = bytes.first(bytes.size() - kSumBytes);
  if (Reader(bytes.last(kSumBytes)).sum() != checksum(body)) return not_a_note();
  Reader reader(body);
  const auto count = reader.number<std::uint64_t>();
  if (count > kMaxArchiveModels) return not_a_note();
  std::vector<ArchiveNote> notes;
  for (std::uint64_t i = 0; i < count; ++i) {
    ArchiveNote& note = notes.emplace_back();
    note.fingerprint = reader.hash<FingerprintHash>();
    const auto size = reader.number<std::uint64_t>();
    if (reader.failed() || size > kMaxArchiveNoteBytes) return not_a_note();
    const ByteSpan text = reader.raw(size);
    if (reader.failed()) return not_a_note();
    note.text.assign(reinterpret_cast<const char*>(text.data()), text.size());
  }
  if (reader.left() > 0) return not_a_note();
  return notes;
}

std::uint64_t decode_archive_number(ByteSpan bytes) { return Reader(bytes).number<std::uint64_t>(); }

}  // namespace kvkeep::format
