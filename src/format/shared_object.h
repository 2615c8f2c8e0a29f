#pragma once

// Bytes <-> structs of an object of the shared tier (docs/format.md has the layout and a worked example).
//
// An object carries one segment or leaf between servers that share no disk. Its head is an envelope of fixed size, then
// the path that leads to it, then the header of its segment file as it is; its payload is that file's payload. An
// object is named by where it ends, because a reader that knows only a prompt can guess ends, not begins.
//
// All of it was written by others. Nothing leaves these decoders before its authentication code was checked, which is
// bound to the object's name: bytes of another object never pass. Pure: no I/O here.

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/hash.h"
#include "base/mac.h"
#include "base/result.h"
#include "base/types.h"
#include "format/segment_file.h"

namespace kvkeep::format {

// Version 2 shows no hash in the envelope; objects in clear are still of version 1, which former builds read.
inline constexpr std::uint32_t kSharedVersion = 2;
inline constexpr std::size_t kEnvelopeBytes = 256;
inline constexpr std::size_t kPathStepBytes = 48;
inline constexpr std::size_t kMostPathSteps = 8192;              // a limit for readers
inline constexpr std::size_t kMostExtensionBytes = 64 * 1024;    // likewise
inline constexpr std::uint64_t kMostSharedPayload = 1ull << 32;  // likewise
inline constexpr std::size_t kMostRecordBytes = 256 * 1024;      // of a record, which has no payload
inline constexpr std::size_t kEncryptionTagBytes = 16;           // that encryption adds
// Of a whole record, encrypted, with its head and code.
inline constexpr std::size_t kMostStoredRecordBytes = 32 + kMostRecordBytes + kEncryptionTagBytes + sizeof(MacHash);
using EncryptionSalt = std::array<std::uint8_t, 16>;

// The first 16 bytes of a prefix hash.
using ShortHash = std::array<std::uint8_t, kNameHashBytes>;
ShortHash short_hash(const PrefixHash& hash);

// One segment of rows on the way from the root to an object. A way may leave a segment in its middle, where the next
// one begins: then the segment's object ends after `end`, under ids that are not those of this way.
struct PathStep {
  Position end;  // the rows of this segment are used up to here
  // The position that the model counts there: `end`, unless the prompt holds media before it. Inside a chunk of media,
  // where no sequence ends, it means nothing.
  Position place;
  ShortHash hash{};  // of h(end)
  Position object_end;
  ShortHash object_hash{};  // of h(object_end): names the object
  bool operator==(const PathStep&) const = default;
};

// Sets the place of each step to the position that the model counts there. `ids`: of the prompt, up to the last step's
// end at least. Cost: one look at each id.
void count_places(std::span<PathStep> path, TokenSpan ids);

// The part of a head that has a fixed size: all that a look-up needs to choose an object.
struct Envelope {
  PartKind kind = PartKind::kRows;
  Position begin;  // begin == end: a point or a whole state
  Position end;
  // False: they are in the rest of the head only, which is encrypted, and zero here. With a model's file, guesses of
  // prompts could be compared with a hash.
  bool shows_hashes = true;
  ShortHash begin_hash{};
  ShortHash end_hash{};
  std::uint32_t path_steps = 0;
  std::uint32_t segment_bytes = 0;    // of the segment file's header
  std::uint32_t extension_bytes = 0;  // for fields to come; readers of this version pass over them
  std::uint64_t payload_bytes = 0;    // as stored
  std::uint64_t writer = 0;           // a random number of the process that wrote it
  bool encrypted = false;             // the rest of the head and the payload
  EncryptionSalt salt{};              // of the encryption; zero without
  MacHash rest_mac{};                 // of the head after the envelope, as stored
  MacHash payload_mac{};              // of the payload, as stored
  bool operator==(const Envelope&) const = default;

  // Bytes of the whole head.
  std::size_t head_bytes() const {
    return kEnvelopeBytes + path_steps * kPathStepBytes + segment_bytes + extension_bytes;
  }
};

inline constexpr std::size_t kMostHeadBytes =
    kEnvelopeBytes + kMostPathSteps * kPathStepBytes + kMaxHeaderBytes + kMostExtensionBytes;

// A whole head, authenticated.
struct SharedHead {
  Envelope envelope;
  // The segments of rows from the root, by ascending end; the last one ends where the object does. In an object of rows
  // that is the object itself.
  std::vector<PathStep> path;
  SegmentHeader segment;
  bool operator==(const SharedHead&) const = default;
};

// Returns the authentication code of one section of an object. The name and the section's number go into it.
enum class Section : std::uint32_t { kEnvelope = 1, kRest = 2, kPayload = 3, kRecord = 4 };
MacStream section_mac(const MacKey& key, std::string_view name, Section section);

// The head after the envelope, in clear.
std::vector<std::byte> encode_rest(const std::vector<PathStep>& path, const SegmentHeader& segment);
// Exactly kEnvelopeBytes, the authentication code included.
std::vector<std::byte> encode_envelope(const MacKey& key, std::string_view name, const Envelope& envelope);

// Fails with kDamaged if bytes are missing, the code is not that of this name under this key, or a field breaks a
// limit; with kUnsupported if an authentic envelope is of a later version. `bytes` may be longer.
Result<Envelope> decode_envelope(const MacKey& key, std::string_view name, ByteSpan bytes);
// Returns ok if `rest`, as stored, is what the envelope was written with, else kDamaged.
Status check_rest(const MacKey& key, std::string_view name, const Envelope& envelope, ByteSpan rest);
// Decodes the rest of the head, in clear. Fails with kDamaged if it contradicts itself or the envelope.
Result<SharedHead> decode_rest(const Envelope& envelope, ByteSpan rest);

// A record: few bytes under a name, without path or payload (how a turn was sampled).
struct SharedRecord {
  std::optional<EncryptionSalt> salt = {};  // nullopt: the contents are in clear
  std::vector<std::byte> contents = {};     // as stored
};
std::vector<std::byte> encode_record(const MacKey& key, std::string_view name,
                                     const std::optional<EncryptionSalt>& salt, ByteSpan contents);
// Fails as decode_envelope(). `bytes` are the whole record.
Result<SharedRecord> decode_record(const MacKey& key, std::string_view name, ByteSpan bytes);

}  // namespace kvkeep::format
