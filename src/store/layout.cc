#include "store/layout.h"

#include <algorithm>

namespace kvkeep::store {
namespace {

constexpr std::size_t kHashDigits = 32;  // 16 bytes of each prefix hash, as format::file_name writes them
constexpr std::string_view kSegmentSuffix = ".kvs";

bool is_hex(std::string_view text) { return text.find_first_not_of("0123456789abcdef") == std::string_view::npos; }

}  // namespace

Layout make_layout(std::string root, const FingerprintHash& fingerprint) {
  while (root.size() > 1 && root.back() == '/') root.pop_back();
  const std::string own = root + "/" + fingerprint.hex();
  const std::string prefix = root + "/";
  return {.root = root,
          .own = own,
          .quarantine = prefix + std::string(kQuarantineName),
          .lock = prefix + std::string(kLockName),
          .index = own + "/" + std::string(kIndexName)};
}

bool is_segment_name(std::string_view name) {
  return name.size() == 2 * kHashDigits + 1 + kSegmentSuffix.size() && name.ends_with(kSegmentSuffix) &&
         name[kHashDigits] == '-' && is_hex(name.substr(0, kHashDigits)) &&
         is_hex(name.substr(kHashDigits + 1, kHashDigits));
}

bool is_temporary_name(std::string_view name) { return name.ends_with(kTemporarySuffix); }

bool is_fingerprint_name(std::string_view name) { return name.size() == 2 * sizeof(FingerprintHash) && is_hex(name); }

std::string directory_of(const std::string& path) {
  const std::size_t slash = path.find_last_of('/');
  return slash == std::string::npos ? "." : path.substr(0, slash);
}

}  // namespace kvkeep::store
