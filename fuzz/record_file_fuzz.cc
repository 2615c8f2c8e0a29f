// Files of records and the sampled turns and offenders in them: what is whole before a damage is given back, and has
// one spelling.

#include "format/notes.h"
#include "fuzz.h"

namespace kvkeep {
namespace {

constexpr std::uint32_t kKind = format::kSampledTurnRecords;
constexpr std::size_t kRecordHeadBytes = 20;

// The head, and the sum of each record.
void fix_records(MutableByteSpan bytes) {
  const std::vector<std::byte> head = format::encode_record_file_head(kKind);
  if (bytes.size() < head.size()) return;
  std::ranges::copy(head, bytes.begin());
  for (std::size_t at = head.size(); bytes.size() >= at + kRecordHeadBytes;) {
    const auto size = format::load_little_endian<std::uint32_t>(bytes.data() + at);
    if (size > bytes.size() - at - kRecordHeadBytes) return;
    const std::vector<std::byte> record = format::encode_record(bytes.subspan(at + kRecordHeadBytes, size));
    std::ranges::copy(record, bytes.begin() + static_cast<std::ptrdiff_t>(at));
    at += record.size();
  }
}

void check_turn(ByteSpan payload) {
  const auto turn = format::decode_sampled_turn(payload);
  if (!turn) {
    KVKEEP_ASSERT(turn.error().kind == ErrorKind::kDamaged, "other bytes are damage");
    return;
  }
  KVKEEP_ASSERT(std::ranges::equal(format::encode_sampled_turn(*turn), payload), "a turn has one spelling");
}

void check_offender(ByteSpan payload) {
  const auto offender = format::decode_offender(payload);
  if (!offender) {
    KVKEEP_ASSERT(offender.error().kind == ErrorKind::kDamaged, "other bytes are damage");
    return;
  }
  KVKEEP_ASSERT(std::ranges::equal(format::encode_offender(*offender), payload), "an offender has one spelling");
}

void check_records(ByteSpan bytes) {
  const format::RecordFile file = format::decode_record_file(bytes, kKind);
  std::vector<std::byte> again = format::encode_record_file_head(kKind);
  for (const ByteSpan payload : file.payloads) {
    const std::vector<std::byte> record = format::encode_record(payload);
    again.insert(again.end(), record.begin(), record.end());
    check_turn(payload);
    check_offender(payload);
  }
  const bool has_any = !file.payloads.empty() || (file.whole && !bytes.empty());
  KVKEEP_ASSERT(!has_any || std::ranges::equal(again, bytes.first(std::min(again.size(), bytes.size()))),
                "records are what lies at the beginning");
  KVKEEP_ASSERT(bytes.empty() || file.whole == std::ranges::equal(again, bytes),
                "a file is whole if it is nothing else");
}

}  // namespace
}  // namespace kvkeep

KVKEEP_FUZZ_TARGET(record_file)(const std::uint8_t* data, std::size_t size) {
  std::vector<std::byte> bytes = kvkeep::fuzz::copy_of(kvkeep::fuzz::bytes_of(data, size));
  kvkeep::check_turn(bytes);
  kvkeep::check_offender(bytes);
  kvkeep::check_records(bytes);
  kvkeep::fix_records(bytes);
  kvkeep::check_records(bytes);
  return 0;
}
