#pragma once

// Names inside a cache directory:
//   <root>/lock                      held by the keeper, the one server that evicts
//   <root>/servers/                  the others (servers.h)
//   <root>/writes                    how much may still be written today, if there is a limit (write_limits.h)
//   <root>/model-hashes              hashes of whole model files, so that each is read once (weights.h)
//   <root>/class-trials              what trials of models' memory classes found (engine/llama/memory_class.h)
//   <root>/quarantine/               damaged files, a few
//   <root>/<fingerprint hex>.users   held by all servers that use that directory (weights.h)
//   <root>/<fingerprint hex>/        one per model and settings
//       <hash>-<hash>.kvs            segments
//       <hash>-<hash>.<kind>.kvs     window rows, points, whole states
//       index                        the saved index
//       turns                        how assistant turns were sampled (small_files.h); not the store's
//       offenders                    texts that kept prompts from being reused (small_files.h); not the store's
//       work                         how much prefill was spared (small_files.h); not the store's
//       model.json                   the model, for people; pins: pinned prefixes. Not the store's, both are small
//       distrusted                   the stored state is wrong, and why (small_files.h)
//       weights                      whose weights computed the state (weights.h)
//       <anything>.tmp               unfinished

#include <string>
#include <string_view>

#include "base/hash.h"
#include "os/clock.h"
#include "os/file_system.h"

namespace kvkeep::store {

struct Layout {
  std::string root;
  std::string own;  // of our fingerprint
  std::string quarantine;
  std::string lock;
  std::string servers;
  std::string writes;
  std::string index;
  std::string users;
};

inline constexpr std::string_view kQuarantineName = "quarantine";
inline constexpr std::string_view kLockName = "lock";
inline constexpr std::string_view kServersName = "servers";
inline constexpr std::string_view kWritesName = "writes";
inline constexpr std::string_view kIndexName = "index";
inline constexpr std::string_view kTurnsName = "turns";
inline constexpr std::string_view kOffendersName = "offenders";
inline constexpr std::string_view kWorkName = "work";
inline constexpr std::string_view kModelNoteName = "model.json";
inline constexpr std::string_view kPinsName = "pins";
inline constexpr std::string_view kDistrustName = "distrusted";
inline constexpr std::string_view kWeightsName = "weights";
inline constexpr std::string_view kModelHashesName = "model-hashes";
inline constexpr std::string_view kClassTrialsName = "class-trials";
inline constexpr std::string_view kUsersSuffix = ".users";
inline constexpr std::string_view kTemporarySuffix = ".tmp";

Layout make_layout(std::string root, const FingerprintHash& fingerprint);

// Where the files of one store lie; shared by its parts.
struct Place {
  Layout layout;
  os::FileSystem& files;
  os::Clock& clock;

  std::string path_of(const std::string& file_name) const { return layout.own + "/" + file_name; }
};

bool is_segment_name(std::string_view name);
bool is_temporary_name(std::string_view name);
// Advice next to segments, which is not the store's.
bool is_note_name(std::string_view name);
bool is_fingerprint_name(std::string_view name);

// "a/b/c" -> "a/b".
std::string directory_of(const std::string& path);

}  // namespace kvkeep::store
