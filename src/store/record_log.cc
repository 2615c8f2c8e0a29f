#include "store/record_log.h"

#include <algorithm>
#include <utility>

#include "format/notes.h"
#include "store/layout.h"

namespace kvkeep::store {

Result<ReadRecords> read_records(os::FileSystem& files, const std::string& path, std::uint32_t kind, ByteCount most) {
  auto file = files.open(path);
  if (!file && file.error().kind == ErrorKind::kNotFound) return ReadRecords{};
  if (!file) return file.error();
  TRY_ASSIGN(const ByteCount size, (*file)->size());
  std::vector<std::byte> bytes(std::min(size, most).value());
  TRY_ASSIGN(const std::size_t count, (*file)->read_at(0, bytes));
  const format::RecordFile decoded = format::decode_record_file(ByteSpan(bytes).first(count), kind);
  ReadRecords records{.payloads = {}, .damaged = !decoded.whole};
  for (const ByteSpan payload : decoded.payloads) records.payloads.emplace_back(payload.begin(), payload.end());
  return records;
}

Result<RecordLog> RecordLog::rewrite(os::FileSystem& files, const std::string& path, std::uint32_t kind,
                                     const std::vector<std::vector<std::byte>>& payloads) {
  const std::string temporary = path + std::string(kTemporarySuffix);
  (void)files.remove(temporary);  // left by a run that died
  TRY_ASSIGN(std::unique_ptr<os::File> file, files.create(temporary));
  std::vector<std::byte> bytes = format::encode_record_file_head(kind);
  for (const auto& payload : payloads) {
    const auto record = format::encode_record(payload);
    bytes.insert(bytes.end(), record.begin(), record.end());
  }
  Status written = file->append(bytes);
  if (written) written = files.rename(temporary, path);
  if (!written) {
    (void)files.remove(temporary);
    return written.error();
  }
  return RecordLog(std::move(file), ByteCount{bytes.size()});
}

Status RecordLog::append(ByteSpan payload) {
  if (payload.size() > format::kMaxRecordBytes) return invalid("a record too large");
  const auto record = format::encode_record(payload);
  TRY(file_->append(record));
  size_ = size_ + ByteCount{record.size()};
  return {};
}

}  // namespace kvkeep::store
