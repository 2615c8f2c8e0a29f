#include "store/small_files.h"

#include <algorithm>
#include <memory>
#include <span>
#include <utility>

#include "format/notes.h"
#include "store/layout.h"

namespace kvkeep::store {
namespace {

std::string distrust_path(const std::string& directory) { return directory + "/" + std::string(kDistrustName); }

Result<std::string> first_bytes(os::File& file, std::size_t most) {
  std::string text(most, '\0');
  TRY_ASSIGN(const std::size_t count, file.read_at(0, std::as_writable_bytes(std::span(text))));
  text.resize(count);
  return text;
}

std::string unreadable(const Error& error) { return "a note that cannot be read: " + error.message; }

}  // namespace

Result<std::string> read_start(os::FileSystem& files, const std::string& path, std::size_t most) {
  TRY_ASSIGN(const std::unique_ptr<os::File> file, files.open(path));
  return first_bytes(*file, most);
}

Status replace_small_file(os::FileSystem& files, const std::string& path, std::string_view text, Syncing syncing) {
  const std::string temporary = path + std::string(kTemporarySuffix);
  (void)files.remove(temporary);  // left by a dead process
  TRY_ASSIGN(const std::unique_ptr<os::File> file, files.create(temporary));
  Status written = file->append(std::as_bytes(std::span(text)));
  if (written && syncing == Syncing::kDurable) written = file->sync();
  if (written) written = files.rename(temporary, path);
  if (!written) {
    (void)files.remove(temporary);
    return written;
  }
  return syncing == Syncing::kDurable ? files.sync_directory(directory_of(path)) : written;
}

Status write_distrust(os::FileSystem& files, const std::string& directory, std::string_view why) {
  return replace_small_file(files, distrust_path(directory), std::string(why.substr(0, kMostDistrustBytes - 1)) + "\n",
                            Syncing::kDurable);
}

std::optional<std::string> read_distrust(os::FileSystem& files, const std::string& directory) {
  const auto found = find_distrust(files, directory);
  return found ? *found : unreadable(found.error());
}

Result<std::optional<std::string>> find_distrust(os::FileSystem& files, const std::string& directory) {
  const auto file = files.open(distrust_path(directory));
  if (!file && file.error().kind == ErrorKind::kNotFound) return std::optional<std::string>();
  if (!file && file.error().kind == ErrorKind::kIo) return file.error();
  auto text = file ? first_bytes(**file, kMostDistrustBytes) : Result<std::string>(file.error());
  if (!text) return std::optional(unreadable(text.error()));
  text->resize(std::min(text->find('\n'), text->size()));
  std::ranges::replace_if(*text, [](unsigned char letter) { return letter < 0x20 || letter > 0x7e; }, '?');
  return std::optional(std::move(*text));
}

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
