#include "store/weights.h"

#include <algorithm>
#include <string_view>
#include <utility>
#include <vector>

#include "format/segment_file.h"
#include "store/small_files.h"

namespace kvkeep::store {
namespace {

constexpr std::size_t kHexDigits = 64;
constexpr std::size_t kLineSumDigits = 16;
constexpr std::size_t kMostNoteBytes = 512;
constexpr std::size_t kMostLineBytes = kHexDigits + 1 + kMostKeptBytes + 1 + kLineSumDigits + 1;

std::string path_in(const std::string& directory, std::string_view name) { return directory + "/" + std::string(name); }

template <typename Hash>
std::optional<Hash> parse_hash(std::string_view text) {
  if (text.size() != kHexDigits || !format::is_hex(text)) return std::nullopt;
  const auto digit = [](char letter) {
    return static_cast<unsigned>(letter <= '9' ? letter - '0' : letter - 'a' + 10);
  };
  Hash hash;
  for (std::size_t i = 0; i < hash.bytes.size(); ++i) {
    hash.bytes[i] = static_cast<std::uint8_t>((digit(text[2 * i]) << 4) | digit(text[2 * i + 1]));
  }
  return hash;
}

std::string sum_of(std::string_view text) {
  ByteHasher hasher;
  hasher.append(std::as_bytes(std::span(text)));
  return hasher.finish<ModelHash>().hex(kLineSumDigits / 2);
}

// The text ends with its sum: half a note is no note.
std::string with_sum(const std::string& text) { return text + " " + sum_of(text) + "\n"; }

std::optional<std::string_view> without_sum(std::string_view line) {
  const std::size_t space = line.rfind(' ');
  if (space == std::string_view::npos || line.substr(space + 1) != sum_of(line.substr(0, space))) return std::nullopt;
  return line.substr(0, space);
}

// The same untouched files have the hash that was noted.
Weights with_known_hash(Weights own, const Weights& noted) {
  if (!own.hash && noted.mark == own.mark) own.hash = noted.hash;
  return own;
}

std::string text_of(const Weights& weights) {
  constexpr const char* kUnknownHash = "unknown";
  return with_sum((weights.hash ? weights.hash->hex() : kUnknownHash) + " " +
                  (weights.mark ? weights.mark->hex() : kUnknownHash));
}

Result<std::string> read_text(os::FileSystem& files, const std::string& path, std::size_t most) {
  auto text = read_start(files, path, most);
  if (text || text.error().kind == ErrorKind::kIo) return text;
  return std::string();
}

// The lines of a file of kept facts that are whole: a name of 64 hexadecimal digits, a space, the text.
std::vector<std::string> read_lines(os::FileSystem& files, const std::string& path) {
  std::vector<std::string> lines;
  const auto text = read_text(files, path, kMostKept * kMostLineBytes);
  if (!text) return lines;
  for (std::size_t at = 0; at < text->size();) {
    const std::size_t end = std::min(text->find('\n', at), text->size());
    const auto line = without_sum(std::string_view(*text).substr(at, end - at));
    if (line && line->size() > kHexDigits && (*line)[kHexDigits] == ' ') lines.emplace_back(*line);
    at = end + 1;
  }
  return lines;
}

Result<std::vector<std::string>> names_of_state(os::FileSystem& files, const std::string& directory) {
  TRY_ASSIGN(const auto listed, files.list(directory));
  std::vector<std::string> names;
  for (const os::FileInfo& info : listed) {
    if (info.is_regular && (is_segment_name(info.name) || info.name == kIndexName)) names.push_back(info.name);
  }
  return names;
}

}  // namespace

FilesMark mark_of(std::span<const os::FileStamp> stamps) {
  ByteHasher hasher;
  hasher.append_field("kvkeep files 1");
  for (const os::FileStamp& stamp : stamps) {
    hasher.append_field(stamp.inode);
    hasher.append_field(stamp.size_bytes);
    hasher.append_field(static_cast<std::uint64_t>(stamp.modified_ns));
    hasher.append_field(static_cast<std::uint64_t>(stamp.changed_ns));
  }
  return hasher.finish<FilesMark>();
}

// ---- notes ----

Result<Weights> read_weights(os::FileSystem& files, const std::string& directory) {
  TRY_ASSIGN(const std::string text, read_text(files, path_in(directory, kWeightsName), kMostNoteBytes));
  const auto line = without_sum(std::string_view(text).substr(0, text.find('\n')));
  if (!line || line->size() < kHexDigits || !text.ends_with('\n')) return Weights{};
  return Weights{.hash = parse_hash<ModelHash>(line->substr(0, line->find(' '))),
                 .mark = parse_hash<FilesMark>(line->substr(line->find(' ') + 1))};
}

Status write_weights(os::FileSystem& files, const std::string& directory, const Weights& weights) {
  return replace_small_file(files, path_in(directory, kWeightsName), text_of(weights), Syncing::kDurable);
}

Whose whose_state(bool has_state, const Weights& noted, const Weights& own) {
  if (!has_state) return Whose::kOwn;
  if (noted.hash && own.hash) return *noted.hash == *own.hash ? Whose::kOwn : Whose::kOthers;
  if (noted.mark && noted.mark == own.mark) return Whose::kOwn;
  // A note without a hash is of files that left or changed before they were read.
  return own.hash ? Whose::kOthers : Whose::kUnknown;
}

bool may_join(bool has_state, const Weights& noted, const std::optional<ModelHash>& added) {
  const bool told = noted.hash || noted.mark;
  if (told) return added && noted.hash == added;
  return !has_state || !added;
}

Result<std::unique_ptr<os::FileLock>> join_weights(os::FileSystem& files, const Layout& layout,
                                                   const std::optional<ModelHash>& added) {
  auto alone = files.lock(layout.users);
  if (!alone && alone.error().kind != ErrorKind::kBusy) return alone.error();
  TRY_ASSIGN(const Weights noted, read_weights(files, layout.own));
  const auto state = names_of_state(files, layout.own);
  if (!state && state.error().kind != ErrorKind::kNotFound) return state.error();
  if (!may_join(state && !state->empty(), noted, added)) {
    return invalid(layout.own +
                   " has state that another model file computed, or one that no server has read yet: serve the model "
                   "from that directory for a while first, or remove what is there with kvkeep cache rm --model");
  }
  if (alone && state && added && !noted.hash) TRY(write_weights(files, layout.own, {.hash = added, .mark = {}}));
  if (alone) alone->reset();
  TRY_ASSIGN(auto share, files.lock_shared(layout.users));
  TRY_ASSIGN(const Weights now, read_weights(files, layout.own));
  if (!may_join(true, now, added)) return busy("another process takes " + layout.own + ": try again");
  return share;
}

Status check_weights_stayed(os::FileSystem& files, const std::string& directory, const Weights& before) {
  TRY_ASSIGN(const Weights now, read_weights(files, directory));
  // The mark changes with a copy of the same files, and the hash is noted later than the mark.
  const bool same = before.hash ? now.hash == before.hash : now.mark == before.mark;
  return same ? Status() : aborted("a server of another model file took " + directory + " meanwhile");
}

std::optional<ModelHash> parse_model_hash(std::string_view text) { return parse_hash<ModelHash>(text); }

// ---- kept hashes ----

std::optional<std::string> find_kept(os::FileSystem& files, const std::string& path, const std::string& name) {
  for (const std::string& line : read_lines(files, path)) {
    if (line.starts_with(name + " ")) return line.substr(kHexDigits + 1);
  }
  return std::nullopt;
}

Status keep(os::FileSystem& files, const std::string& path, const std::string& name, const std::string& text) {
  if (name.size() != kHexDigits || text.size() > kMostKeptBytes || text.find('\n') != std::string::npos) {
    return invalid("the name or the text does not fit a line");
  }
  std::vector<std::string> lines = read_lines(files, path);
  std::erase_if(lines, [&](const std::string& line) { return line.starts_with(name + " "); });
  lines.push_back(name + " " + text);
  if (lines.size() > kMostKept) lines.erase(lines.begin());
  std::string all;
  for (const std::string& line : lines) all += with_sum(line);
  return replace_small_file(files, path, all);
}

std::optional<ModelHash> find_kept_hash(os::FileSystem& files, const std::string& root, const FilesMark& mark) {
  const auto text = find_kept(files, path_in(root, kModelHashesName), mark.hex());
  return text ? parse_hash<ModelHash>(*text) : std::nullopt;
}

Status keep_hash(os::FileSystem& files, const std::string& root, const FilesMark& mark, const ModelHash& hash) {
  return keep(files, path_in(root, kModelHashesName), mark.hex(), hash.hex());
}

// ---- taking a directory ----

DirectoryClaim::DirectoryClaim(Layout layout, os::FileSystem& files, FilesMark mark)
    : layout_(std::move(layout)), files_(files), mark_(mark) {
  const auto noted = read_weights(files_, layout_.own);
  hash_ = noted && noted->mark == mark_ && noted->hash ? noted->hash : find_kept_hash(files_, layout_.root, mark_);
}

bool DirectoryClaim::is_held() const {
  const MutexLock lock(taking_);
  return share_ != nullptr && share_->in_place();
}

bool DirectoryClaim::is_unsure() const {
  const MutexLock lock(taking_);
  return told_ == Whose::kUnknown || told_ == Whose::kOthers;
}

// A server may have read the files without coming back to this directory.
Weights DirectoryClaim::resolved(Weights noted) const {
  if (!noted.hash && noted.mark) noted.hash = find_kept_hash(files_, layout_.root, *noted.mark);
  return noted;
}

void DirectoryClaim::know(const ModelHash& hash) {
  const MutexLock lock(mutex_);
  hash_ = hash;
}

std::optional<ModelHash> DirectoryClaim::hash() const {
  const MutexLock lock(mutex_);
  return hash_;
}

Weights DirectoryClaim::own() const { return {.hash = hash(), .mark = mark_}; }

// Looks while no other process uses the directory. State of other files is gone, durably, before the note says that
// the directory is of these.
Result<ClaimReport> DirectoryClaim::look_alone(const Weights& own) const {
  TRY_ASSIGN(const Weights noted, read_weights(files_, layout_.own));
  TRY_ASSIGN(const std::vector<std::string> state, names_of_state(files_, layout_.own));
  ClaimReport report{.whose = whose_state(!state.empty(), resolved(noted), own)};
  report.is_noted = noted.hash || noted.mark;
  if (report.whose == Whose::kUnknown) return report;
  if (report.whose == Whose::kOthers) {
    for (const std::string& name : state) TRY(files_.remove(path_in(layout_.own, name)));
    TRY(files_.sync_directory(layout_.own));
    report.removed = state.size();
    report.whose = Whose::kOwn;
  }
  const Weights now = with_known_hash(own, noted);
  if (now != noted) TRY(write_weights(files_, layout_.own, now));
  return report;
}

// Keeps a share of the lock if the note, read under it, says that the directory is of these files: those who share it
// may be about to write, so that it does not matter whether there is state.
Status DirectoryClaim::share(const Weights& own, ClaimReport& report) {
  TRY_ASSIGN(auto share, files_.lock_shared(layout_.users));
  TRY_ASSIGN(const Weights noted, read_weights(files_, layout_.own));
  report.whose = whose_state(true, resolved(noted), own);
  if (report.whose != Whose::kOwn) return {};
  share_ = std::move(share);
  complete(noted, own);
  return {};
}

// Adds to the note of a directory that is used what it lacks: others of the same files may write it at the same moment,
// and without it state is at worst forgotten.
void DirectoryClaim::complete(const Weights& noted, const Weights& own) const {
  const bool lacks_some = !noted.hash && (own.hash || !noted.mark);
  if (lacks_some) (void)write_weights(files_, layout_.own, own).ok();
}

Result<ClaimReport> DirectoryClaim::look(const Weights& own) {
  if (share_ != nullptr && share_->in_place()) {
    TRY_ASSIGN(const Weights noted, read_weights(files_, layout_.own));
    complete(noted, own);
    return ClaimReport{};
  }
  share_.reset();
  ClaimReport report;
  auto alone = files_.lock(layout_.users);
  if (!alone && alone.error().kind != ErrorKind::kBusy) return alone.error();
  if (alone) {
    TRY_ASSIGN(report, look_alone(own));
    if (report.whose == Whose::kUnknown) return report;
    alone->reset();
  }
  TRY(share(own, report));
  report.others_live = report.whose == Whose::kOthers;
  return report;
}

Status DirectoryClaim::take(const std::function<void(const ClaimReport&)>& report) {
  const MutexLock lock(taking_);
  TRY_ASSIGN(ClaimReport found, look(own()));
  found.waited = told_ == Whose::kUnknown;
  if (std::exchange(told_, found.whose) != found.whose || found.removed > 0) report(found);
  if (share_ != nullptr) return {};
  return busy("the file of the model is compared with the one that wrote the state in " + layout_.own);
}

}  // namespace kvkeep::store
