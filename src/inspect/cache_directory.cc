#include "inspect/cache_directory.h"

#include <algorithm>
#include <iterator>
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
      found.models.push_back({*fingerprint, path, {}, {}, {}, {}});
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
  return ModelDirectory{.fingerprint = fingerprint,
                        .path = layout.own,
                        .files = std::move(scan),
                        .note = read_model_note(files, layout.own),
                        .pins = pins ? std::move(*pins) : std::vector<PrefixHash>(),
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

std::vector<std::vector<TokenId>> beginnings_of(os::FileSystem& files, const std::string& path,
                                                const FingerprintHash& fingerprint) {
  auto listed = files.list(path);
  if (!listed) return {};
  // A file's name begins with the hash of the prefix that it continues, here the empty one.
  const std::string empty = PrefixHasher(fingerprint).current().hex(format::kNameHashBytes) + "-";
  std::erase_if(*listed, [&](const os::FileInfo& file) {
    return !file.name.starts_with(empty) || !file.name.ends_with(format::file_suffix(format::PartKind::kRows));
  });
  std::ranges::sort(*listed, std::ranges::greater(), &os::FileInfo::modified_ns);
  if (listed->size() > kMostBeginnings) listed->resize(kMostBeginnings);
  std::vector<std::vector<TokenId>> found;
  for (const os::FileInfo& file : *listed) {
    const auto start = store::read_start(files, path + "/" + file.name, format::kMaxHeaderBytes);
    if (!start) continue;
    auto header = format::decode_header(std::as_bytes(std::span(*start)));
    if (!header || header->tenant != kNoTenant || header->name.begin != Position{}) continue;
    header->tokens.resize(std::min(header->tokens.size(), kMostBeginningTokens));
    found.push_back(std::move(header->tokens));
  }
  return found;
}

}  // namespace

std::vector<std::vector<TokenId>> beginnings_of_others(os::FileSystem& files, const std::string& root,
                                                       const FingerprintHash& own) {
  const auto directory = find_models(files, root);
  if (!directory) return {};
  std::vector<std::vector<TokenId>> found;
  for (const ModelDirectory& model : directory->models) {
    if (model.fingerprint == own) continue;
    std::ranges::move(beginnings_of(files, model.path, model.fingerprint), std::back_inserter(found));
  }
  return found;
}

}  // namespace kvkeep::inspect
