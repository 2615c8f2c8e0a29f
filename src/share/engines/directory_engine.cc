#include "share/engines/directory_engine.h"

#include <algorithm>
#include <utility>

#include "os/process.h"

namespace kvkeep::share {
namespace {

// On a NAS each file that is opened takes half a millisecond or more, whether it is there or not: so many take less
// than the longest deadline, also one after the other.
constexpr std::size_t kHeadsAtOnce = 128;
constexpr double kMostDeadlineMs = 100;
// A reader learns after each of so many bytes that they came.
constexpr std::size_t kReadBytes = std::size_t{128} << 10;

std::string random_suffix() {
  std::array<std::byte, 8> bytes{};
  os::fill_random(bytes);
  std::string text;
  for (const std::byte byte : bytes) text += std::to_string(std::to_integer<unsigned>(byte) % 10);
  return text;
}

Error late() { return io_error("the directory did not answer in time"); }

}  // namespace

DirectoryEngine::DirectoryEngine(DirectoryOptions options, os::FileSystem& files, os::Clock& clock)
    : options_(std::move(options)),
      root_(options_.path + "/kv1"),
      files_(files),
      clock_(clock),
      own_(random_suffix()),
      janitor_(root_, options_.limit, files, clock) {}

DirectoryEngine::Pace DirectoryEngine::pace() const {
  return {.least_deadline_ms = kLeastDeadlineMs, .most_deadline_ms = kMostDeadlineMs, .heads_at_once = kHeadsAtOnce};
}

std::string DirectoryEngine::folder_of(const ObjectName& name) const {
  std::string folder = root_ + '/';
  folder.append(name.space.text()).append("/").append(name.id.text().substr(0, 2));
  return folder;
}

std::string DirectoryEngine::path_of(const ObjectName& name) const {
  const std::string text = name.text();
  return folder_of(name) + text.substr(text.find('/'));
}

HeadBytes DirectoryEngine::head(const std::string& path, MutableByteSpan buffer) const {
  TRY_ASSIGN(const auto file, files_.open(path));
  TRY_ASSIGN(const std::size_t size, file->read_at(0, buffer));
  return std::vector<std::byte>(buffer.begin(), buffer.begin() + static_cast<std::ptrdiff_t>(size));
}

// Makes the folder at the first contact, if the directory is there. kNotFound: it is not; kIo: the folder was there and
// is gone.
Status DirectoryEngine::reach() {
  const auto listed = files_.list(root_);
  const bool is_there = listed.ok();
  {
    const MutexLock lock(mutex_);
    if (is_there) reached_ = true;
    if (is_there) return {};
    if (reached_ && listed.error().kind != ErrorKind::kNotFound) return listed.error();
    if (reached_) {
      return io_error("the directory " + root_ +
                      " is gone: mount its file system again or, if somebody removed it, make it");
    }
  }
  const auto directory = files_.list(options_.path);
  if (!directory.ok() && directory.error().kind == ErrorKind::kNotFound) {
    return not_found("the directory " + options_.path +
                     " is not there: mount its file system, or make the directory if it is new");
  }
  if (!directory.ok() && files_.open(options_.path).ok()) return not_found(options_.path + " is a file, no directory");
  if (listed.error().kind != ErrorKind::kNotFound) return listed.error();
  if (!options_.makes_folder) return directory.ok() ? Status{} : Status(directory.error());
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
  // Most names are absent, and most heads shorter than they may be: bytes that do not come are not touched.
  const auto buffer = std::make_unique_for_overwrite<std::byte[]>(first_bytes);
  std::vector<HeadBytes> heads;
  for (const ObjectName& name : names) {
    heads.push_back(is_late(deadline_ns) ? HeadBytes(late()) : head(path_of(name), {buffer.get(), first_bytes}));
  }
  const auto is_absent = [](const HeadBytes& one) { return !one.ok() && one.error().kind == ErrorKind::kNotFound; };
  const auto absent = std::ranges::find_if(heads, is_absent);
  if (absent == heads.end()) return heads;
  const Error reason = explain_absence(absent->error());
  if (reason.kind != ErrorKind::kNotFound) std::ranges::replace_if(heads, is_absent, HeadBytes(reason));
  return heads;
}

Status DirectoryEngine::get(const ObjectName& name, const PayloadSlice& slice, MutableByteSpan out,
                            const Arrived& arrived, const TransferLimits& limits) {
  const auto opened = files_.open(path_of(name));
  if (!opened.ok()) return explain_absence(opened.error());
  const auto& file = *opened;
  for (std::size_t at = 0; at < out.size();) {
    if (is_late(limits.deadline_ns)) return late();
    const MutableByteSpan piece = out.subspan(at, std::min(kReadBytes, out.size() - at));
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

Status DirectoryEngine::put(const ObjectName& name, ByteSpan head, ByteSpan payload, std::int64_t,
                            const TransferLimits& limits) {
  std::string temporary;
  {
    const MutexLock lock(mutex_);
    temporary = folder_of(name) + '/' + own_ + '-' + std::to_string(++written_) + std::string(kTemporarySuffix);
  }
  const auto write = [&]() -> Status {
    TRY_ASSIGN(const auto file, create(temporary, folder_of(name)));
    TRY(file->append(head));
    for (ByteSpan left = payload; !left.empty(); left = left.subspan(std::min(kPieceBytes, left.size()))) {
      if (is_late(limits.deadline_ns)) return late();
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
    if (error.kind == ErrorKind::kNotFound) continue;
    // Such as a file system that is mounted to be read only.
    if (error.kind == ErrorKind::kIo && reach().ok()) {
      return unsupported("times of files cannot be set: " + error.message);
    }
    return error;
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

void DirectoryEngine::tidy(std::int64_t ttl_s, std::int64_t until_ns) {
  if (janitor_.has_work() && reach().ok()) janitor_.go_on(ttl_s, until_ns);
}

Result<EngineFacts> DirectoryEngine::facts(std::int64_t) {
  TRY(reach());
  EngineFacts facts{.description = "directory " + options_.path, .policy = "used longest ago", .is_on_disk = true};
  if (!files_.list(root_).ok()) {
    facts.warnings.push_back(
        root_ + " is not there: servers make it when they start. If some run, somebody removed it: make it");
  }
  std::vector<StoredFile> files;
  for (const std::string& folder : object_folders(files_, root_)) add_files(files_, folder, files);
  ByteCount used;
  for (const StoredFile& file : files) used += file.size;
  facts.keys = files.size();
  facts.used_bytes = used.value();
  facts.max_bytes = janitor_.limit(used).value();
  const auto lock = files_.lock(root_ + "/janitor");
  if (!lock.ok() && lock.error().kind != ErrorKind::kBusy && lock.error().kind != ErrorKind::kNotFound) {
    facts.warnings.push_back("the file system has no locks, so nothing is evicted: keep its size in check yourself");
  }
  return facts;
}

}  // namespace kvkeep::share
