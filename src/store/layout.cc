#include "store/layout.h"

#include "format/segment_file.h"

namespace kvkeep::store {
Layout make_layout(std::string root, const FingerprintHash& fingerprint) {
  while (root.size() > 1 && root.back() == '/') root.pop_back();
  const std::string own = root + "/" + fingerprint.hex();
  const std::string prefix = root + "/";
  return {.root = root,
          .own = own,
          .quarantine = prefix + std::string(kQuarantineName),
          .lock = prefix + std::string(kLockName),
          .servers = prefix + std::string(kServersName),
          .writes = prefix + std::string(kWritesName),
          .index = own + "/" + std::string(kIndexName),
          .users = own + std::string(kUsersSuffix)};
}

bool is_segment_name(std::string_view name) { return format::is_file_name(name); }

bool is_temporary_name(std::string_view name) { return name.ends_with(kTemporarySuffix); }

bool is_note_name(std::string_view name) {
  return name == kTurnsName || name == kOffendersName || name == kWorkName || name == kModelNoteName ||
         name == kPinsName || name == kDistrustName || name == kWeightsName;
}

bool is_fingerprint_name(std::string_view name) {
  return name.size() == 2 * sizeof(FingerprintHash) && format::is_hex(name);
}

std::string directory_of(const std::string& path) {
  const std::size_t slash = path.find_last_of('/');
  return slash == std::string::npos ? "." : path.substr(0, slash);
}

}  // namespace kvkeep::store
