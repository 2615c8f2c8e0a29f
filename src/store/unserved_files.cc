#include "store/unserved_files.h"

#include <algorithm>
#include <vector>

#include "store/layout.h"

namespace kvkeep::store {
namespace {

constexpr std::size_t kRetriesPerPut = 8;

// A file that vanished by other hands is gone as well.
bool unlinked(os::FileSystem& files, const std::string& path) {
  const Status removed = files.remove(path);
  return removed.ok() || removed.error().kind == ErrorKind::kNotFound;
}

}  // namespace

bool UnservedFiles::discard(const std::string& path, ByteCount bytes) {
  if (unlinked(files_, path)) {
    ledger_.release(directory_of(path), bytes);
    return true;
  }
  leftovers_[path] = bytes;
  return false;
}

void UnservedFiles::retry_leftovers() {
  std::size_t tries = kRetriesPerPut;
  for (auto it = leftovers_.begin(); it != leftovers_.end() && tries > 0; --tries) {
    if (unlinked(files_, it->first)) {
      ledger_.release(directory_of(it->first), it->second);
      it = leftovers_.erase(it);
    } else {
      ++it;
    }
  }
}

void UnservedFiles::add_removable(const std::string& path, ByteCount bytes, std::int64_t modified_ns) {
  removable_[path] = {bytes, modified_ns};
  foreign_bytes_ += bytes.value();
}

ByteCount UnservedFiles::remove_oldest(ByteCount needed) {
  std::vector<std::pair<std::int64_t, std::string>> by_age;
  for (const auto& [path, file] : removable_) by_age.emplace_back(file.modified_ns, path);
  std::ranges::sort(by_age);
  ByteCount freed;
  for (const auto& [age, path] : by_age) {
    if (freed >= needed) break;
    if (!unlinked(files_, path)) continue;
    freed += removable_[path].bytes;
    replaced(path);
  }
  return freed;
}

void UnservedFiles::replaced(const std::string& path) {
  if (const auto it = leftovers_.find(path); it != leftovers_.end()) {
    ledger_.release(directory_of(path), it->second);
    leftovers_.erase(it);
  }
  if (const auto it = removable_.find(path); it != removable_.end()) {
    ledger_.release(directory_of(path), it->second.bytes);
    foreign_bytes_ -= it->second.bytes.value();
    removable_.erase(it);
  }
}

}  // namespace kvkeep::store
