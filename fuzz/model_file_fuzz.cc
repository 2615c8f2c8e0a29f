// Model files: a name for a file, or an error; the same bytes have the same name, and others another one.

#include <ggml.h>

#include <filesystem>
#include <fstream>

#include "engine/gguf/model_identity.h"
#include "fuzz.h"
#include "testing/sim/temporary_directory.h"

namespace kvkeep::gguf {
namespace {

Result<ModelHash> identity(const std::string& path, ByteSpan bytes, IdentityDepth depth) {
  std::ofstream(path, std::ios::binary).write(fuzz::text_of(bytes).data(), static_cast<std::streamsize>(bytes.size()));
  return model_identity([](const std::string& name) { return os::real_file_system().open(name); }, path, depth);
}

void check(const std::string& folder, ByteSpan bytes) {
  const auto name = identity(folder + "/a.gguf", bytes, IdentityDepth::kSampled);
  if (!name) {
    KVKEEP_ASSERT(name.error().kind == ErrorKind::kDamaged && !name.error().message.empty(), "other bytes are damage");
    return;
  }
  const auto again = identity(folder + "/b.gguf", bytes, IdentityDepth::kSampled);
  KVKEEP_ASSERT(again && *again == *name, "a name is of content alone");
  const auto full = identity(folder + "/a.gguf", bytes, IdentityDepth::kFull);
  KVKEEP_ASSERT(full && *full != *name, "the depths name differently");
  std::vector<std::byte> other = fuzz::copy_of(bytes);
  other.back() ^= std::byte{1};
  const auto changed = identity(folder + "/b.gguf", other, IdentityDepth::kFull);
  KVKEEP_ASSERT(!changed || *changed != *full, "a flipped bit is seen");
}

}  // namespace
}  // namespace kvkeep::gguf

KVKEEP_FUZZ_TARGET(model_file)(const std::uint8_t* data, std::size_t size) {
  static const kvkeep::sim::TemporaryDirectory folder;
  ggml_log_set([](ggml_log_level, const char*, void*) {}, nullptr);
  kvkeep::gguf::check(folder.path(), kvkeep::fuzz::bytes_of(data, size));
  return 0;
}
