#include "format/shared_object.h"

#include <algorithm>
#include <cstring>

#include "base/assert.h"
#include "base/media_ids.h"
#include "format/bytes.h"

namespace kvkeep::format {
namespace {

constexpr std::string_view kSharedMagic = "KVKOBJ\r\n";
constexpr std::string_view kSharedRecordMagic = "KVKREC\r\n";
constexpr std::uint32_t kEncryptedFlag = 1;
constexpr std::uint32_t kVersionWithHashes = 1;
constexpr std::size_t kCodeBytes = sizeof(MacHash);
constexpr std::size_t kEnvelopeCodeAt = kEnvelopeBytes - kCodeBytes;
constexpr std::size_t kRestCodeAt = 128;
constexpr std::size_t kReservedBytes = 16;  // before the codes
constexpr std::size_t kRecordHeadBytes = 16;
constexpr std::uint32_t kClearRecordVersion = 1;
constexpr std::uint32_t kEncryptedRecordVersion = 2;
static_assert(kMostStoredRecordBytes ==
              kRecordHeadBytes + sizeof(EncryptionSalt) + kMostRecordBytes + kEncryptionTagBytes + kCodeBytes);

ByteSpan bytes_of(std::string_view text) { return std::as_bytes(std::span(text)); }

template <std::size_t kSize>
ByteSpan bytes_of(const std::array<std::uint8_t, kSize>& value) {
  return std::as_bytes(std::span(value));
}

template <std::size_t kSize>
std::array<std::uint8_t, kSize> read_array(Reader& reader) {
  std::array<std::uint8_t, kSize> value{};
  const ByteSpan field = reader.raw(kSize);
  if (!reader.failed()) std::memcpy(value.data(), field.data(), kSize);
  return value;
}

MacHash code_of(const MacKey& key, std::string_view name, Section section, ByteSpan bytes) {
  Writer whole;
  whole.reserve(2 * sizeof(std::uint64_t) + name.size() + bytes.size());
  whole.number(static_cast<std::uint64_t>(section));
  whole.number(static_cast<std::uint64_t>(name.size()));
  whole.raw(bytes_of(name));
  whole.raw(bytes);
  MacStream stream(key);
  stream.append(whole.bytes());
  return stream.finish();
}

// Returns true if the bytes end with their own code.
bool is_authentic(const MacKey& key, std::string_view name, Section section, ByteSpan bytes) {
  MacHash code;
  std::memcpy(code.bytes.data(), bytes.last(kCodeBytes).data(), kCodeBytes);
  return same_code(code, code_of(key, name, section, bytes.first(bytes.size() - kCodeBytes)));
}

bool has_magic(ByteSpan bytes, std::string_view magic) {
  return std::memcmp(bytes.data(), magic.data(), magic.size()) == 0;
}

bool is_leaf(PartKind kind) { return kind == PartKind::kPoint || kind == PartKind::kWhole; }

bool is_plausible(const Envelope& envelope) {
  if (envelope.kind < PartKind::kRows || envelope.kind > PartKind::kWhole) return false;
  if (envelope.begin > envelope.end || is_leaf(envelope.kind) != (envelope.begin == envelope.end)) return false;
  if (envelope.end - envelope.begin > kMaxSegmentTokens) return false;
  if (envelope.path_steps == 0 || envelope.path_steps > kMostPathSteps) return false;
  if (envelope.segment_bytes < kFixedHeaderBytes || envelope.segment_bytes > kMaxHeaderBytes) return false;
  if (!envelope.shows_hashes && !envelope.encrypted) return false;
  return envelope.extension_bytes <= kMostExtensionBytes && envelope.payload_bytes <= kMostSharedPayload;
}

Envelope read_fields(Reader& reader, bool shows_hashes) {
  Envelope envelope;
  envelope.shows_hashes = shows_hashes;
  envelope.kind = static_cast<PartKind>(reader.number<std::uint32_t>());
  envelope.encrypted = reader.number<std::uint32_t>() == kEncryptedFlag;
  envelope.begin = Position{reader.number<std::uint32_t>()};
  envelope.end = Position{reader.number<std::uint32_t>()};
  envelope.path_steps = reader.number<std::uint32_t>();
  envelope.segment_bytes = reader.number<std::uint32_t>();
  envelope.extension_bytes = reader.number<std::uint32_t>();
  reader.number<std::uint32_t>();  // reserved
  envelope.payload_bytes = reader.number<std::uint64_t>();
  envelope.writer = reader.number<std::uint64_t>();
  const ShortHash begin_hash = read_array<kNameHashBytes>(reader);
  const ShortHash end_hash = read_array<kNameHashBytes>(reader);
  if (shows_hashes) {
    envelope.begin_hash = begin_hash;
    envelope.end_hash = end_hash;
  }
  envelope.salt = read_array<sizeof(EncryptionSalt)>(reader);
  reader.raw(kReservedBytes);
  envelope.rest_mac = reader.hash<MacHash>();
  envelope.payload_mac = reader.hash<MacHash>();
  return envelope;
}

PathStep read_step(Reader& reader) {
  PathStep step;
  step.end = Position{reader.number<std::uint32_t>()};
  step.place = Position{reader.number<std::uint32_t>()};
  step.hash = read_array<kNameHashBytes>(reader);
  step.object_end = Position{reader.number<std::uint32_t>()};
  reader.number<std::uint32_t>();  // reserved
  step.object_hash = read_array<kNameHashBytes>(reader);
  return step;
}

// Steps go on, and the last one leads to the object.
bool leads_to(const std::vector<PathStep>& path, const SegmentName& object) {
  Position at;
  for (const PathStep& step : path) {
    if (step.end <= at || step.object_end < step.end) return false;
    if (step.object_end == step.end && step.object_hash != step.hash) return false;
    at = step.end;
  }
  const PathStep& last = path.back();
  const bool ends = last.end == object.end && last.hash == short_hash(object.end_hash);
  if (object.kind != PartKind::kRows) return ends;
  // The segment before leads to where this one begins.
  const Position before = path.size() > 1 ? path[path.size() - 2].end : Position{};
  return ends && last.object_end == last.end && before == object.begin;
}

bool is_described_by(const SegmentHeader& segment, const Envelope& envelope) {
  const SegmentName& name = segment.name;
  const bool places = name.kind == envelope.kind && name.begin == envelope.begin && name.end == envelope.end;
  if (!envelope.shows_hashes) return places;
  return places && short_hash(name.begin_hash) == envelope.begin_hash && short_hash(name.end_hash) == envelope.end_hash;
}

}  // namespace

void count_places(std::span<PathStep> path, TokenSpan ids) {
  const auto runs = media_runs(ids);
  for (PathStep& step : path) step.place = runs ? model_position(*runs, step.end) : step.end;
}

ShortHash short_hash(const PrefixHash& hash) {
  ShortHash first;
  std::copy_n(hash.bytes.begin(), first.size(), first.begin());
  return first;
}

MacStream section_mac(const MacKey& key, std::string_view name, Section section) {
  MacStream stream(key);
  stream.append_field(static_cast<std::uint64_t>(section));
  stream.append_field(name);
  return stream;
}

std::vector<std::byte> encode_rest(const std::vector<PathStep>& path, const SegmentHeader& segment) {
  Writer writer;
  for (const PathStep& step : path) {
    writer.number(step.end.value());
    writer.number(step.place.value());
    writer.raw(bytes_of(step.hash));
    writer.number(step.object_end.value());
    writer.number(std::uint32_t{0});
    writer.raw(bytes_of(step.object_hash));
  }
  writer.raw(encode_header(segment));
  return writer.take();
}

std::vector<std::byte> encode_envelope(const MacKey& key, std::string_view name, const Envelope& envelope) {
  Writer writer;
  writer.raw(bytes_of(kSharedMagic));
  writer.number(envelope.shows_hashes ? kVersionWithHashes : kSharedVersion);
  writer.number(static_cast<std::uint32_t>(envelope.head_bytes()));
  writer.number(static_cast<std::uint32_t>(envelope.kind));
  writer.number(envelope.encrypted ? kEncryptedFlag : 0u);
  writer.number(envelope.begin.value());
  writer.number(envelope.end.value());
  writer.number(envelope.path_steps);
  writer.number(envelope.segment_bytes);
  writer.number(envelope.extension_bytes);
  writer.number(std::uint32_t{0});
  writer.number(envelope.payload_bytes);
  writer.number(envelope.writer);
  const ShortHash hidden{};
  writer.raw(bytes_of(envelope.shows_hashes ? envelope.begin_hash : hidden));
  writer.raw(bytes_of(envelope.shows_hashes ? envelope.end_hash : hidden));
  writer.raw(bytes_of(envelope.salt));
  writer.zeros_to(kRestCodeAt);
  writer.hash(envelope.rest_mac);
  writer.hash(envelope.payload_mac);
  writer.zeros_to(kEnvelopeCodeAt);
  writer.hash(code_of(key, name, Section::kEnvelope, writer.bytes()));
  KVKEEP_ASSERT(writer.size() == kEnvelopeBytes, "an envelope has one size");
  return writer.take();
}

Result<Envelope> decode_envelope(const MacKey& key, std::string_view name, ByteSpan bytes) {
  if (bytes.size() < kEnvelopeBytes) return damaged("the head of a shared object is too short");
  bytes = bytes.first(kEnvelopeBytes);
  if (!has_magic(bytes, kSharedMagic)) return damaged("not the head of a shared object");
  if (!is_authentic(key, name, Section::kEnvelope, bytes))
    return damaged("the head of a shared object is not authentic");
  Reader reader(bytes.subspan(kSharedMagic.size()));
  const auto version = reader.number<std::uint32_t>();
  if (version > kSharedVersion) return unsupported("a shared object of a later version");
  const auto head_bytes = reader.number<std::uint32_t>();
  const Envelope envelope = read_fields(reader, version <= kVersionWithHashes);
  if (!is_plausible(envelope) || envelope.head_bytes() != head_bytes) {
    return damaged("the head of a shared object contradicts itself");
  }
  return envelope;
}

Status check_rest(const MacKey& key, std::string_view name, const Envelope& envelope, ByteSpan rest) {
  const bool authentic = rest.size() == envelope.head_bytes() - kEnvelopeBytes &&
                         same_code(envelope.rest_mac, code_of(key, name, Section::kRest, rest));
  if (!authentic) return damaged("the head of a shared object is not what its envelope says");
  return {};
}

Result<SharedHead> decode_rest(const Envelope& envelope, ByteSpan rest) {
  if (rest.size() != envelope.head_bytes() - kEnvelopeBytes) return damaged("the head of a shared object is too short");
  SharedHead head{.envelope = envelope, .path = {}, .segment = {}};
  Reader reader(rest);
  head.path.reserve(envelope.path_steps);
  for (std::uint32_t i = 0; i < envelope.path_steps; ++i) head.path.push_back(read_step(reader));
  TRY_ASSIGN(head.segment, decode_header(reader.raw(envelope.segment_bytes)));
  if (!is_described_by(head.segment, envelope))
    return damaged("a shared object is of another segment than its name says");
  if (head.path.empty() || !leads_to(head.path, head.segment.name))
    return damaged("the path of a shared object leads elsewhere");
  return head;
}

std::vector<std::byte> encode_record(const MacKey& key, std::string_view name,
                                     const std::optional<EncryptionSalt>& salt, ByteSpan contents) {
  Writer writer;
  writer.raw(bytes_of(kSharedRecordMagic));
  writer.number(salt ? kEncryptedRecordVersion : kClearRecordVersion);
  writer.number(static_cast<std::uint32_t>(contents.size()));
  if (salt) writer.raw(bytes_of(*salt));
  writer.raw(contents);
  writer.hash(code_of(key, name, Section::kRecord, writer.bytes()));
  return writer.take();
}

Result<SharedRecord> decode_record(const MacKey& key, std::string_view name, ByteSpan bytes) {
  if (bytes.size() < kRecordHeadBytes + kCodeBytes || !has_magic(bytes, kSharedRecordMagic)) {
    return damaged("not a shared record");
  }
  if (!is_authentic(key, name, Section::kRecord, bytes)) return damaged("a shared record is not authentic");
  Reader reader(bytes.subspan(kSharedRecordMagic.size()));
  const auto version = reader.number<std::uint32_t>();
  if (version > kEncryptedRecordVersion) return unsupported("a shared record of a later version");
  if (version < kClearRecordVersion) return damaged("a shared record of no version");
  const bool encrypted = version == kEncryptedRecordVersion;
  const auto size = reader.number<std::uint32_t>();
  const std::size_t most = kMostRecordBytes + (encrypted ? kEncryptionTagBytes : 0);
  const std::size_t salt_bytes = encrypted ? sizeof(EncryptionSalt) : 0;
  if (size > most || kRecordHeadBytes + salt_bytes + size + kCodeBytes != bytes.size()) {
    return damaged("the size of a shared record is wrong");
  }
  SharedRecord record;
  if (encrypted) record.salt = read_array<sizeof(EncryptionSalt)>(reader);
  const ByteSpan contents = reader.raw(size);
  record.contents.assign(contents.begin(), contents.end());
  return record;
}

}  // namespace kvkeep::format
