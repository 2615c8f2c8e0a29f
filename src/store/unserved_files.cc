#include "store/unserved_files.h"

#include <algorithm>
#include <iterator>
#include <optional>
#include <ranges>
#include <set>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
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

// Of a segment's path: directory and h(begin), directory and h(end), as its name has them.
std::optional<std::pair<std::string, std::string>> ends_of(const std::string& path) {
  const std::string directory = directory_of(path) + "/";
  const std::string name = path.substr(directory.size());
  if (!is_segment_name(name)) return std::nullopt;
  const std::size_t dash = name.find('-');
  return std::pair(directory + name.substr(0, dash), directory + name.substr(dash + 1, dash));
}

}  // namespace

void UnservedFiles::clear() {
  leftovers_.clear();
  removable_.clear();
  foreign_bytes_ = 0;
}

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
  add(path, {.bytes = bytes, .modified_ns = modified_ns});
}

void UnservedFiles::add(const std::string& path, Removable file) {
  if (!file.busy) foreign_bytes_ += file.bytes.value();
  removable_[path] = file;
}

// Its bytes are the caller's business.
UnservedFiles::Removables::iterator UnservedFiles::forget(Removables::iterator file) {
  if (!file->second.busy) foreign_bytes_ -= file->second.bytes.value();
  return removable_.erase(file);
}

void UnservedFiles::update(const std::string& directory, const std::vector<os::FileInfo>& listed,
                           const std::function<bool(const std::string&)>& busy) {
  std::set<std::string> there;
  for (const os::FileInfo& info : listed) {
    const std::string path = directory + "/" + info.name;
    there.insert(path);
    if (leftovers_.contains(path)) continue;
    const Removable now{os::physical_size(info.size), info.modified_ns, busy(info.name)};
    if (const auto before = removable_.find(path); before != removable_.end()) {
      if (before->second.bytes != now.bytes) ledger_.release(directory, before->second.bytes);
      if (before->second.bytes != now.bytes) ledger_.add_existing(now.bytes);
      forget(before);
    } else {
      ledger_.add_existing(now.bytes);
    }
    add(path, now);
  }
  const std::string first = directory + "/";
  for (auto it = removable_.lower_bound(first); it != removable_.end() && it->first.starts_with(first);) {
    if (there.contains(it->first)) {
      ++it;
      continue;
    }
    ledger_.release(directory, it->second.bytes);
    it = forget(it);
  }
}

void UnservedFiles::recount() {
  removable_.clear();
  foreign_bytes_ = 0;
  for (const auto& [path, bytes] : leftovers_) ledger_.add_existing(bytes);
}

// A use is told by the time of the deepest file alone, so that what it continues may look older than it is: the names
// tell, for segments that begin where another ends. Each of those after what continues it, else the oldest first.
std::vector<std::string> UnservedFiles::oldest_first() const {
  std::vector<Removables::const_iterator> youngest_first;
  std::unordered_map<std::string, Removables::const_iterator> by_end;  // directory and h(end)
  for (auto file = removable_.begin(); file != removable_.end(); ++file) {
    if (file->second.busy) continue;
    youngest_first.push_back(file);
    if (const auto ends = ends_of(file->first); ends && ends->first != ends->second) by_end.emplace(ends->second, file);
  }
  std::ranges::sort(youngest_first, std::greater{}, [](const auto& file) { return file->second.modified_ns; });
  std::vector<std::string> order;
  std::unordered_set<std::string_view> listed;
  for (const auto& file : youngest_first) {
    std::vector<std::string> path;  // upwards
    for (auto at = file; listed.insert(at->first).second;) {
      path.push_back(at->first);
      const auto ends = ends_of(at->first);
      const auto above = ends ? by_end.find(ends->first) : by_end.end();
      if (above == by_end.end()) break;
      at = above->second;
    }
    std::ranges::move(path | std::views::reverse, std::back_inserter(order));
  }
  std::ranges::reverse(order);
  return order;
}

ByteCount UnservedFiles::remove_oldest(ByteCount needed) {
  ByteCount freed;
  for (const std::string& path : oldest_first()) {
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
    forget(it);
  }
}

}  // namespace kvkeep::store
