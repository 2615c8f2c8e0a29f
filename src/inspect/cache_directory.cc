#include "inspect/cache_directory.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <span>
#include <utility>

#include "format/segment_file.h"
#include "inspect/model_notes.h"
#include "store/servers.h"
#include "store/small_files.h"

namespace kvkeep::inspect {
namespace {

int digit_of(char letter) { return letter <= '9' ? letter - '0' : letter - 'a' + 10; }

// A fingerprint that no directory has: so scan_root() lists all of them.
store::Layout layout_of_root(const std::string& root) {
  store::Layout layout = store::make_layout(root, {});
  layout.own.clear();
  return layout;
}

std::string name_of(const std::string& path) { return path.substr(path.find_last_of('/') + 1); }

bool is_cache(const store::RootScan& scan) {
  return scan.lock || scan.has_quarantine || !scan.other_fingerprints.empty();
}

Status check_own(const store::RootScan& scan, const std::string& root) {
  if (is_cache(scan) || scan.foreign_names == 0) return {};
  return invalid(root + " is no cache directory: it holds other files and nothing of a cache");
}

// Asks only if there is a lock file: looking creates no files.
std::size_t count_servers(os::FileSystem& files, const store::RootScan& scan, const store::Layout& layout) {
  if (!scan.lock) return 0;
  const auto lock = files.lock(layout.lock);
  const bool kept = !lock && lock.error().kind == ErrorKind::kBusy;
  // The keeper may have died while members live on.
  const auto members = store::count_living(files, layout.servers);
  return (kept ? 1 : 0) + (members ? *members : 0);
}

}  // namespace

std::optional<FingerprintHash> parse_fingerprint(std::string_view name) {
  if (!store::is_fingerprint_name(name)) return std::nullopt;
  FingerprintHash fingerprint;
  for (std::size_t i = 0; i < fingerprint.bytes.size(); ++i) {
    fingerprint.bytes[i] = static_cast<std::uint8_t>(digit_of(name[2 * i]) << 4 | digit_of(name[2 * i + 1]));
  }
  return fingerprint;
}

Status check_own(os::FileSystem& files, const std::string& root) {
  const store::Layout layout = layout_of_root(root);
  const auto scan = scan_root(files, layout);
  if (!scan) return scan.error().kind == ErrorKind::kNotFound ? Status{} : Status(scan.error());
  return check_own(*scan, layout.root);
}

Result<CacheDirectory> find_models(os::FileSystem& files, const std::string& root) {
  const store::Layout layout = layout_of_root(root);
  TRY_ASSIGN(store::RootScan scan, scan_root(files, layout));
  TRY(check_own(scan, layout.root));
  CacheDirectory found;
  found.root = layout.root;
  found.servers = count_servers(files, scan, layout);
  found.foreign_names = scan.foreign_names;
  std::ranges::sort(scan.other_fingerprints);
  for (const std::string& path : scan.other_fingerprints) {
    if (const auto fingerprint = parse_fingerprint(name_of(path)))
      found.models.push_back({*fingerprint, path, {}, {}, {}, {}, {}});
  }
  if (!scan.has_quarantine) return found;
  auto listed = files.list(layout.quarantine);
  if (!listed) return found;  // gone meanwhile
  for (os::FileInfo& info : *listed) {
    if (info.is_regular) found.quarantine.push_back(std::move(info));
  }
  return found;
}

Result<ModelDirectory> read_model(os::FileSystem& files, const std::string& root, const FingerprintHash& fingerprint) {
  const store::Layout layout = store::make_layout(root, fingerprint);
  TRY_ASSIGN(store::DirectoryScan scan, scan_own(files, layout, fingerprint, true));
  auto pins = read_pins(files, layout.own);
  const auto weights = store::read_weights(files, layout.own);
  return ModelDirectory{.fingerprint = fingerprint,
                        .path = layout.own,
                        .files = std::move(scan),
                        .note = read_model_note(files, layout.own),
                        .pins = pins ? std::move(*pins) : std::vector<PrefixHash>(),
                        .weights = weights ? *weights : store::Weights{},
                        .distrust = store::read_distrust(files, layout.own)};
}

Result<CacheDirectory> read_directory(os::FileSystem& files, const std::string& root) {
  TRY_ASSIGN(CacheDirectory found, find_models(files, root));
  std::vector<ModelDirectory> read;
  for (const ModelDirectory& model : found.models) {
    auto whole = read_model(files, found.root, model.fingerprint);
    if (!whole && whole.error().kind == ErrorKind::kNotFound) continue;  // removed meanwhile
    if (!whole) return whole.error();
    read.push_back(std::move(*whole));
  }
  found.models = std::move(read);
  return found;
}

namespace {

// Follows the files of one model from prefix to prefix. Most prompts begin as another one does, with the template's
// words at least, and their file begins where they leave it.
class BeginningReader {
 public:
  BeginningReader(os::FileSystem& files, std::string path, const FingerprintHash& fingerprint)
      : files_(files), path_(std::move(path)), fingerprint_(fingerprint) {
    prefixes_[PrefixHasher(fingerprint).current().hex(format::kNameHashBytes)] = {};
    auto listed = files.list(path_);
    if (!listed) return;
    unread_ = *std::move(listed);
    std::erase_if(unread_, [](const os::FileInfo& file) {
      return !file.name.ends_with(format::file_suffix(format::PartKind::kRows));
    });
    std::ranges::sort(unread_, std::ranges::greater(), &os::FileInfo::modified_ns);
  }

