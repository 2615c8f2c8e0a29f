#include "store/servers.h"

#include <algorithm>
#include <charconv>
#include <cinttypes>
#include <cstdio>
#include <optional>
#include <string_view>
#include <utility>

#include "base/checksum.h"
#include "format/segment_file.h"
#include "store/layout.h"

namespace kvkeep::store {
namespace {

constexpr std::size_t kDigits = 16;
constexpr std::size_t kSumDigits = 8;

std::string hex(std::uint64_t value) {
  char digits[kDigits + 1];
  std::snprintf(digits, sizeof digits, "%016" PRIx64, value);
  return digits;
}

bool is_id(std::string_view text) { return text.size() == kDigits && format::is_hex(text); }

std::string name_sum(std::string_view text) {
  return hex(checksum(ByteSpan(reinterpret_cast<const std::byte*>(text.data()), text.size())).low)
      .substr(0, kSumDigits);
}

std::uint64_t number(std::string_view digits) {
  std::uint64_t value = 0;
  std::from_chars(digits.data(), digits.data() + digits.size(), value, 16);
  return value;
}

// "<id>.<number>-...-<sum><suffix>".
std::string make_name(const std::string& id, std::initializer_list<std::uint64_t> numbers, std::string_view suffix) {
  std::string name = id;
  name += '.';
  for (const std::uint64_t each : numbers) name.append(hex(each)).append("-");
  return name.append(name_sum(name)).append(suffix);
}

// Returns the numbers between id and sum; nullopt if the name is not whole.
std::optional<std::vector<std::uint64_t>> parse_numbers(std::string_view name, std::size_t count,
                                                        std::string_view suffix) {
  const std::size_t sum_at = kDigits + 1 + count * (kDigits + 1);
  if (name.size() != sum_at + kSumDigits + suffix.size() || !name.ends_with(suffix)) return std::nullopt;
  if (name.substr(sum_at, kSumDigits) != name_sum(name.substr(0, sum_at))) return std::nullopt;
  std::vector<std::uint64_t> numbers;
  for (std::size_t i = 0; i < count; ++i) {
    const std::string_view digits = name.substr(kDigits + 1 + i * (kDigits + 1), kDigits);
    if (!format::is_hex(digits)) return std::nullopt;
    numbers.push_back(number(digits));
  }
  return numbers;
}

constexpr std::string_view kLockSuffix = ".lock";
constexpr std::string_view kUsedSuffix = ".used";
constexpr std::string_view kGrantSuffix = ".grant";
constexpr std::string_view kNotesSuffix = ".notes";

bool is_own_name(std::string_view name) {
  const std::string_view id = name.substr(0, name.find('.'));
  return is_id(id) || (is_fingerprint_name(id) && name.ends_with(kNotesSuffix));
}

// A listing during a rename may have a file under both its names: totals only grow, so the larger one is right.
void note_name(ListedServer& server, const std::string& name) {
  if (name.substr(kDigits) == kLockSuffix) server.locks = true;
  if (const auto used = parse_numbers(name, 2, kUsedSuffix); used && used->front() >= server.used) {
    server.used = used->front();
    server.wanted = used->back();
  }
  if (const auto granted = parse_numbers(name, 1, kGrantSuffix))
    server.granted = std::max(server.granted, granted->front());
  server.files.push_back(name);
}

}  // namespace

Result<ListedServers> list_servers(os::FileSystem& files, const std::string& directory, const std::string& own) {
  auto listed = files.list(directory);
  if (!listed && listed.error().kind == ErrorKind::kIo) return listed.error();
  ListedServers servers;
  if (!listed) return servers;
  for (const os::FileInfo& info : *listed) {
    const std::string id = info.name.substr(0, kDigits);
    if (!info.is_regular || !is_id(id) || info.name.size() <= kDigits || info.name[kDigits] != '.') continue;
    if (servers.size() >= kMostServers && id != own && !servers.contains(id)) continue;
    note_name(servers[id], info.name);
  }
  return servers;
}

Result<std::size_t> count_living(os::FileSystem& files, const std::string& directory) {
  TRY_ASSIGN(const ListedServers listed, list_servers(files, directory));
  const auto lives = [&](const auto& server) {
    return server.second.locks && !files.lock(directory + "/" + server.first + std::string(kLockSuffix)).ok();
  };
  return static_cast<std::size_t>(std::ranges::count_if(listed, lives));
}

Servers::Servers(std::string directory, os::FileSystem& files, os::Clock& clock)
    : directory_(std::move(directory)),
      files_(files),
      clock_(clock),
      id_(hex(static_cast<std::uint64_t>(clock.wall_ns()))) {}

// A keeper may take the new lock file for a dead server's before it is held, and remove it: then the listing lacks it.
Status Servers::join() {
  TRY(files_.make_directories(directory_));
  id_ = hex(static_cast<std::uint64_t>(clock_.wall_ns()));
  published_.clear();
  TRY_ASSIGN(std::unique_ptr<os::FileLock> life, files_.lock(path_of(id_ + std::string(kLockSuffix))));
  TRY_ASSIGN(const ListedServers servers, list());
  const auto own = servers.find(id_);
  if (own == servers.end() || !own->second.locks) return busy("the lock of this server was removed");
  life_ = std::move(life);
  return {};
}

void Servers::resign() {
  if (life_ == nullptr) return;
  (void)files_.remove(path_of(id_ + std::string(kLockSuffix))).ok();
  life_.reset();
}

void Servers::leave() {
  life_.reset();
  published_.clear();
}

void Servers::leave_directory() {
  leave();
  notes_.reset();
}

Status Servers::replace(const std::string& before, const std::string& after) {
  if (before == after) return {};
  if (!before.empty()) {
    const Status renamed = files_.rename(path_of(before), path_of(after));
    if (renamed || renamed.error().kind != ErrorKind::kNotFound) return renamed;
  }
  auto made = files_.create(path_of(after));
  if (!made) return made.error();
  return {};
}

// A name without a lock is a dead server's: the keeper looks at what it did last.
Status Servers::tell_change() {
  TRY(files_.make_directories(directory_));
  id_ = hex(static_cast<std::uint64_t>(clock_.wall_ns()));
  published_.clear();
  return publish(0, 0);
}

Status Servers::publish(std::uint64_t used, std::uint64_t wanted) {
  const std::string name = make_name(id_, {used, wanted}, kUsedSuffix);
  TRY(replace(published_, name));
  published_ = name;
  return {};
}

Status Servers::grant(const std::string& id, std::uint64_t before, std::uint64_t granted) {
  return replace(before > 0 ? make_name(id, {before}, kGrantSuffix) : "", make_name(id, {granted}, kGrantSuffix));
}

std::unique_ptr<os::FileLock> Servers::claim(const std::string& id) const {
  auto lock = files_.lock(path_of(id + std::string(kLockSuffix)));
  return lock ? std::move(*lock) : nullptr;
}

// The lock goes last, so that an interrupted sweep is taken up again.
void Servers::sweep(const ListedServer& server) {
  const auto is_lock = [](const std::string& name) { return name.ends_with(kLockSuffix); };
  for (const bool locks : {false, true}) {
    for (const std::string& name : server.files) {
      if (is_lock(name) == locks) (void)files_.remove(path_of(name)).ok();
    }
  }
}

// A server that comes meanwhile finds its lock removed, and joins again.
void Servers::tidy() {
  notes_.reset();
  const auto listed = files_.list(directory_);
  if (!listed) return;
  std::vector<std::unique_ptr<os::FileLock>> claims;
  std::vector<std::string> names;
  for (const os::FileInfo& info : *listed) {
    const bool locked = info.name.ends_with(kLockSuffix) || info.name.ends_with(kNotesSuffix);
    if (!info.is_regular || !is_own_name(info.name)) continue;
    names.push_back(info.name);
    if (!locked) continue;
    if (claims.size() == kMostServers) return;  // not made by servers
    auto claim = files_.lock(path_of(info.name));
    if (!claim) return;  // a member lives
    claims.push_back(std::move(*claim));
  }
  for (const std::string& name : names) (void)files_.remove(path_of(name)).ok();
  (void)files_.remove(directory_).ok();
  published_.clear();
}

bool Servers::take_notes(const std::string& fingerprint) {
  if (notes_ != nullptr) return true;
  auto lock = files_.lock(path_of(fingerprint + std::string(kNotesSuffix)));
  // A server that tidied may have removed the file before it was locked.
  if (lock && (*lock)->in_place()) notes_ = std::move(*lock);
  return notes_ != nullptr;
}

std::string owner_of_temporary(const std::string& name) {
  const std::string id = name.substr(0, kDigits);
  return is_id(id) && name.size() > kDigits && name[kDigits] == '-' ? id : std::string();
}

}  // namespace kvkeep::store
