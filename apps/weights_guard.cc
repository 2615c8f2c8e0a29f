#include "weights_guard.h"

#include <spdlog/spdlog.h>

#include <chrono>
#include <utility>

#include "engine/gguf/model_identity.h"
#include "engine/llama/fingerprint.h"
#include "engine/llama/model_file.h"
#include "os/clock.h"
#include "os/file_stamp.h"
#include "os/file_system.h"
#include "os/threads.h"

namespace kvkeep::cli {
namespace {

constexpr std::uint64_t kMebibyte = std::uint64_t{1} << 20;

Result<ModelHash> whole_hash(const std::string& path, const gguf::AfterMebibyte& after = {}) {
  return gguf::model_identity(engine::llama::open_linked, path, gguf::IdentityDepth::kFull, after);
}

// Waits as long as this reading is ahead of its rate.
class Throttle {
 public:
  void read_another_mebibyte() {
    const double due_ms =
        static_cast<double>(++mebibytes_ * kMebibyte) * 1e3 / static_cast<double>(WeightsGuard::kBytesPerSecond);
    const double early_ms = due_ms - os::elapsed_ms(begin_ns_, os::real_clock().monotonic_ns());
    if (early_ms >= 1) os::pause(std::chrono::milliseconds(static_cast<int>(early_ms)));
  }

 private:
  const std::int64_t begin_ns_ = os::real_clock().monotonic_ns();
  std::uint64_t mebibytes_ = 0;
};

void tell(const std::string& directory, const store::ClaimReport& found) {
  if (found.removed > 0) {
    spdlog::warn("kv disk: removed {} {} from {}: {}", found.removed, found.removed == 1 ? "file" : "files", directory,
                 found.is_noted ? "another model file computed that state, which differs from this one between the "
                                  "samples that name both"
                                : "nothing says any more which model file computed that state");
  } else if (found.others_live) {
    spdlog::warn(
        "kv disk: servers of another model file use {}: this server keeps its state in memory until they have stopped",
        directory);
  } else if (found.whose == store::Whose::kUnknown) {
    spdlog::info(
        "kv disk: the model's file was copied, touched or changed since it wrote the state in {}: all of it is read, "
        "and the state is used when it turns out to be the same",
        directory);
  } else if (found.waited) {
    spdlog::info("kv disk: the model's file is the one that wrote the state in {}: it is used from now on", directory);
  }
}

}  // namespace

Result<SeenFiles> see_files(const std::string& path) {
  TRY_ASSIGN(const std::vector<std::string> parts, gguf::split_paths(path));
  std::vector<os::FileStamp> stamps;
  std::uint64_t bytes = 0;
  for (const std::string& part : parts) {
    TRY_ASSIGN(const os::FileStamp stamp, os::stamp_of(part));
    stamps.push_back(stamp);
    bytes += stamp.size_bytes;
  }
  return SeenFiles{path, store::mark_of(stamps), bytes};
}

Result<ModelHash> hash_at_once(const SeenFiles& seen, const std::string& root) {
  os::FileSystem& files = os::real_file_system();
  if (const auto kept = store::find_kept_hash(files, root, seen.mark); kept && !root.empty()) return *kept;
  TRY_ASSIGN(const ModelHash hash, whole_hash(seen.path));
  const auto after = see_files(seen.path);
  if (!root.empty() && after && after->mark == seen.mark) (void)store::keep_hash(files, root, seen.mark, hash).ok();
  return hash;
}

Result<FingerprintHash> former_fingerprint(const std::string& path, const std::string& text) {
  constexpr std::string_view kField = "\nmodel=";
  TRY_ASSIGN(const ModelHash former,
             gguf::model_identity(engine::llama::open_linked, path, gguf::IdentityDepth::kFormerlySampled));
  const std::size_t value = text.find(kField) + kField.size();
  return engine::llama::fingerprint_hash(std::string(text).replace(value, former.hex().size(), former.hex()));
}

WeightsGuard::WeightsGuard(SeenFiles seen, std::function<bool()> ends)
    : seen_(std::move(seen)), ends_(std::move(ends)) {
  const auto now = see_files(seen_.path);
  changed_ = !now || now->mark != seen_.mark;
  if (changed_) spdlog::warn("{} changed while it was loaded: stored state is neither used nor added to", seen_.path);
}

WeightsGuard::~WeightsGuard() = default;

std::function<Status()> WeightsGuard::use_directory(const store::Layout& layout) {
  root_ = layout.root;
  claim_ = std::make_unique<store::DirectoryClaim>(layout, os::real_file_system(), seen_.mark);
  return [this]() -> Status {
    Status taken = take();
    const bool waits = !taken && !changed_ && !claim_->hash() && claim_->is_unsure();
    return waits && seen_.bytes <= kReadAtOnceBytes ? read_and_take() : taken;
  };
}

// Only once: the reading in the background tells what went wrong.
Status WeightsGuard::read_and_take() {
  if (std::exchange(read_at_once_, true)) return take();
  const auto hash = read_files(false);
  if (hash) note(*hash);
  return take();
}

Status WeightsGuard::take() const {
  if (changed_) return busy(seen_.path + " changed while it was loaded");
  return claim_->take([this](const store::ClaimReport& found) { tell(claim_->directory(), found); });
}

// Fails with kAborted if the files changed meanwhile, or the reading was ended.
Result<ModelHash> WeightsGuard::read_files(bool throttled) {
  Throttle throttle;
  const auto after = [&]() -> Status {
    // A reading in the background is ended by its owner.
    if (stopping_ || (!throttled && ends_ && ends_())) return aborted("reading the model's files was stopped");
    if (throttled) throttle.read_another_mebibyte();
    return {};
  };
  TRY_ASSIGN(const ModelHash hash, whole_hash(seen_.path, after));
  TRY_ASSIGN(const SeenFiles now, see_files(seen_.path));
  if (now.mark != seen_.mark) return aborted(seen_.path + " changed after it was loaded");
  return hash;
}

void WeightsGuard::note(const ModelHash& hash) {
  if (claim_ == nullptr) return;
  claim_->know(hash);
  (void)store::keep_hash(os::real_file_system(), root_, seen_.mark, hash).ok();  // without it, it is read once more
}

Result<ModelHash> WeightsGuard::hash_now() {
  if (changed_) return aborted(seen_.path + " changed while it was loaded");
  if (const auto known = claim_ != nullptr ? claim_->hash() : std::nullopt) return *known;
  spdlog::info("reading all of {}: state in the shared tier is named by all of its bytes", seen_.path);
  TRY_ASSIGN(const ModelHash hash, read_files(false));
  note(hash);
  return hash;
}

std::unique_ptr<WeightsGuard::Reading> WeightsGuard::read_in_background(std::function<void()> known) {
  if (claim_ == nullptr || changed_) return nullptr;
  return std::make_unique<Reading>(*this, std::move(known));
}

WeightsGuard::Reading::Reading(WeightsGuard& guard, std::function<void()> known)
    : guard_(guard), thread_(os::make_thread_executor("model-hash")) {
  thread_->post([this, known = std::move(known)] {
    os::let_others_go_first();
    if (!guard_.claim_->hash()) {
      const auto hash = guard_.read_files(true);
      if (!hash && !guard_.stopping_) spdlog::warn("cannot read all of the model's files: {}", hash.error().message);
      if (!hash) return;
      guard_.note(*hash);
    }
    (void)guard_.take().ok();  // also notes the hash in a directory that is in use
    known();
  });
}

WeightsGuard::Reading::~Reading() {
  guard_.stopping_ = true;
  thread_.reset();
}

}  // namespace kvkeep::cli
