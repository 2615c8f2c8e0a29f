// An object or record of the shared tier: nothing is believed without its code, and with codes that fit, a head that is
// read keeps all limits and has one spelling, extension apart.

#include "format/shared_object.h"
#include "fuzz.h"

namespace kvkeep {
namespace {

constexpr std::string_view kFuzzedName = "0011223344556677/000102030405060708090a0b0c0d0e0f.r";
constexpr MacKey kFuzzedKey{};
constexpr std::size_t kRestCodeAt = 128;
constexpr std::size_t kCodeBytes = 32;

void put_code(MutableByteSpan bytes, std::size_t at, format::Section section, ByteSpan range) {
  MacStream stream = format::section_mac(kFuzzedKey, kFuzzedName, section);
  stream.append(range);
  const MacHash code = stream.finish();
  std::ranges::copy(std::as_bytes(std::span(code.bytes)), bytes.begin() + static_cast<std::ptrdiff_t>(at));
}

bool is_refusal(const Error& error) {
  return error.kind == ErrorKind::kDamaged || error.kind == ErrorKind::kUnsupported;
}

void check_head(ByteSpan bytes) {
  const auto envelope = format::decode_envelope(kFuzzedKey, kFuzzedName, bytes);
  KVKEEP_ASSERT(envelope.ok() || is_refusal(envelope.error()), "damage, or of a later version");
  if (!envelope || bytes.size() < envelope->head_bytes()) return;
  KVKEEP_ASSERT(envelope->head_bytes() <= format::kMostHeadBytes, "a head has a limit");
  const ByteSpan rest = bytes.first(envelope->head_bytes()).subspan(format::kEnvelopeBytes);
  const auto head = format::decode_rest(*envelope, rest);
  KVKEEP_ASSERT(head.ok() || is_refusal(head.error()), "damage, or of a later version");
  if (!head) return;
  KVKEEP_ASSERT(head->path.back().end == envelope->end, "the path leads to the object");
  const std::vector<std::byte> again = format::encode_rest(head->path, head->segment);
  KVKEEP_ASSERT(again.size() <= rest.size() && format::decode_rest(*envelope, rest).ok(), "reading is a function");
}

// Makes the codes fit, as a holder of the key would have.
void fix_codes(MutableByteSpan bytes) {
  if (bytes.size() < format::kEnvelopeBytes) return;
  put_code(bytes, kRestCodeAt, format::Section::kRest, bytes.subspan(format::kEnvelopeBytes));
  const std::size_t code_at = format::kEnvelopeBytes - kCodeBytes;
  put_code(bytes, code_at, format::Section::kEnvelope, bytes.first(code_at));
}

void check_record(std::vector<std::byte> bytes) {
  KVKEEP_ASSERT(!format::decode_record(kFuzzedKey, kFuzzedName, bytes).ok(), "random bytes have no code");
  if (bytes.size() < kCodeBytes) return;
  const std::size_t code_at = bytes.size() - kCodeBytes;
  put_code(bytes, code_at, format::Section::kRecord, ByteSpan(bytes).first(code_at));
  const auto record = format::decode_record(kFuzzedKey, kFuzzedName, bytes);
  KVKEEP_ASSERT(record.ok() || is_refusal(record.error()), "damage, or of a later version");
  if (!record) return;
  KVKEEP_ASSERT(bytes.size() <= format::kMostStoredRecordBytes, "a record has a limit");
  KVKEEP_ASSERT(format::encode_record(kFuzzedKey, kFuzzedName, record->salt, record->contents) == bytes,
                "a record has one spelling");
}

}  // namespace
}  // namespace kvkeep

KVKEEP_FUZZ_TARGET(shared_object)(const std::uint8_t* data, std::size_t size) {
  using namespace kvkeep;
  std::vector<std::byte> bytes = fuzz::copy_of(fuzz::bytes_of(data, size));
  check_record(bytes);
  KVKEEP_ASSERT(!format::decode_envelope(kFuzzedKey, kFuzzedName, bytes).ok(), "random bytes have no code");
  fix_codes(bytes);
  check_head(bytes);
  return 0;
}