  std::vector<std::vector<TokenId>> read() {
    for (std::size_t i = 0; i < kMostBeginnings && read_next(); ++i) {}
    return std::move(found_);
  }

 private:
  // Reads the newest file that continues a prefix that is known by now. A file's name begins with that prefix's hash.
  bool read_next() {
    const auto prefix_of = [this](const os::FileInfo& file) {
      return prefixes_.find(file.name.substr(0, file.name.find('-')));
    };
    const auto next =
        std::ranges::find_if(unread_, [&](const os::FileInfo& file) { return prefix_of(file) != prefixes_.end(); });
    if (next == unread_.end()) return false;
    read(next->name, prefix_of(*next)->second);
    unread_.erase(next);
    return true;
  }

  void read(const std::string& name, std::vector<TokenId> tokens) {
    const auto start = store::read_start(files_, path_ + "/" + name, format::kMaxHeaderBytes);
    if (!start) return;
    const auto header = format::decode_header(std::as_bytes(std::span(*start)));
    if (!header || header->tenant != kNoTenant || header->name.begin != Position{} + tokens.size()) return;
    tokens.insert(tokens.end(), header->tokens.begin(), header->tokens.end());
    tokens.resize(std::min(tokens.size(), kMostBeginningTokens));
    PrefixHasher hasher(fingerprint_);
    for (std::size_t i = 0; i < tokens.size(); ++i) {
      hasher.append(TokenSpan(tokens).subspan(i, 1));
      const auto end = tokens.begin() + static_cast<std::ptrdiff_t>(i) + 1;
      prefixes_.try_emplace(hasher.current().hex(format::kNameHashBytes), tokens.begin(), end);
    }
    found_.push_back(std::move(tokens));
  }

  os::FileSystem& files_;
  const std::string path_;
  const FingerprintHash fingerprint_;
  std::vector<os::FileInfo> unread_;                      // the newest first
  std::map<std::string, std::vector<TokenId>> prefixes_;  // by their hashes, as names have them
  std::vector<std::vector<TokenId>> found_;
};

}  // namespace

std::vector<std::vector<TokenId>> beginnings_of_others(os::FileSystem& files, const std::string& root,
                                                       const FingerprintHash& own) {
  const auto directory = find_models(files, root);
  if (!directory) return {};
  std::vector<std::vector<TokenId>> found;
  for (const ModelDirectory& model : directory->models) {
    if (model.fingerprint == own) continue;
    std::ranges::move(BeginningReader(files, model.path, model.fingerprint).read(), std::back_inserter(found));
  }
  return found;
}

}  // namespace kvkeep::inspect
