#include "format/notes.h"

#include <algorithm>
#include <optional>

#include "base/assert.h"
#include "format/bytes.h"

namespace kvkeep::format {

// ---- the saved index ----

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

// ---- a file that grows at its end ----

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

// ---- a turn as it was sampled ----

namespace {

// In the place of the number of ids: several turns follow. No record is large enough for so many ids.
constexpr std::uint32_t kSeveralTurns = 0xFFFF'FFFF;

Error bad_turn(const char* what) { return damaged(std::string("sampled turn: ") + what); }

// Everything but its place.
void write_turn(Writer& writer, const SampledTurnRecord& turn) {
  writer.number(static_cast<std::uint32_t>(turn.ids.size()));
  for (const TokenId id : turn.ids) writer.number(static_cast<std::uint32_t>(id));
  writer.number(static_cast<std::uint32_t>(turn.call_ids.size()));
  for (const std::string& id : turn.call_ids) {
    writer.number(static_cast<std::uint32_t>(id.size()));
    writer.raw(std::as_bytes(std::span(id)));
  }
}

Result<SampledTurnRecord> read_turn(Reader& reader, const PrefixHash& before) {
  SampledTurnRecord turn;
  turn.before = before;
  const auto ids = reader.number<std::uint32_t>();
  if (reader.failed() || ids > reader.left() / sizeof(std::uint32_t)) return bad_turn("too short for its ids");
  for (std::uint32_t i = 0; i < ids; ++i) turn.ids.push_back(static_cast<TokenId>(reader.number<std::uint32_t>()));
  const auto calls = reader.number<std::uint32_t>();
  if (reader.failed() || calls > reader.left() / sizeof(std::uint32_t)) return bad_turn("too short for its calls");
  for (std::uint32_t i = 0; i < calls; ++i) {
    const ByteSpan id = reader.raw(reader.number<std::uint32_t>());
    turn.call_ids.emplace_back(reinterpret_cast<const char*>(id.data()), id.size());
  }
  if (reader.failed()) return bad_turn("too short");
  return turn;
}

}  // namespace

std::vector<std::byte> encode_sampled_turn(const SampledTurnRecord& turn) {
  Writer writer;
  writer.hash(turn.before);
  write_turn(writer, turn);
  return writer.take();
}

Result<SampledTurnRecord> decode_sampled_turn(ByteSpan bytes) {
  Reader reader(bytes);
  const auto before = reader.hash<PrefixHash>();
  TRY_ASSIGN(SampledTurnRecord turn, read_turn(reader, before));
  if (reader.left() != 0) return bad_turn("bytes after it");
  return turn;
}

std::vector<std::byte> encode_shared_turns(std::vector<SampledTurnRecord> turns, std::size_t most_bytes) {
  for (auto turn = turns.begin(); turn != turns.end();) {
    turn = std::find(turn + 1, turns.end(), *turn) != turns.end() ? turns.erase(turn) : turn + 1;
  }
  if (turns.size() > kMostSharedTurns) turns.erase(turns.begin(), turns.end() - kMostSharedTurns);
  for (; turns.size() > 1; turns.erase(turns.begin())) {
    Writer writer;
    writer.hash(turns.front().before);
    writer.number(kSeveralTurns);
    writer.number(static_cast<std::uint32_t>(turns.size()));
    for (const SampledTurnRecord& turn : turns) write_turn(writer, turn);
    std::vector<std::byte> bytes = writer.take();
    if (bytes.size() <= most_bytes) return bytes;
  }
  return encode_sampled_turn(turns.front());
}

Result<std::vector<SampledTurnRecord>> decode_shared_turns(ByteSpan bytes) {
  Reader reader(bytes);
  const auto before = reader.hash<PrefixHash>();
  std::vector<SampledTurnRecord> turns;
  if (reader.number<std::uint32_t>() != kSeveralTurns || reader.failed()) {
    TRY_ASSIGN(SampledTurnRecord turn, decode_sampled_turn(bytes));
    turns.push_back(std::move(turn));
    return turns;
  }
  const auto count = reader.number<std::uint32_t>();
  if (reader.failed() || count < 2 || count > kMostSharedTurns) return bad_turn("too few or too many of one place");
  for (std::uint32_t i = 0; i < count; ++i) {
    TRY_ASSIGN(SampledTurnRecord turn, read_turn(reader, before));
    if (std::ranges::find(turns, turn) != turns.end()) return bad_turn("twice in one record");
    turns.push_back(std::move(turn));
  }
  if (reader.left() != 0) return bad_turn("bytes after it");
  return turns;
}

// ---- offenders ----

namespace {

Error bad_offender(const char* what) { return damaged(std::string("offender: ") + what); }

void write_text(Writer& writer, std::string_view text) {
  text = text.substr(0, kMostOffenderText);
  writer.number(static_cast<std::uint32_t>(text.size()));
  writer.raw(std::as_bytes(std::span(text)));
}

std::string read_text(Reader& reader) {
  const auto size = reader.number<std::uint32_t>();
  if (size > kMostOffenderText) return (void)reader.raw(reader.left() + 1), std::string();
  const ByteSpan text = reader.raw(size);
  return {reinterpret_cast<const char*>(text.data()), text.size()};
}

}  // namespace

std::vector<std::byte> encode_offender(const OffenderRecord& offender) {
  Writer writer;
  for (const std::string* text : {&offender.client, &offender.place, &offender.kind, &offender.what, &offender.line}) {
    write_text(writer, *text);
  }
  for (const std::uint64_t number :
       {offender.times, offender.lost_tokens, offender.lost_us, static_cast<std::uint64_t>(offender.last_ns)}) {
    writer.number(number);
  }
  return writer.take();
}

Result<OffenderRecord> decode_offender(ByteSpan bytes) {
  Reader reader(bytes);
  OffenderRecord offender;
  for (std::string* text : {&offender.client, &offender.place, &offender.kind, &offender.what, &offender.line}) {
    *text = read_text(reader);
  }
  for (std::uint64_t* number : {&offender.times, &offender.lost_tokens, &offender.lost_us}) {
    *number = reader.number<std::uint64_t>();
  }
  offender.last_ns = static_cast<std::int64_t>(reader.number<std::uint64_t>());
  if (reader.failed()) return bad_offender("too short, or a text is too long");
  if (reader.left() != 0) return bad_offender("bytes after it");
  return offender;
}

// ---- work ----

std::vector<std::byte> encode_work(const WorkRecord& work) {
  Writer writer;
  for (const std::uint64_t number : {static_cast<std::uint64_t>(work.since_ns), work.reused_tokens, work.load_us,
                                     work.prefilled_tokens, work.prefill_us}) {
    writer.number(number);
  }
  if (work.saved_us) writer.number(*work.saved_us);
  return writer.take();
}

Result<WorkRecord> decode_work(ByteSpan bytes) {
  Reader reader(bytes);
  WorkRecord work;
  work.since_ns = static_cast<std::int64_t>(reader.number<std::uint64_t>());
  for (std::uint64_t* number : {&work.reused_tokens, &work.load_us, &work.prefilled_tokens, &work.prefill_us}) {
    *number = reader.number<std::uint64_t>();
  }
  if (reader.left() > 0) work.saved_us = reader.number<std::uint64_t>();
  if (reader.failed() || reader.left() != 0) return damaged("work: of another size");
  return work;
}

// ---- pins ----

namespace {

std::optional<PrefixHash> parse_hash(std::string_view digits) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  PrefixHash hash;
  if (digits.size() != 2 * hash.bytes.size() || !is_hex(digits)) return std::nullopt;
  for (std::size_t i = 0; i < hash.bytes.size(); ++i) {
    hash.bytes[i] = static_cast<std::uint8_t>(kDigits.find(digits[2 * i]) << 4 | kDigits.find(digits[2 * i + 1]));
  }
  return hash;
}

}  // namespace

std::vector<PrefixHash> decode_pins(std::string_view text) {
  std::vector<PrefixHash> pins;
  while (!text.empty() && pins.size() < kMostPins) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    if (const auto hash = parse_hash(text.substr(0, end))) pins.push_back(*hash);
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return pins;
}

std::string encode_pins(const std::vector<PrefixHash>& pins) {
  std::string text;
  for (const PrefixHash& pin : pins) text.append(pin.hex()).append("\n");
  return text;
}

}  // namespace kvkeep::format
