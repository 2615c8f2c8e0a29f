#include "share/engines/directory_engine.h"

#include <algorithm>
#include <utility>

#include "os/process.h"

namespace kvkeep::share {
namespace {

constexpr std::int64_t kSweepEveryNs = 60'000'000'000;
constexpr std::int64_t kTemporaryNs = 3600'000'000'000;  // one that is older belongs to a server that died
constexpr std::size_t kMostRemovals = 10'000;            // of one sweep
constexpr std::string_view kTemporary = ".tmp";

std::string random_suffix() {
  std::array<std::byte, 8> bytes{};
  os::fill_random(bytes);
  std::string text;
  for (const std::byte byte : bytes) text += std::to_string(std::to_integer<unsigned>(byte) % 10);
  return text;
}

Error late() { return io_error("the directory did not answer in time"); }

}  // namespace

struct DirectoryEngine::Stored {
  std::string path;
  ByteCount size;
  std::int64_t used_ns = 0;
};

DirectoryEngine::DirectoryEngine(DirectoryOptions options, os::FileSystem& files, os::Clock& clock)
    : options_(std::move(options)),
      root_(options_.path + "/kv1"),
      files_(files),
      clock_(clock),
      own_(random_suffix()) {}

std::string DirectoryEngine::folder_of(const ObjectName& name) const {
  return root_ + '/' + name.space + '/' + name.id.substr(0, 2);
}

std::string DirectoryEngine::path_of(const ObjectName& name) const {
  return folder_of(name) + '/' + name.id + '.' + static_cast<char>(name.kind);
}

HeadBytes DirectoryEngine::head(const std::string& path, std::size_t first_bytes) const {
  TRY_ASSIGN(const auto file, files_.open(path));
  std::vector<std::byte> bytes(first_bytes);
  TRY_ASSIGN(const std::size_t size, file->read_at(0, bytes));
  bytes.resize(size);
  return bytes;
}

// Makes the folder at the first contact, if the directory is there. kNotFound: it is not; kIo: the folder was there and
// is gone.
Status DirectoryEngine::reach() {
  const auto listed = files_.list(root_);
  const bool is_there = listed.ok();
  {
    const MutexLock lock(mutex_);
    if (is_there) reached_ = true;
    if (is_there || listed.error().kind != ErrorKind::kNotFound) return is_there ? Status{} : Status(listed.error());
    if (reached_) return io_error("the directory " + root_ + " is gone: is its file system still mounted?");
  }
  const auto directory = files_.list(options_.path);
  if (!directory.ok() && directory.error().kind == ErrorKind::kNotFound) {
    return not_found("the directory " + options_.path +
                     " is not there: mount its file system, or make the directory if it is new");
  }
  TRY(files_.make_directories(root_));
  const MutexLock lock(mutex_);
  reached_ = true;
  return {};
}

// An object is absent only if the folder of all is there.
Error DirectoryEngine::explain_absence(Error error) {
  if (error.kind != ErrorKind::kNotFound) return error;
  const Status reached = reach();
  if (reached.ok()) return error;
  return io_error(reached.error().message);
}

std::vector<HeadBytes> DirectoryEngine::heads(const std::vector<ObjectName>& names, std::size_t first_bytes,
                                              std::int64_t deadline_ns) {
  std::vector<HeadBytes> heads;
  for (const ObjectName& name : names) {
    heads.push_back(is_late(deadline_ns) ? HeadBytes(late()) : head(path_of(name), first_bytes));
  }
  const auto is_absent = [](const HeadBytes& one) { return !one.ok() && one.error().kind == ErrorKind::kNotFound; };
  const auto absent = std::ranges::find_if(heads, is_absent);
  if (absent == heads.end()) return heads;
  const Error reason = explain_absence(absent->error());
  if (reason.kind != ErrorKind::kNotFound) std::ranges::replace_if(heads, is_absent, HeadBytes(reason));
  return heads;
}

Status DirectoryEngine::get(const ObjectName& name, const PayloadSlice& slice, MutableByteSpan out,
                            const Arrived& arrived, std::int64_t deadline_ns) {
  const auto opened = files_.open(path_of(name));
  if (!opened.ok()) return explain_absence(opened.error());
  const auto& file = *opened;
  for (std::size_t at = 0; at < out.size();) {
    if (is_late(deadline_ns)) return late();
    const MutableByteSpan piece = out.subspan(at, std::min(kPieceBytes, out.size() - at));
    TRY_ASSIGN(const std::size_t read, file->read_at(slice.head_bytes + slice.begin + at, piece));
    if (read < piece.size()) return not_found("the file is shorter than its payload");
    at += read;
    arrived(at);
  }
  return {};
}

// Makes the folder of the name if it is missing, and never those above it: they may be on a file system that went away.
Result<std::unique_ptr<os::File>> DirectoryEngine::create(const std::string& path, const std::string& folder) {
  auto file = files_.create(path);
  if (file.ok() || file.error().kind != ErrorKind::kNotFound) return file;
  TRY(reach());
  TRY(files_.make_directories(folder));
  return files_.create(path);
}

Status DirectoryEngine::put(const ObjectName& name, ByteSpan head, ByteSpan payload, std::int64_t ttl_s,
                            std::int64_t deadline_ns) {
  if (sweep_is_due()) sweep(ttl_s);
  std::string temporary;
  {
    const MutexLock lock(mutex_);
    temporary = folder_of(name) + '/' + own_ + '-' + std::to_string(++written_) + std::string(kTemporary);
  }
  const auto write = [&]() -> Status {
    TRY_ASSIGN(const auto file, create(temporary, folder_of(name)));
    TRY(file->append(head));
    for (ByteSpan left = payload; !left.empty(); left = left.subspan(std::min(kPieceBytes, left.size()))) {
      if (is_late(deadline_ns)) return late();
      TRY(file->append(left.first(std::min(kPieceBytes, left.size()))));
    }
    TRY(file->sync());
    return files_.rename(temporary, path_of(name));
  };
  const Status written = write();
  if (written.ok()) return written;
  (void)files_.remove(temporary);
  return written.error().kind == ErrorKind::kNotFound ? io_error(written.error().message) : written.error();
}

Result<std::vector<ObjectName>> DirectoryEngine::touch(const std::vector<Touched>& objects, std::int64_t,
                                                       std::int64_t deadline_ns) {
  for (const Touched& object : objects) {
    if (is_late(deadline_ns)) return late();
    const Status set = files_.set_modified(path_of(object.name), clock_.wall_ns());
    if (set.ok()) continue;
    const Error error = explain_absence(set.error());
    if (error.kind != ErrorKind::kNotFound) return error;
  }
  return std::vector<ObjectName>{};  // each is one file
}

Status DirectoryEngine::remove(const ObjectName& name, std::int64_t) {
  const Status removed = files_.remove(path_of(name));
  if (removed.ok()) return removed;
  const Error error = explain_absence(removed.error());
  return error.kind == ErrorKind::kNotFound ? Status{} : Status(error);
}

namespace {

// The names of folders in a directory, ascending.
std::vector<std::string> folders_in(os::FileSystem& files, const std::string& directory) {
  std::vector<std::string> folders;
  const auto listed = files.list(directory);
  if (!listed.ok()) return folders;
  for (const os::FileInfo& one : *listed) {
    if (one.is_directory) folders.push_back(one.name);
  }
  std::ranges::sort(folders);
  return folders;
}

}  // namespace

// Returns the first "<space>/<folder>" after `from`, nullopt if there is none.
std::optional<std::string> DirectoryEngine::folder_after(const std::string& space, const std::string& from) const {
  const std::vector<std::string> spaces = space.empty() ? folders_in(files_, root_) : std::vector{space};
  for (const std::string& one : spaces) {
    if (one < from.substr(0, one.size())) continue;
    for (const std::string& folder : folders_in(files_, root_ + '/' + one)) {
      std::string path = one + '/' + folder;
      if (path > from) return path;
    }
  }
  return std::nullopt;
}

// A page is a folder.
Result<NamesPage> DirectoryEngine::list(const std::string& space, const std::string& from, std::int64_t deadline_ns) {
  if (is_late(deadline_ns)) return late();
  TRY(reach());
  NamesPage page;
  const auto folder = folder_after(space, from);
  if (!folder) return page;
  TRY_ASSIGN(const auto files, files_.list(root_ + '/' + *folder));
  const std::string_view own_space = std::string_view(*folder).substr(0, folder->find('/'));
  for (const os::FileInfo& file : files) {
    auto name = ObjectName::parse(std::string(own_space) + '/' + file.name);
    if (name && file.is_regular) page.names.push_back(std::move(*name));
  }
  page.next = *folder;
  return page;
}

Status DirectoryEngine::probe(NodeId, std::int64_t) { return reach(); }

std::vector<DirectoryEngine::Stored> DirectoryEngine::stored() const {
  std::vector<Stored> all;
  const auto list = [&](const std::string& directory) {
    auto names = files_.list(directory);
    return names.ok() ? std::move(*names) : std::vector<os::FileInfo>{};
  };
  for (const os::FileInfo& space : list(root_)) {
    if (!space.is_directory) continue;
    for (const os::FileInfo& folder : list(root_ + '/' + space.name)) {
      if (!folder.is_directory) continue;
      const std::string path = root_ + '/' + space.name + '/' + folder.name;
      for (const os::FileInfo& file : list(path)) {
        if (file.is_regular) all.push_back({path + '/' + file.name, file.size, file.modified_ns});
      }
    }
  }
  return all;
}

ByteCount DirectoryEngine::limit(ByteCount used) const {
  if (options_.limit) return *options_.limit;
  const auto space = files_.space(root_);
  if (!space.ok()) return used;
  return ByteCount{(used.value() + space->free.value()) / 2};
}

bool DirectoryEngine::sweep_is_due() {
  const std::int64_t now_ns = clock_.monotonic_ns();
  const MutexLock lock(mutex_);
  if (swept_ns_ != 0 && now_ns < swept_ns_ + kSweepEveryNs) return false;
  swept_ns_ = now_ns;
  return true;
}

void DirectoryEngine::sweep(std::int64_t ttl_s) {
  if (!reach().ok()) return;
  const auto lock = files_.lock(root_ + "/janitor");
  if (!lock.ok()) return;  // another server sweeps, or the file system has no locks
  std::vector<Stored> files = stored();
  std::ranges::sort(files, {}, &Stored::used_ns);
  ByteCount used;
  for (const Stored& file : files) used += file.size;
  const ByteCount most = limit(used);
  const std::int64_t now_ns = clock_.wall_ns();
  std::size_t removals = 0;
  for (const Stored& file : files) {
    const std::int64_t lives_ns = file.path.ends_with(kTemporary) ? kTemporaryNs : ttl_s * 1'000'000'000;
    if (used <= most && file.used_ns + lives_ns > now_ns) continue;
    if (++removals > kMostRemovals) return;
    if (files_.remove(file.path).ok()) used = used - file.size;
  }
}

Result<EngineFacts> DirectoryEngine::facts(std::int64_t) {
  TRY(reach());
  EngineFacts facts{.description = "directory " + options_.path, .policy = "used longest ago"};
  const std::vector<Stored> files = stored();
  ByteCount used;
  for (const Stored& file : files) used += file.size;
  facts.keys = files.size();
  facts.used_bytes = used.value();
  facts.max_bytes = limit(used).value();
  if (const auto lock = files_.lock(root_ + "/janitor"); !lock.ok() && lock.error().kind != ErrorKind::kBusy) {
    facts.warnings.push_back("the file system has no locks, so nothing is evicted: keep its size in check yourself");
  }
  return facts;
}

}  // namespace kvkeep::share
