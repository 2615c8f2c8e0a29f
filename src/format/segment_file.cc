#include "format/segment_file.h"

#include <algorithm>
#include <bit>

#include "base/assert.h"
#include "format/bytes.h"

namespace kvkeep::format {
namespace {

// The line ends show a file that was transferred as text.
constexpr std::array<char, 8> kSegmentMagic = {'K', 'V', 'K', 'S', 'E', 'G', '\r', '\n'};
constexpr std::size_t kFixedSumOffset = kFixedHeaderBytes - 16;

// A file has the least version that can express it, so that a former program reads as many files as it can.
constexpr std::uint32_t kFirstVersion = 1;
constexpr std::uint32_t kCopiesVersion = 2;  // came with states that are built on others, by copies and literals
constexpr std::uint32_t kTenantVersion = 3;
constexpr std::uint32_t kFrameVersion = 4;  // came with zstd's frames

static_assert(kFixedHeaderBytes % kPayloadAlignment == 0 && sizeof(TokenId) == 4, "docs/format.md says so");

// The numbers of the fixed part, without the identity.
struct Lengths {
  std::uint32_t version = 0;
  std::uint32_t header_bytes = 0;
  std::uint32_t token_count = 0;
  std::uint32_t part_count = 0;
  std::uint64_t payload_bytes = 0;
  Checksum tail_sum;  // over part table, tokens and padding
};

Error bad_header(const char* what) { return damaged(std::string("segment header: ") + what); }

void write_tokens(Writer& writer, TokenSpan tokens) {
  if constexpr (std::endian::native == std::endian::little) {
    writer.raw(std::as_bytes(tokens));
  } else {
    for (const TokenId token : tokens) writer.number(static_cast<std::uint32_t>(token));
  }
}

std::vector<TokenId> read_tokens(Reader& reader, std::size_t count) {
  std::vector<TokenId> tokens(count);
  if constexpr (std::endian::native == std::endian::little) {
    const ByteSpan bytes = reader.raw(count * sizeof(TokenId));
    if (!bytes.empty()) std::memcpy(tokens.data(), bytes.data(), bytes.size());
  } else {
    for (TokenId& token : tokens) token = static_cast<TokenId>(reader.number<std::uint32_t>());
  }
  return tokens;
}

// Part table, token ids, padding: everything after the fixed part.
std::vector<std::byte> encode_tail(const SegmentHeader& header) {
  Writer writer;
  const std::size_t size = encoded_header_size(header.parts.size(), header.tokens.size()) - kFixedHeaderBytes;
  writer.reserve(size);
  for (const Part& part : header.parts) {
    writer.number(static_cast<std::uint32_t>(part.kind));
    writer.number(part.first_token);
    writer.number(part.size_bytes);
    writer.sum(part.sum);
    writer.number(part.layout);
    writer.number(part.base.value());
    writer.number(part.state_bytes);
  }
  write_tokens(writer, header.tokens);
  writer.zeros_to(size);
  return writer.take();
}

Part decode_part(Reader& reader, std::uint32_t version) {
  Part part;
  part.kind = static_cast<PartKind>(reader.number<std::uint32_t>());
  part.first_token = reader.number<std::uint32_t>();
  part.size_bytes = reader.number<std::uint64_t>();
  part.sum = reader.sum();
  part.layout = reader.number<std::uint64_t>();
  part.base = Position{reader.number<std::uint32_t>()};
  part.state_bytes = reader.number<std::uint32_t>();
  if (part.built() && version < kFrameVersion) part.differences = Differences::kCopies;
  return part;
}

// Precondition: at least one part.
PartKind kind_of(const std::vector<Part>& parts) {
  const bool rows = std::ranges::any_of(parts, [](const Part& part) { return part.kind == PartKind::kRows; });
  return rows ? PartKind::kRows : parts.front().kind;
}

Status check_part(const Part& part, std::size_t token_count) {
  const auto kind = static_cast<std::uint32_t>(part.kind);
  if (kind < 1 || kind > kMaxSegmentParts) return bad_header("part of unknown kind");
  if (part.size_bytes > kMaxPartBytes) return bad_header("part too large");
  if (part.first_token > token_count) return bad_header("part begins after the range");
  if (part.built() != (part.state_bytes > 0)) return bad_header("a base without a size, or the other way round");
  if (part.built() && part.kind != PartKind::kWhole) return bad_header("a base of what is no whole state");
  if (part.differences > Differences::kCopies || (!part.built() && part.differences != Differences::kFrame))
    return bad_header("differences of an unknown kind, or from no base");
  return {};
}

// Checks the rules that hold for every header, on disk or about to be written.
Status check_consistency(const SegmentHeader& header) {
  const SegmentName& name = header.name;
  if (name.begin > name.end) return bad_header("range ends before it begins");
  if (header.tokens.size() > kMaxSegmentTokens) return bad_header("too many tokens");
  if (header.tokens.size() != name.end - name.begin) return bad_header("token count is not the length of the range");
  if (name.begin == name.end && name.begin_hash != name.end_hash) return bad_header("a point with two hashes");
  if (header.parts.empty() || header.parts.size() > kMaxSegmentParts) return bad_header("number of parts");
  std::uint32_t kinds_seen = 0;
  for (const Part& part : header.parts) {
    TRY(check_part(part, header.tokens.size()));
    if (part.base >= name.end && part.built()) return bad_header("a base that is not earlier");
    const std::uint32_t bit = 1u << static_cast<std::uint32_t>(part.kind);
    if ((kinds_seen & bit) != 0) return bad_header("two parts of one kind");
    kinds_seen |= bit;
  }
  if (name.kind != kind_of(header.parts)) return bad_header("a name of another kind than the parts");
  if (header.origin != Origin::kPrompt && header.origin != Origin::kSampled)
    return bad_header("tokens of unknown origin");
  return {};
}

// Reads and verifies the fixed part; fills identity into `header`.
Result<Lengths> decode_fixed(ByteSpan bytes, SegmentHeader& header) {
  if (bytes.size() < kFixedHeaderBytes) return bad_header("too short");
  Reader reader(bytes.first(kFixedHeaderBytes));
  if (std::memcmp(reader.raw(kSegmentMagic.size()).data(), kSegmentMagic.data(), kSegmentMagic.size()) != 0)
    return bad_header("magic");
  Lengths lengths;
  lengths.version = reader.number<std::uint32_t>();
  Reader sum_reader(bytes.subspan(kFixedSumOffset, 16));
  if (checksum(bytes.first(kFixedSumOffset)) != sum_reader.sum()) return bad_header("checksum of the fixed part");
  if (lengths.version > kFrameVersion) return unsupported("segment file of a later version");
  if (lengths.version < kFirstVersion) return bad_header("version");
  lengths.header_bytes = reader.number<std::uint32_t>();
  header.fingerprint = reader.hash<FingerprintHash>();
  header.name.begin_hash = reader.hash<PrefixHash>();
  header.name.end_hash = reader.hash<PrefixHash>();
  header.name.begin = Position{reader.number<std::uint32_t>()};
  header.name.end = Position{reader.number<std::uint32_t>()};
  lengths.token_count = reader.number<std::uint32_t>();
  lengths.part_count = reader.number<std::uint32_t>();
  lengths.payload_bytes = reader.number<std::uint64_t>();
  lengths.tail_sum = reader.sum();
  header.origin = static_cast<Origin>(reader.number<std::uint32_t>());
  header.tenant = reader.hash<Tenant>();
  if (!reader.zeros_to(kFixedSumOffset)) return bad_header("reserved bytes");
  if (lengths.token_count > kMaxSegmentTokens || lengths.part_count > kMaxSegmentParts) return bad_header("limits");
  if (lengths.header_bytes != encoded_header_size(lengths.part_count, lengths.token_count))
    return bad_header("lengths");
  return lengths;
}

}  // namespace

std::uint32_t version_of(const SegmentHeader& header) {
  const auto built = std::ranges::find_if(header.parts, &Part::built);
  if (built != header.parts.end() && built->differences == Differences::kFrame) return kFrameVersion;
  if (header.tenant != kNoTenant) return kTenantVersion;
  return built != header.parts.end() ? kCopiesVersion : kFirstVersion;
}

ChecksumStream part_checksum_stream(const FingerprintHash& fingerprint, const SegmentName& name, PartKind kind) {
  Writer seed;
  seed.hash(fingerprint);
  seed.hash(name.begin_hash);
  seed.hash(name.end_hash);
  seed.number(name.begin.value());
  seed.number(name.end.value());
  seed.number(static_cast<std::uint32_t>(kind));
  ChecksumStream stream;
  stream.append(seed.bytes());
  return stream;
}

Checksum part_checksum(const FingerprintHash& fingerprint, const SegmentName& name, PartKind kind, ByteSpan bytes) {
  ChecksumStream stream = part_checksum_stream(fingerprint, name, kind);
  stream.append(bytes);
  return stream.finish();
}

std::string file_name(const SegmentName& name) {
  return name.begin_hash.hex(kNameHashBytes) + "-" + name.end_hash.hex(kNameHashBytes) +
         std::string(file_suffix(name.kind));
}

std::string_view file_suffix(PartKind kind) {
  switch (kind) {
    case PartKind::kRows: return ".kvs";
    case PartKind::kWindowRows: return ".window.kvs";
    case PartKind::kPoint: return ".point.kvs";
    case PartKind::kWhole: return ".whole.kvs";
  }
  KVKEEP_ASSERT(false, "a kind of part");
  return {};
}

bool is_hex(std::string_view text) { return text.find_first_not_of("0123456789abcdef") == std::string_view::npos; }

bool is_file_name(std::string_view text) {
  constexpr std::size_t kDigits = 2 * kNameHashBytes;
  if (text.size() < 2 * kDigits + 1 || text[kDigits] != '-') return false;
  const bool hashes = is_hex(text.substr(0, kDigits)) && is_hex(text.substr(kDigits + 1, kDigits));
  const std::string_view suffix = text.substr(2 * kDigits + 1);
  return hashes && std::ranges::any_of(kPartKinds, [&](PartKind kind) { return suffix == file_suffix(kind); });
}

Status check_header(const SegmentHeader& header) {
  const Status status = check_consistency(header);
  if (!status) return invalid(status.error().message);
  return {};
}

std::vector<std::byte> encode_header(const SegmentHeader& header) {
  KVKEEP_ASSERT(check_consistency(header).ok(), "only consistent headers are written");
  const std::vector<std::byte> tail = encode_tail(header);
  Writer writer;
  writer.reserve(kFixedHeaderBytes + tail.size());
  writer.raw(std::as_bytes(std::span(kSegmentMagic)));
  writer.number(version_of(header));
  writer.number(static_cast<std::uint32_t>(kFixedHeaderBytes + tail.size()));
  writer.hash(header.fingerprint);
  writer.hash(header.name.begin_hash);
  writer.hash(header.name.end_hash);
  writer.number(header.name.begin.value());
  writer.number(header.name.end.value());
  writer.number(static_cast<std::uint32_t>(header.tokens.size()));
  writer.number(static_cast<std::uint32_t>(header.parts.size()));
  writer.number(payload_bytes(header));
  writer.sum(checksum(tail));
  writer.number(static_cast<std::uint32_t>(header.origin));
  writer.hash(header.tenant);
  writer.zeros_to(kFixedSumOffset);
  writer.sum(checksum(writer.bytes()));
  writer.raw(tail);
  return writer.take();
}

Result<SegmentHeader> decode_header(ByteSpan bytes) {
  SegmentHeader header;
  TRY_ASSIGN(const Lengths lengths, decode_fixed(bytes, header));
  if (bytes.size() < lengths.header_bytes) return bad_header("too short");
  const ByteSpan tail = bytes.subspan(kFixedHeaderBytes, lengths.header_bytes - kFixedHeaderBytes);
  if (checksum(tail) != lengths.tail_sum) return bad_header("checksum of table and tokens");
  Reader reader(tail);
  for (std::uint32_t i = 0; i < lengths.part_count; ++i) header.parts.push_back(decode_part(reader, lengths.version));
  if (version_of(header) != lengths.version) return bad_header("a version that does not fit what it tells");
  header.tokens = read_tokens(reader, lengths.token_count);
  if (!reader.zeros_to(tail.size())) return bad_header("padding");
  if (!header.parts.empty()) header.name.kind = kind_of(header.parts);
  TRY(check_consistency(header));
  if (payload_bytes(header) != lengths.payload_bytes) return bad_header("payload length");
  return header;
}

std::uint64_t payload_bytes(const SegmentHeader& header) {
  std::uint64_t total = 0;
  for (const Part& part : header.parts) total += part.size_bytes;
  return total;
}

std::uint64_t file_bytes(const SegmentHeader& header) {
  return encoded_header_size(header.parts.size(), header.tokens.size()) + payload_bytes(header);
}

std::optional<PartPlace> find_part(const SegmentHeader& header, PartKind kind) {
  PartPlace place;
  place.offset = encoded_header_size(header.parts.size(), header.tokens.size());
  for (const Part& part : header.parts) {
    if (part.kind == kind) {
      place.part = part;
      return place;
    }
    place.offset += part.size_bytes;
  }
  return std::nullopt;
}

}  // namespace kvkeep::format
