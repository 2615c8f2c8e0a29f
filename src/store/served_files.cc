#include "store/served_files.h"

#include <algorithm>

#include "format/notes.h"

namespace kvkeep::store {

std::size_t ServedFiles::size() const {
  const MutexLock lock(mutex_);
  return files_.size();
}

ByteCount ServedFiles::physical_bytes() const {
  const MutexLock lock(mutex_);
  ByteCount bytes;
  for (const auto& [name, file] : files_) bytes += file.physical();
  return bytes;
}

std::optional<ServedFile> ServedFiles::find(const std::string& file_name) const {
  const MutexLock lock(mutex_);
  const auto found = files_.find(file_name);
  return found == files_.end() ? std::nullopt : std::optional(found->second);
}

std::optional<std::uint64_t> ServedFiles::generation_of(const std::string& file_name) const {
  const MutexLock lock(mutex_);
  const auto found = files_.find(file_name);
  return found == files_.end() ? std::nullopt : std::optional(found->second.generation);
}

bool ServedFiles::has_durable(const format::SegmentName& name) const {
  const MutexLock lock(mutex_);
  const auto found = files_.find(format::file_name(name));
  if (found == files_.end() || found->second.name != name) return false;
  return !found->second.suspect && found->second.durable;
}

void ServedFiles::serve(const std::string& file_name, ServedFile file) {
  const MutexLock lock(mutex_);
  file.generation = next_generation_++;
  files_[file_name] = std::move(file);
  index_is_current_ = false;
}

void ServedFiles::adopt(std::vector<FoundSegment> found) {
  const MutexLock lock(mutex_);
  files_.reserve(files_.size() + found.size());
  found_.reserve(found_.size() + found.size());
  for (FoundSegment& each : found) {
    ServedFile file{.name = each.header.name,
                    .header = each.encoded.empty() ? format::encode_header(each.header) : std::move(each.encoded),
                    .size_bytes = each.info.size.value(),
                    .modified_ns = each.info.modified_ns,
                    .generation = next_generation_++};
    found_.push_back({std::move(each.header), file.physical(), file.modified_ns});
    files_.emplace(std::move(each.info.name), std::move(file));
  }
}

ServedFile* ServedFiles::entry_of(const std::string& file_name, std::uint64_t generation) {
  const auto found = files_.find(file_name);
  return found != files_.end() && found->second.generation == generation ? &found->second : nullptr;
}

std::optional<ServedFile> ServedFiles::take(const std::string& file_name, std::uint64_t generation) {
  const MutexLock lock(mutex_);
  ServedFile* entry = entry_of(file_name, generation);
  if (entry == nullptr) return std::nullopt;
  ServedFile file = std::move(*entry);
  files_.erase(file_name);
  index_is_current_ = false;
  return file;
}

void ServedFiles::suspect(const std::string& file_name, std::uint64_t generation) {
  const MutexLock lock(mutex_);
  if (ServedFile* entry = entry_of(file_name, generation)) entry->suspect = true;
}

void ServedFiles::set_modified(const std::string& file_name, std::uint64_t generation, std::int64_t time_ns) {
  const MutexLock lock(mutex_);
  ServedFile* entry = entry_of(file_name, generation);
  if (entry == nullptr) return;
  entry->modified_ns = time_ns;
  index_is_current_ = false;
}

ServedFiles::Changes ServedFiles::compare_with(const std::vector<os::FileInfo>& listed) {
  std::unordered_map<std::string, const os::FileInfo*> there;
  for (const os::FileInfo& info : listed) {
    if (info.is_regular) there.emplace(info.name, &info);
  }
  Changes changes;
  const MutexLock lock(mutex_);
  for (auto it = files_.begin(); it != files_.end();) {
    ServedFile& file = it->second;
    const auto found = there.find(it->first);
    if (found == there.end() || found->second->size.value() != file.size_bytes) {
      changes.gone.push_back(std::move(file));
      it = files_.erase(it);
      continue;
    }
    if (std::exchange(file.modified_ns, found->second->modified_ns) != file.modified_ns) {
      changes.used.push_back({file.name, file.modified_ns});
    }
    ++it;
  }
  if (!changes.gone.empty() || !changes.used.empty()) index_is_current_ = false;
  return changes;
}

std::vector<StoredSegment> ServedFiles::take_found() {
  const MutexLock lock(mutex_);
  std::ranges::sort(found_, {}, [](const StoredSegment& segment) { return segment.header.name.begin; });
  return std::exchange(found_, {});
}

ServedFiles::Table ServedFiles::forget_all() {
  const MutexLock lock(mutex_);
  return std::exchange(files_, {});
}

std::vector<format::SegmentName> ServedFiles::missing_from(const Table& before) {
  const MutexLock lock(mutex_);
  std::vector<format::SegmentName> missing;
  for (const auto& [name, file] : before) {
    if (!files_.contains(name)) missing.push_back(file.name);
  }
  std::erase_if(found_,
                [&](const StoredSegment& found) { return before.contains(format::file_name(found.header.name)); });
  return missing;
}

std::optional<std::vector<std::byte>> ServedFiles::changed_index() {
  const MutexLock lock(mutex_);
  if (std::exchange(index_is_current_, true)) return std::nullopt;
  std::vector<format::EncodedIndexEntry> listed;
  listed.reserve(files_.size());
  for (const auto& [name, file] : files_) listed.push_back({file.size_bytes, file.modified_ns, file.header});
  return format::encode_index(listed);
}

void ServedFiles::set_index_current(bool current) {
  const MutexLock lock(mutex_);
  index_is_current_ = current;
}

}  // namespace kvkeep::store
