// Files of records, and the sampled turns, offenders and work in them: records before a damage are given back, and each
// has one spelling.

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

template <typename Decode, typename Encode>
void check_record(ByteSpan payload, Decode decode, Encode encode) {
  const auto record = decode(payload);
  if (!record) {
    KVKEEP_ASSERT(record.error().kind == ErrorKind::kDamaged, "other bytes are damage");
    return;
  }
  KVKEEP_ASSERT(std::ranges::equal(encode(*record), payload), "a record has one spelling");
}

void check_payload(ByteSpan payload) {
  check_record(payload, format::decode_sampled_turn, format::encode_sampled_turn);
  check_record(payload, format::decode_shared_turns,
               [](const auto& turns) { return format::encode_shared_turns(turns); });
  check_record(payload, format::decode_offender, format::encode_offender);
  check_record(payload, format::decode_work, format::encode_work);
}

void check_records(ByteSpan bytes) {
  const format::RecordFile file = format::decode_record_file(bytes, kKind);
  std::vector<std::byte> again = format::encode_record_file_head(kKind);
  for (const ByteSpan payload : file.payloads) {
    const std::vector<std::byte> record = format::encode_record(payload);
    again.insert(again.end(), record.begin(), record.end());
    check_payload(payload);
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
  kvkeep::check_payload(bytes);
  kvkeep::check_records(bytes);
  kvkeep::fix_records(bytes);
  kvkeep::check_records(bytes);
  return 0;
}
