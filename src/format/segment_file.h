#pragma once

// Bytes <-> structs of a segment file (docs/format.md has the layout and a worked example).
//
// One immutable, self-describing file holds the state of one run [begin, end) of one prefix: rows of attention
// layers, rows of window layers, or the state at one position that rows cannot give (then begin == end). It is named by
// the prefix hashes at both ends and its kind under one fingerprint, and it carries its token ids, so that a reader can
// compare them with those it wants. Models without rows have files of rows of no bytes all the same: they hold the ids
// that lead to a point. Pure: no I/O here.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/checksum.h"
#include "base/hash.h"
#include "base/result.h"
#include "base/types.h"

namespace kvkeep::format {

inline constexpr std::size_t kMaxSegmentTokens = 2048;
inline constexpr std::size_t kMaxSegmentParts = 4;          // one of each kind
inline constexpr std::uint64_t kMaxPartBytes = 1ull << 32;  // a limit for readers, far above any segment

// The kind of a part of the payload. Numbers are on disk: never reuse one.
enum class PartKind : std::uint32_t {
  kRows = 1,        // rows of full-attention layers, one per token of the range
  kWindowRows = 2,  // rows of sliding-window layers (may be absent or cover a suffix of the range)
  kPoint = 3,       // state at `end` that rows cannot give (recurrent state)
  kWhole = 4,       // the whole state at `end` (opaque models)
};

// How a built state is written (built_state.h): by a zstd frame that continues its base or, in files before version 4,
// by copies and literals.
enum class Differences : std::uint8_t { kFrame, kCopies };

struct Part {
  PartKind kind = PartKind::kRows;
  std::uint64_t size_bytes = 0;
  Checksum sum = {};  // over the segment's identity and the part's bytes: see part_checksum
  // Tokens of the range before the part's first row: a window part may cover only the end of the range.
  std::uint32_t first_token = 0;
  // The layout of the bytes, a number whose meaning is the engine's; it is compared when the part is read. 0: unknown.
  std::uint64_t layout = 0;
  // Whole states only: the bytes are differences from the whole state of the same prefix at `base`, an earlier
  // position, and `state_bytes` come out. Both 0: the bytes are the state.
  Position base = {};
  std::uint32_t state_bytes = 0;
  Differences differences = Differences::kFrame;  // decided by the version of the header
  constexpr bool built() const { return base > Position{}; }
  bool operator==(const Part&) const = default;
};

// Where the ids of a segment of rows come from. Numbers are on disk: never reuse one.
enum class Origin : std::uint32_t {
  kPrompt = 0,   // they came in a prompt
  kSampled = 1,  // this server sampled them: they replace other ids of the same text (text_match.h)
};

// The name of a segment: unique under one fingerprint.
struct SegmentName {
  Position begin;
  Position end;
  PrefixHash begin_hash;  // h(begin)
  PrefixHash end_hash;    // h(end)
  // Its content: kRows if rows are among the parts, else the kind of the first one. On disk the parts decide it.
  PartKind kind = PartKind::kRows;
  bool operator==(const SegmentName&) const = default;
};

struct SegmentHeader {
  FingerprintHash fingerprint;
  SegmentName name;
  std::vector<TokenId> tokens;  // end - begin ids; at a point (begin == end): empty
  std::vector<Part> parts;      // in payload order
  Origin origin = Origin::kPrompt;
  Tenant tenant = kNoTenant;  // under whose key the name's hashes are
  bool operator==(const SegmentHeader&) const = default;
};

// The sum of a part, seeded with fingerprint, name and kind: bytes that belong to another segment never pass.
// The stream takes the part's bytes in pieces.
ChecksumStream part_checksum_stream(const FingerprintHash& fingerprint, const SegmentName& name, PartKind kind);
Checksum part_checksum(const FingerprintHash& fingerprint, const SegmentName& name, PartKind kind, ByteSpan bytes);

// "<begin_hash 16 bytes hex>-<end_hash 16 bytes hex>" and the kind's suffix; never contains a separator.
std::string file_name(const SegmentName& name);
inline constexpr std::size_t kNameHashBytes = 16;  // of each prefix hash
// ".kvs", ".window.kvs", ".point.kvs" or ".whole.kvs": rows and window rows of one run are two files.
std::string_view file_suffix(PartKind kind);
inline constexpr PartKind kPartKinds[] = {PartKind::kRows, PartKind::kWindowRows, PartKind::kPoint, PartKind::kWhole};
bool is_file_name(std::string_view text);  // whether file_name() could have made it
bool is_hex(std::string_view text);        // whether all of it is lower-case hexadecimal digits

// Bytes before the payload, which begins at a multiple of kPayloadAlignment; parts follow each other without gaps.
inline constexpr std::size_t kFixedHeaderBytes = 256;
inline constexpr std::size_t kPartEntryBytes = 48;
inline constexpr std::size_t kPayloadAlignment = 64;
constexpr std::size_t encoded_header_size(std::size_t part_count, std::size_t token_count) {
  const std::size_t exact = kFixedHeaderBytes + part_count * kPartEntryBytes + token_count * sizeof(TokenId);
  return (exact + kPayloadAlignment - 1) / kPayloadAlignment * kPayloadAlignment;
}
inline constexpr std::size_t kMaxHeaderBytes = encoded_header_size(kMaxSegmentParts, kMaxSegmentTokens);

// Fails with kInvalid if the header breaks a limit or contradicts itself (tokens not end - begin, a kind twice, no
// part, a name of another kind than the parts, an unknown origin).
Status check_header(const SegmentHeader& header);

// Header bytes, checksums of the header included. Precondition: check_header(header) is ok.
std::vector<std::byte> encode_header(const SegmentHeader& header);
// Returns the version of these bytes: the least that can express the header.
std::uint32_t version_of(const SegmentHeader& header);

// Fails with kDamaged if magic, version, lengths, limits or a checksum are wrong, or bytes are missing; with
// kUnsupported if it is of a later version, with the sum of its fixed part right. Never throws, never reads outside.
// `bytes` begins at offset 0 of the file and may be longer than the header; kMaxHeaderBytes always suffice.
Result<SegmentHeader> decode_header(ByteSpan bytes);

std::uint64_t payload_bytes(const SegmentHeader& header);  // all parts together
std::uint64_t file_bytes(const SegmentHeader& header);
// Returns the offset of a part in the file and its entry; nullopt if the segment has no such part.
struct PartPlace {
  std::uint64_t offset = 0;
  Part part;
};
std::optional<PartPlace> find_part(const SegmentHeader& header, PartKind kind);

}  // namespace kvkeep::format
