#pragma once

// Bytes <-> the notes that lie next to segment files (docs/format.md): the saved index, how turns were sampled,
// which prefixes are pinned, which texts were offenders, and how much prefill was spared. All are advice: a directory
// without them works, and serves the same. Decoders never throw and never read outside.

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/hash.h"
#include "base/result.h"
#include "base/types.h"
#include "format/segment_file.h"

namespace kvkeep::format {

// ---- the saved index ----
// It lists the files of a directory of segments, so that opening need not read ten thousand headers. An entry counts
// only for a file whose size and time still match, and reading a file verifies the file itself.

struct IndexEntry {
  std::string name;  // of the file, without directory; derived from the header
  std::uint64_t size_bytes = 0;
  std::int64_t modified_ns = 0;
  SegmentHeader header;
  ByteSpan encoded;  // the same header, in the bytes of the index
};

inline constexpr std::size_t kMaxIndexEntries = 200'000;
inline constexpr std::uint64_t kMaxIndexBytes = 2ull << 30;

// An entry as it is kept until the index is written: the header already encoded.
struct EncodedIndexEntry {
  std::uint64_t size_bytes = 0;
  std::int64_t modified_ns = 0;
  ByteSpan header;
};

std::vector<std::byte> encode_index(const std::vector<EncodedIndexEntry>& entries);
// Fails with kDamaged if the whole index is worthless, with kUnsupported if it or a header in it is of a later version.
Result<std::vector<IndexEntry>> decode_index(ByteSpan bytes);

// ---- a file that grows at its end ----
// A head, then records, each with its length and checksum. Whatever ends the process, the records before the one being
// written are whole; reading stops at the first that is not.

inline constexpr std::size_t kRecordFileHeadBytes = 16;
inline constexpr std::size_t kMaxRecordBytes = std::size_t{4} << 20;

// `kind` tells what the records are; a file of another kind holds no records for the reader.
std::vector<std::byte> encode_record_file_head(std::uint32_t kind);
// Precondition: payload.size() <= kMaxRecordBytes.
std::vector<std::byte> encode_record(ByteSpan payload);

struct RecordFile {
  std::vector<ByteSpan> payloads;  // views of the bytes, in order
  bool whole = true;               // nothing but records
};
// A file whose head is not that of `kind` has no payloads and is not whole. An empty one has none, but is whole.
RecordFile decode_record_file(ByteSpan bytes, std::uint32_t kind);

// ---- an assistant's turn as it was sampled: a record ----

inline constexpr std::uint32_t kSampledTurnRecords = 1;  // the kind of a record file

struct SampledTurnRecord {
  PrefixHash before;  // of the prompt's ids up to the turn
  std::vector<TokenId> ids;
  std::vector<std::string> call_ids;
  bool operator==(const SampledTurnRecord&) const = default;
};

std::vector<std::byte> encode_sampled_turn(const SampledTurnRecord& turn);
// Fails with kDamaged if these are not the bytes of exactly one.
Result<SampledTurnRecord> decode_sampled_turn(ByteSpan bytes);

// The turns that were sampled at one place, as servers share them: several replies to one prompt, oldest first. One
// alone is spelt as above, so that former servers read it.
inline constexpr std::size_t kMostSharedTurns = 4;

// Keeps the newest as far as kMostSharedTurns and `most_bytes` allow, but at least one, and of equal ones the newest.
// Precondition: there is one, and all have the same place.
std::vector<std::byte> encode_shared_turns(std::vector<SampledTurnRecord> turns, std::size_t most_bytes = SIZE_MAX);
// Fails with kDamaged if these are not the bytes of one to kMostSharedTurns different turns.
Result<std::vector<SampledTurnRecord>> decode_shared_turns(ByteSpan bytes);

// ---- offenders: texts that kept prompts from being reused, added up ----

inline constexpr std::uint32_t kOffenderRecords = 2;   // the kind of a record file
inline constexpr std::size_t kMostOffenderText = 256;  // bytes of each of its texts

// One client and one place in its prompts; or, without a place, all requests of a client.
struct OffenderRecord {
  std::string client = {};  // the name of its program
  std::string place = {};   // "system", "tool 3"; "": the record counts the client's requests
  std::string kind = {};    // as replies name it: "volatile-text"
  std::string what = {};    // "date"; "" if the kind says all
  std::string line = {};    // the beginning of the line that differs; "" if it is private
  std::uint64_t times = 0;
  std::uint64_t lost_tokens = 0;
  std::uint64_t lost_us = 0;  // microseconds of prefill
  std::int64_t last_ns = 0;   // by the wall clock
  bool operator==(const OffenderRecord&) const = default;
};

// Texts are cut at kMostOffenderText.
std::vector<std::byte> encode_offender(const OffenderRecord& offender);
// Fails with kDamaged if these are not the bytes of exactly one.
Result<OffenderRecord> decode_offender(ByteSpan bytes);

// ---- work: how much prefill was done and spared, the only record of its file ----

inline constexpr std::uint32_t kWorkRecords = 3;  // the kind of a record file

struct WorkRecord {
  std::int64_t since_ns = 0;           // when its first server started, by the wall clock
  std::uint64_t reused_tokens = 0;     // instead of prefilling them
  std::uint64_t load_us = 0;           // microseconds that loading them took
  std::uint64_t prefilled_tokens = 0;  // those that were prefilled
  std::uint64_t prefill_us = 0;        // microseconds that this took
  // Microseconds of prefill that the reused tokens spared; empty in records of older programs, which kept no sum.
  std::optional<std::uint64_t> saved_us = {};
  bool operator==(const WorkRecord&) const = default;
};

std::vector<std::byte> encode_work(const WorkRecord& work);
// Fails with kDamaged if these are not the bytes of exactly one.
Result<WorkRecord> decode_work(ByteSpan bytes);

// ---- pins ----
// Text: the hash of a prefix's end on each line, 64 lower-case hexadecimal digits.

inline constexpr std::size_t kMostPins = 256;
// The size of such a text: digits and a line end for each hash.
inline constexpr std::size_t kMostPinBytes = kMostPins * (2 * sizeof(PrefixHash) + 1);

// Skips lines that are no hash, and all after kMostPins.
std::vector<PrefixHash> decode_pins(std::string_view text);
std::string encode_pins(const std::vector<PrefixHash>& pins);

}  // namespace kvkeep::format
