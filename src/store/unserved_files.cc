#include "store/unserved_files.h"

#include <algorithm>
#include <limits>
#include <set>
#include <string_view>
#include <utility>
#include <vector>

#include "format/notes.h"
#include "store/layout.h"
#include "store/segment_io.h"
#include "store/small_files.h"

namespace kvkeep::store {
namespace {

constexpr std::size_t kRetriesPerPut = 8;
// Others wait for the lock while headers are read.
constexpr std::size_t kHeadersAtOnce = 8192;
constexpr std::uint32_t kMostRefused = 4;

// A file of pins that cannot be read pins nothing.
std::vector<PrefixHash> read_pins(os::FileSystem& files, const std::string& directory) {
  const auto text = read_start(files, directory + "/" + std::string(kPinsName), format::kMostPinBytes);
  return text ? format::decode_pins(*text) : std::vector<PrefixHash>();
}

// A file that other hands removed counts as unlinked.
bool unlinked(os::FileSystem& files, const std::string& path) {
  const Status removed = files.remove(path);
  return removed.ok() || removed.error().kind == ErrorKind::kNotFound;
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

// The caller counts its bytes.
UnservedFiles::Removables::iterator UnservedFiles::forget(Removables::iterator file) {
  if (!file->second.busy) foreign_bytes_ -= file->second.bytes.value();
  return removable_.erase(file);
}

void UnservedFiles::update(const std::string& directory, const std::vector<os::FileInfo>& listed,
                           const std::function<bool(const os::FileInfo&)>& busy) {
  std::set<std::string> there;
  for (const os::FileInfo& info : listed) {
    const std::string path = directory + "/" + info.name;
    there.insert(path);
    if (leftovers_.contains(path)) continue;
    Removable now{.bytes = os::physical_size(info.size), .modified_ns = info.modified_ns, .busy = busy(info)};
    if (const auto before = removable_.find(path); before != removable_.end()) {
      if (before->second.bytes == now.bytes) {
        now.looked_at = before->second.looked_at;
        now.refused = before->second.refused;
        now.place = before->second.place;
      } else {
        ledger_.release(directory, before->second.bytes);
        ledger_.add_existing(now.bytes);
      }
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

// Returns false if the device refused, perhaps for now; after kMostRefused refusals the file keeps no other.
bool UnservedFiles::look_at(const std::string& path, Removable& file) {
  if (file.looked_at) return true;
  if (is_segment_name(std::string_view(path).substr(directory_of(path).size() + 1))) {
    const auto header = read_any_header(files_, path);
    if (!header && header.error().kind == ErrorKind::kIo && ++file.refused < kMostRefused) return false;
    if (header) file.place = place_of(*header);
  }
  return file.looked_at = true;
}

// No file of a directory may leave before all of its headers were read; kHeadersAtOnce are read at a time.
std::vector<UnservedFile> UnservedFiles::candidates() {
  std::set<std::string> unknown;
  std::size_t reads = kHeadersAtOnce;
  for (auto& [path, file] : removable_) {
    if (file.busy || file.looked_at) continue;
    const bool looked = reads > 0 && look_at(path, file);
    reads -= std::min<std::size_t>(reads, 1);
    if (!looked) unknown.insert(directory_of(path));
  }
  std::vector<UnservedFile> files;
  for (const auto& [path, file] : removable_) {
    std::string directory = directory_of(path);
    if (file.busy || unknown.contains(directory)) continue;
    files.push_back({path, std::move(directory), file.modified_ns, file.place});
  }
  return files;
}

// Pinned files count as kept for ever, and with them the files that lead to them, which wait until they left.
void UnservedFiles::mark_pinned(std::vector<UnservedFile>& files) const {
  std::string directory;
  std::set<PrefixHash> pins;
  for (UnservedFile& file : files) {  // by path: a directory's files lie together
    if (!file.place) continue;
    if (file.directory != directory) {
      directory = file.directory;
      const std::vector<PrefixHash> read = read_pins(files_, directory);
      pins = {read.begin(), read.end()};
    }
    if (pins.contains(file.place->name.end_hash)) file.modified_ns = std::numeric_limits<std::int64_t>::max();
  }
}

std::vector<UnservedFile> UnservedFiles::in_order() {
  std::vector<UnservedFile> files = candidates();
  mark_pinned(files);
  std::vector<UnservedFile> ordered;
  ordered.reserve(files.size());
  for (const std::size_t next : removal_order(files)) ordered.push_back(std::move(files[next]));
  return ordered;
}

bool UnservedFiles::remove(const std::string& path, ByteCount& freed) {
  if (!unlinked(files_, path)) return false;
  freed += removable_[path].bytes;
  replaced(path);
  return true;
}

ByteCount UnservedFiles::remove_oldest(ByteCount needed, std::int64_t now_ns, Kept kept) {
  ByteCount freed;
  for (const UnservedFile& file : in_order()) {
    // Files after the first kept one are kept as well, or lead to kept ones.
    if (freed >= needed || (kept == Kept::kSpare && file.modified_ns > now_ns)) break;
    (void)remove(file.path, freed);
  }
  return freed;
}

ByteCount UnservedFiles::remove_used_before(std::int64_t time_ns, std::int64_t now_ns) {
  ByteCount freed;
  for (const UnservedFile& file : in_order()) {
    if (file.modified_ns >= std::min(time_ns, now_ns)) break;
    (void)remove(file.path, freed);
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

namespace {

constexpr std::size_t kMaxHeldFiles = 8;
constexpr std::uint64_t kBudgetShare = 20;  // at most a twentieth of the budget

}  // namespace

Quarantine::Quarantine(std::string directory, ByteCount budget, os::FileSystem& files, os::Clock& clock,
                       SpaceLedger& ledger, UnservedFiles& unserved)
    : directory_(std::move(directory)),
      limit_(budget.value() / kBudgetShare),
      files_(files),
      clock_(clock),
      ledger_(ledger),
      unserved_(unserved) {}

Status Quarantine::open() {
  held_.clear();
  held_bytes_ = ByteCount{};
  usable_ = files_.make_directories(directory_).ok();
  auto listed = files_.list(directory_);
  if (!listed) {
    usable_ = false;  // missing, or a link: no file of the store's to count
    if (listed.error().kind == ErrorKind::kIo) return listed.error();
    return {};
  }
  std::ranges::sort(*listed, {}, [](const os::FileInfo& info) { return std::pair(info.modified_ns, info.name); });
  for (const os::FileInfo& info : *listed) {
    if (!info.is_regular) continue;
    const ByteCount bytes = os::physical_size(info.size);
    ledger_.add_existing(bytes);
    held_bytes_ += bytes;
    held_.push_back({directory_ + "/" + info.name, bytes});
  }
  prune();
  return {};
}

void Quarantine::take(const std::string& path, ByteCount bytes) {
  // The time keeps names apart over the life of the directory, the number within one nanosecond.
  const std::string target = directory_ + "/" + path.substr(path.find_last_of('/') + 1) + "." +
                             std::to_string(clock_.wall_ns()) + "." + std::to_string(++taken_);
  if (!usable_ || !files_.rename(path, target)) {
    unserved_.discard(path, bytes);
    return;
  }
  ledger_.note_unsynced(directory_of(path));
  ledger_.note_unsynced(directory_);
  held_bytes_ += bytes;
  held_.push_back({target, bytes});
  prune();
}

ByteCount Quarantine::give_up(ByteCount needed) {
  ByteCount freed;
  while (freed < needed && !held_.empty()) {
    freed += held_.front().bytes;
    drop_oldest();
  }
  return freed;
}

void Quarantine::prune() {
  while (!held_.empty() && (held_.size() > kMaxHeldFiles || held_bytes_ > limit_)) drop_oldest();
}

void Quarantine::drop_oldest() {
  const Held oldest = std::move(held_.front());
  held_.pop_front();
  held_bytes_ -= oldest.bytes;
  unserved_.discard(oldest.path, oldest.bytes);
}

}  // namespace kvkeep::store
