// An archive of `kvkeep cache export`, to which the input does what it likes: nothing of it is imported, or whole
// segment files under their own names, within the room there is; and of one that was damaged, only what was there
// before.
//
// The first byte says whether sums are made to fit afterwards; edits follow.

#include <map>

#include "format/archive_file.h"
#include "inspect/archive.h"
#include "segment_fixup.h"
#include "testing/sim/sample_segments.h"
#include "testing/sim/sim_file_system.h"

namespace kvkeep::inspect {
namespace {

using Bytes = std::vector<std::byte>;

constexpr std::uint64_t kRoom = 20 * 8192;
constexpr std::size_t kMostEdits = 8;
const std::string kArchive = "/archive";
const std::string kRoot = "/cache";

void append(Bytes& to, ByteSpan bytes) { to.insert(to.end(), bytes.begin(), bytes.end()); }

Bytes file_of(const sim::SampleSegment& sample) {
  Bytes file = format::encode_header(sample.header);
  append(file, sample.payload);
  return file;
}

// Two conversations of two models, a window and a point.
const std::vector<Bytes>& sound_files() {
  static const std::vector<Bytes> files = [] {
    std::vector<Bytes> made;
    for (const std::uint8_t model : {std::uint8_t{1}, std::uint8_t{2}}) {
      const FingerprintHash fingerprint = sim::sample_fingerprint(model);
      for (const std::uint32_t number : {0U, 1U})
        made.push_back(file_of(sim::sample_segment(fingerprint, 1, number, 50)));
      made.push_back(file_of(sim::sample_leaf(fingerprint, 1, 1, format::PartKind::kWindowRows, 30)));
      made.push_back(file_of(sim::sample_leaf(fingerprint, 1, 1, format::PartKind::kPoint, 20)));
    }
    return made;
  }();
  return files;
}

Bytes sound_archive() {
  Bytes archive = format::encode_archive_head(true);
  for (const Bytes& file : sound_files()) {
    append(archive, format::encode_archive_number(file.size()));
    append(archive, file);
  }
  append(archive, format::encode_archive_number(0));
  append(archive, format::encode_archive_number(sound_files().size()));
  append(archive, format::encode_archive_notes({{sim::sample_fingerprint(1), encode_model_note({.name = "one"})},
                                                {sim::sample_fingerprint(2), encode_model_note({.name = "two"})}}));
  return archive;
}

void edit(fuzz::Input& input, Bytes& archive) {
  const std::size_t kind = input.below(4);
  const std::size_t place = archive.empty() ? 0 : input.below(archive.size());
  const auto at = archive.begin() + static_cast<std::ptrdiff_t>(place);
  const std::size_t size = std::min<std::size_t>(input.number<std::uint8_t>(), archive.size() - place);
  switch (kind) {
    case 0: archive.resize(place); break;
    case 1: archive.erase(at, at + static_cast<std::ptrdiff_t>(size)); break;
    case 2: std::ranges::copy(input.bytes(size), at); break;
    default: const ByteSpan more = input.bytes(size); archive.insert(at, more.begin(), more.end());
  }
}

// The sums of every file as far as the sizes before them lead to one, and of the notes after them.
void fix(MutableByteSpan archive) {
  for (std::size_t at = format::kArchiveHeadBytes; archive.size() >= at + format::kArchiveEntryBytes;) {
    const std::uint64_t size = format::decode_archive_number(archive.subspan(at, format::kArchiveEntryBytes));
    at += format::kArchiveEntryBytes;
    constexpr std::size_t kSumBytes = 16;
    if (size == 0 && archive.size() - at >= format::kArchiveEndBytes + kSumBytes) {
      const MutableByteSpan notes = archive.subspan(at + format::kArchiveEndBytes);
      fuzz::put_sum(notes, notes.size() - kSumBytes, notes.first(notes.size() - kSumBytes));
    }
    if (size == 0 || size > archive.size() - at) return;
    fuzz::fix_header(archive.subspan(at, size));
    fuzz::fix_parts(archive.subspan(at, size));
    at += size;
  }
}

std::map<std::string, Bytes> imported(const sim::SimFileSystem& files) {
  std::map<std::string, Bytes> found;
  for (const std::string& path : files.paths()) {
    // Notes are advice, and locks are empty; what they may hold is model_notes.h's business.
    const bool is_advice = path.ends_with("/model.json") || path.ends_with("/weights") || path.ends_with(".users");
    if (path != kArchive && !is_advice) found[path] = *files.contents(path);
  }
  return found;
}

void check_file(const std::string& path, ByteSpan bytes, bool forged) {
  const auto header = format::decode_header(bytes);
  KVKEEP_ASSERT(header && format::file_bytes(*header) == bytes.size(), "a whole file is imported");
  KVKEEP_ASSERT(path == kRoot + "/" + header->fingerprint.hex() + "/" + format::file_name(header->name),
                "under its own name");
  for (const format::Part& part : header->parts) {
    const auto place = format::find_part(*header, part.kind);
    const Checksum sum = format::part_checksum(header->fingerprint, header->name, part.kind,
                                               bytes.subspan(place->offset, part.size_bytes));
    KVKEEP_ASSERT(sum == part.sum, "with its own bytes");
  }
  const auto is_this = [&](const Bytes& known) { return std::ranges::equal(known, bytes); };
  KVKEEP_ASSERT(forged || std::ranges::any_of(sound_files(), is_this), "of a damaged archive nothing new comes");
}

void check(fuzz::Input input) {
  const bool forged = input.flag();
  const bool is_sound = input.left() == 0;
  Bytes archive = sound_archive();
  for (std::size_t i = 0; i < kMostEdits && input.left() > 0; ++i) edit(input, archive);
  if (forged) fix(archive);

  sim::SimFileSystem files;
  files.plant(kArchive, archive);
  KVKEEP_ASSERT(files.make_directories(kRoot).ok(), "the simulated disk works");
  const ImportOptions options{.room = ByteCount{kRoom}, .root = kRoot, .own_mark = "1"};
  const auto report = import_files(files, kArchive, options);
  const auto found = imported(files);
  KVKEEP_ASSERT(report || !is_sound, "what was exported can be imported");
  if (!report) {
    KVKEEP_ASSERT(!report.error().message.empty() && found.empty(), "a refused archive leaves nothing");
    return;
  }
  std::uint64_t physical = 0;
  for (const auto& [path, bytes] : found) {
    check_file(path, bytes, forged);
    physical += os::physical_size(ByteCount{bytes.size()}).value();
  }
  KVKEEP_ASSERT(physical <= kRoom, "the room is kept to");
  const auto again = import_files(files, kArchive, options);
  KVKEEP_ASSERT(again && imported(files) == found, "what is there is not added again");
}

}  // namespace
}  // namespace kvkeep::inspect

KVKEEP_FUZZ_TARGET(archive)(const std::uint8_t* data, std::size_t size) {
  kvkeep::inspect::check(kvkeep::fuzz::Input(data, size));
  return 0;
}
