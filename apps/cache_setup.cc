#include "cache_setup.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "carry/namespaces.h"
#include "inspect/cache_directory.h"
#include "inspect/model_notes.h"
#include "os/machine.h"
#include "os/paths.h"
#include "os/process.h"
#include "os/threads.h"
#include "share/engines/make_engine.h"
#include "share/shared_store.h"
#include "store/layout.h"
#include "store/small_files.h"

namespace kvkeep::cli {

namespace {

constexpr ByteCount kGibibyte = mebibytes(1024);
// A note of the model, a list of pins and what may be written today: each needs room twice while it is rewritten.
constexpr ByteCount kRoomForNotes{96 << 10};
constexpr std::size_t kShownDigits = 12;  // of a fingerprint

// The file of sampled turns takes twice their memory, and as much again while it is rewritten; both in whole blocks.
ByteCount room_for_turns(ByteCount budget) { return ByteCount{4 * memory_for_turns(budget).value() + (16U << 10)}; }

// Refuses another user's directory: the model would continue from state that user wrote, and that user could read the
// conversations.
Status check_trusted(const std::string& directory) {
  TRY_ASSIGN(const bool trusted, os::is_trusted(directory));
  if (trusted) return {};
  TRY_ASSIGN(const std::uint32_t owner, os::owner(directory));
  return invalid(fmt::format(
      "{} belongs to another user (number {}): serve as that user, name a directory of your own, or give this one to "
      "yourself with chown",
      directory, owner));
}

// Makes the directory; returns its path without links: it may lie on another disk, but no link below it is followed.
Result<std::string> prepare_directory(const std::string& directory, os::FileSystem& files) {
  TRY(files.make_directories(directory));
  TRY_ASSIGN(std::string resolved, os::resolve_links(directory));
  if (resolved.size() == 1) return invalid("the root of the file system is no cache directory; name one below it");
  TRY(check_trusted(resolved));
  const Status own = inspect::check_own(files, resolved);
  if (!own && own.error().kind == ErrorKind::kInvalid) {
    return invalid(own.error().message + "; name one of its own, such as " + resolved + "/kvkeep");
  }
  TRY(own);
  return resolved;
}

// A lock that another server holds is no error: servers may share the directory.
Status try_directory(const std::string& directory, os::FileSystem& files) {
  TRY_ASSIGN(const std::string resolved, prepare_directory(directory, files));
  const auto lock = files.lock(resolved + "/" + std::string(store::kLockName));
  if (lock || lock.error().kind == ErrorKind::kBusy) return {};
  return lock.error();
}

void warn_of_other_writers(const std::string& directory) {
  const Result<std::uint32_t> mode = os::permissions(directory);
  if (!mode || (*mode & os::kOthersMayWrite) == 0) return;
  const bool shared = (*mode & os::kSticky) != 0;  // /tmp and its like must keep their mode
  spdlog::warn("kv disk: other users may write to {} and plant state there that the model would continue from: {}",
               directory, shared ? "name a directory of your own below it" : "run chmod 700 " + directory);
}

void warn_of_distrust(const TierOptions& options, const std::string& own, const FingerprintHash& fingerprint,
                      const std::string& why) {
  spdlog::warn(
      "kv disk: an audit found state in {} that the model does not compute ({}). Nothing of it is used, and nothing is "
      "stored. Find the cause, then remove the state with kvkeep cache rm --model {}{}, or, if you trust the state, "
      "remove only the file {}. See docs/audit.md",
      own, why, fingerprint.hex().substr(0, kShownDigits),
      options.disk_directory.empty() ? "" : " --kv-disk-dir " + options.disk_directory, store::kDistrustName);
}

Result<DiskTier> open_at(const std::string& directory, const TierOptions& options, const FingerprintHash& fingerprint,
                         os::FileSystem& files, os::Clock& clock, WeightsGuard* guard) {
  store::DiskOptions disk;
  TRY_ASSIGN(disk.directory, prepare_directory(directory, files));
  warn_of_other_writers(disk.directory);
  const store::Layout layout = store::make_layout(disk.directory, fingerprint);
  const std::string& own = layout.own;
  TRY(files.make_directories(own));  // fails if `own` exists and is no directory
  if (const auto why = store::read_distrust(files, own)) {
    warn_of_distrust(options, own, fingerprint, *why);
    return DiskTier{.store = nullptr, .budget = {}, .distrusted = true};
  }
  TRY_ASSIGN(const os::Space space, files.space(directory));
  disk.fingerprint = fingerprint;
  const ByteCount budget = disk_budget(options, space.free);
  disk.reserve = disk_reserve(options, space.total);
  if (disk.reserve >= space.total) {
    spdlog::warn("kv disk: --kv-disk-reserve-mb {} is more than the whole file system has ({} MiB): nothing is stored",
                 disk.reserve.value() >> 20, space.total.value() >> 20);
  }
  disk.written_per_day = options.disk_written_per_day;
  disk.budget = budget - room_for_turns(budget) - kRoomForNotes;
  if (guard != nullptr) {
    disk.admit = guard->use_directory(layout);
    disk.still_admitted = [guard] { return guard->uses_directory(); };
  }
  TRY_ASSIGN(std::unique_ptr<store::DiskStore> store, store::DiskStore::open(disk, files, clock));
  return DiskTier{std::move(store), budget};
}

Error error_of_named(const std::string& directory, const Error& error) {
  const char* advice = error.kind == ErrorKind::kIo ? " (make it writable, or serve with --no-kv-disk)" : "";
  return {error.kind, fmt::format("--kv-disk-dir {}: {}{}", directory, error.message, advice)};
}

void warn_without_disk(const Error& error) {
  spdlog::warn("serving without a disk cache: {} (name another directory with --kv-disk-dir, or use --no-kv-disk)",
               error.message);
}

// Reports files that opening did not keep, or did not make: they explain why the cache is smaller than it was.
void log_found(const store::DiskCounters& found) {
  if (found.damaged > 0) {
    spdlog::warn("kv disk: {} damaged or foreign {} set aside (quarantine/ keeps the last of them)", found.damaged,
                 found.damaged == 1 ? "file" : "files");
  }
  if (found.foreign > 0) {
    spdlog::warn("kv disk: {} in the directory that kvkeep did not make: left there, and not counted",
                 found.foreign == 1 ? "one name is" : fmt::format("{} names are", found.foreign));
  }
  if (found.former_forms > 0) {
    spdlog::warn(
        "kv disk: set aside state that an earlier version stored for requests with LoRA scales of their own ({}), "
        "because this version gives such state other names. New state takes its room first",
        found.former_forms == 1 ? "one file" : fmt::format("{} files", found.former_forms));
  }
  if (found.temporaries > 0) spdlog::debug("kv disk: removed {} unfinished files of an earlier run", found.temporaries);
}

}  // namespace

Result<std::string> disk_directory(const TierOptions& options) {
  if (!options.disk_directory.empty()) return options.disk_directory;
  TRY_ASSIGN(const std::string home, os::user_cache_home());
  return home + "/kvkeep";
}

ByteCount ram_budget(const TierOptions& options) {
  const Result<ByteCount> available = os::available_memory();
  if (options.ram_budget && available && *options.ram_budget > *available) {
    spdlog::warn("kv cache: --cache-ram {} is more than the memory that is available now ({} MiB)",
                 options.ram_budget->value() >> 20, available->value() >> 20);
  }
  if (options.ram_budget) return *options.ram_budget;
  if (!available) return kGibibyte;
  return std::min(ByteCount{available->value() / 4}, mebibytes(8192));
}

ByteCount disk_budget(const TierOptions& options, ByteCount free_space) {
  if (options.disk_budget) return *options.disk_budget;
  return std::clamp(ByteCount{free_space.value() / 10}, kGibibyte, mebibytes(65536));
}

ByteCount disk_reserve(const TierOptions& options, ByteCount total_space) {
  if (options.disk_reserve) return *options.disk_reserve;
  return std::min(ByteCount{total_space.value() / 100}, kGibibyte);
}

ByteCount memory_for_turns(ByteCount budget) { return std::min(ByteCount{budget.value() / 256}, mebibytes(8)); }

Status check_disk_directory(const TierOptions& options, os::FileSystem& files) {
  if (!options.use_disk || options.disk_directory.empty()) return {};
  const Status usable = try_directory(options.disk_directory, files);
  return usable ? usable : error_of_named(options.disk_directory, usable.error());
}

Result<DiskTier> open_disk_tier(const TierOptions& options, const FingerprintHash& fingerprint, os::FileSystem& files,
                                os::Clock& clock, WeightsGuard* guard) {
  if (!options.use_disk) return DiskTier{};
  const bool named = !options.disk_directory.empty();
  const Result<std::string> directory = disk_directory(options);
  Result<DiskTier> tier =
      directory ? open_at(*directory, options, fingerprint, files, clock, guard) : Result<DiskTier>(directory.error());
  if (tier && tier->distrusted) return tier;
  if (tier) {
    tier->directory = *directory;
    if (!tier->store->waits() && !tier->store->keeper()) {
      spdlog::info(
          "kv disk: another server keeps the budget of this directory; this server writes only within the lease that "
          "it grants");
    }
    log_found(tier->store->counters());
    if (const ByteCount foreign = tier->store->foreign_bytes(); foreign > ByteCount{0}) {
      spdlog::debug("kv disk: {} MiB of the used space belong to other models or settings", foreign.value() >> 20);
    }
    return tier;
  }
  if (named) return error_of_named(*directory, tier.error());
  warn_without_disk(tier.error());
  return DiskTier{};
}

std::string root_of_facts(const TierOptions& tiers) {
  const auto directory = tiers.use_disk ? disk_directory(tiers) : Result<std::string>(std::string());
  const auto root = directory && !directory->empty() ? os::resolve_links(*directory) : directory;
  const bool usable =
      root && !root->empty() && check_trusted(*root).ok() && inspect::check_own(os::real_file_system(), *root).ok();
  return usable ? *root : std::string();
}

namespace {

class TrialFile : public engine::llama::KeptTrials {
 public:
  explicit TrialFile(const std::string& root) : path_(root + "/" + std::string(store::kClassTrialsName)) {}
  std::optional<std::string> find(const std::string& name) override {
    return store::find_kept(os::real_file_system(), path_, name);
  }
  void keep(const std::string& name, const std::string& text) override {
    (void)store::keep(os::real_file_system(), path_, name, text).ok();
  }

 private:
  const std::string path_;
};

}  // namespace

std::shared_ptr<engine::llama::KeptTrials> kept_trials(const TierOptions& tiers) {
  const std::string root = root_of_facts(tiers);
  return root.empty() ? nullptr : std::make_shared<TrialFile>(root);
}

void tell_of_former_state(const DiskTier& tier, const Result<FingerprintHash>& former) {
  if (tier.directory.empty() || !former) return;
  const auto listed = os::real_file_system().list(store::make_layout(tier.directory, *former).own);
  if (!listed) return;
  const auto found = std::ranges::count_if(*listed, [](const auto& info) { return store::is_segment_name(info.name); });
  if (found == 0) return;
  spdlog::warn(
      "kv disk: set aside the state that an earlier version stored for this model ({}): this version reads more of a "
      "model's file to name its state, so that a patched file has another name. New state takes its room first",
      found == 1 ? "one file" : fmt::format("{} files", found));
}

namespace {

// libllama writes the states of opaque models for a number of sequences, and contexts with another cannot read them.
void explain_other_parallel(const engine::Description& model, const store::DiskStore& disk, std::uint32_t parallel) {
  if (model.memory_class != engine::MemoryClass::kOpaque || disk.foreign_bytes() == ByteCount{0}) return;
  spdlog::info(
      "kv disk: this model's states can be read only with the --parallel they were made with, now {}; the used space "
      "includes states of other values and other models",
      parallel);
}

}  // namespace

Result<DiskTier> open_disk_of(engine::Engine& engine, const ServeOptions& options, WeightsGuard* guard) {
  const engine::Description& model = engine.description();
  const bool cacheable = engine.memory().shape().cacheable;
  DiskTier disk;
  if (cacheable || !options.tiers.disk_directory.empty()) {  // a named directory must be usable in any case
    TRY_ASSIGN(disk, open_disk_tier(options.tiers, model.fingerprint, os::real_file_system(), os::real_clock(), guard));
  }
  if (!cacheable) return DiskTier{};
  if (guard != nullptr) tell_of_former_state(disk, former_fingerprint(model.model_path, model.fingerprint_text));
  if (disk.store != nullptr) explain_other_parallel(model, *disk.store, options.model.parallel);
  return disk;
}

// ---- the shared tier ----

namespace {

constexpr std::int64_t kHourS = 3'600;
constexpr std::int64_t kLongestPublishNs = 3'000'000'000;
constexpr ByteCount kReadyMemory = mebibytes(64);  // docs/sharing.md

// Logs what the engine says of itself, if that is not what it said last (`told`). Returns false if it does not answer
// any more.
bool tell_facts(share::ObjectEngine& engine, std::int64_t deadline_ns, std::string& told) {
  const auto facts = engine.facts(deadline_ns);
  if (!facts && share::counts_for_breaker(facts.error().kind)) return false;
  std::string said = facts ? facts->description : facts.error().message;
  for (const std::string& warning : facts ? facts->warnings : std::vector<std::string>()) said += '\n' + warning;
  if (std::exchange(told, said) == said) return true;
  if (!facts) {
    spdlog::warn("shared tier: {} does not say what it is: {}", engine.address(), facts.error().message);
    return true;
  }
  spdlog::info("shared tier: {}: {}", engine.address(), facts->description);
  for (const std::string& warning : facts->warnings) spdlog::warn("shared tier: {}", warning);
  return true;
}

}  // namespace

Result<std::unique_ptr<share::ObjectEngine>> open_engine(const std::string& url, os::Clock& clock,
                                                         share::EngineUse use) {
  TRY_ASSIGN(const share::EngineUrl parsed, share::parse_engine_url(url));
  TRY_ASSIGN(const share::EngineSecrets secrets, share::read_engine_secrets(os::read_environment()));
  return share::make_engine(parsed, secrets, clock, os::real_file_system(), use);
}

void warn_without_key(const share::ObjectEngine& engine) {
  spdlog::warn(
      "shared tier: without --share-key-file everybody who can write to {} can plant state that the model would "
      "continue from, and see which prompts are there",
      engine.address());
}

namespace {

// A name does not tell the model's files, which `kvkeep share pull` must know.
share::LastingRecord record_about(const engine::Description& model, const std::string& device,
                                  const std::string& weights) {
  const std::string text = inspect::encode_model_note(
      {.name = model.model_name, .description = model.summary, .devices = {device}, .weights = weights});
  const auto bytes = std::as_bytes(std::span(text));
  return {.key = carry::about_key(), .contents = {bytes.begin(), bytes.end()}, .merge = carry::merge_about};
}

}  // namespace

Result<std::unique_ptr<share::ObjectEngine>> open_share_engine(const SharedTierOptions& options) {
  if (options.url.empty()) return std::unique_ptr<share::ObjectEngine>();
  auto engine = open_engine(options.url, os::real_clock());
  if (!engine) return Error{engine.error().kind, "--share: " + engine.error().message};
  return engine;
}

Result<OpenedShare> open_share(std::unique_ptr<share::ObjectEngine> engine, const SharedTierOptions& options,
                               const std::string& key, const engine::Description& model, bool may_share,
                               WeightsGuard* guard) {
  OpenedShare opened;
  if (engine == nullptr) return opened;
  if (!may_share) {
    spdlog::warn("--share has no effect: the state of this model cannot be cached, or an audit found it wrong");
    return opened;
  }
  std::string weights;
  if (guard != nullptr) {
    TRY_ASSIGN(const ModelHash hash, guard->hash_now());
    weights = hash.hex();
  }
  os::Clock& clock = os::real_clock();
  opened.threads = std::make_unique<share::ShareThreads>(engine->pace().reads_at_once);
  const share::ShareThreads& threads = *opened.threads;
  std::vector<os::Executor*> helpers;
  for (const auto& helper : threads.helpers) helpers.push_back(helper.get());
  share::ShareOptions settings{
      .fingerprint = model.fingerprint,
      .device = options.across_devices ? std::string() : model.compute_kinds,
      .weights = std::move(weights),
      .key = key,
      .encrypt = options.encrypt,
      .mode = options.mode,
      .ttl_s = options.ttl_hours * kHourS,
      .ready_memory = kReadyMemory,
      .when_well = [told = std::string()](share::ObjectEngine& well, std::int64_t deadline_ns) mutable {
        return tell_facts(well, deadline_ns, told);
      }};
  if (guard != nullptr) settings.lasting = record_about(model, settings.device, settings.weights);
  share::ObjectEngine& asked = *engine;
  TRY_ASSIGN(auto store, share::SharedStore::make(std::move(engine), std::move(settings), clock, *threads.worker,
                                                  threads.prober.get()));
  if (key.empty()) warn_without_key(asked);
  spdlog::info("shared tier: {}, namespace {}", asked.address(), store->space());
  opened.setup = {.store = std::move(store),
                  .worker = threads.worker.get(),
                  .prober = threads.prober.get(),
                  .reader = threads.reader.get(),
                  .helpers = std::move(helpers),
                  .searcher = threads.searcher.get(),
                  .publishes = options.mode != share::ShareMode::kRead};
  opened.store = opened.setup.store.get();
  return opened;
}

namespace {

// The size of a point, which is the same for all points, or of a whole window.
ByteCount point_bytes(engine::Engine& engine) {
  const cache::ModelMemory& memory = engine.memory();
  return ByteCount{std::max(memory.window_bytes(memory.shape().window_tokens), engine.description().point_bytes)};
}

}  // namespace

cache::CacheOptions cache_options(cache::CacheOptions options, engine::Engine& engine, ByteCount ram_budget,
                                  bool distrusted) {
  options.fingerprint = engine.description().fingerprint;
  options.vocabulary_size = engine.description().vocabulary_size;
  options.ram_budget = ram_budget;
  options.distrusted = distrusted;
  options.point_bytes = point_bytes(engine);
  options.shape = engine.memory().shape();
  return options;
}

void await_publishing(share::SharedStore& store) {
  constexpr std::chrono::milliseconds kStep{20};
  const std::int64_t end_ns = os::real_clock().monotonic_ns() + kLongestPublishNs;
  store.end_by(end_ns);
  while (store.counters().waiting > 0 && os::real_clock().monotonic_ns() < end_ns) os::pause(kStep);
}

}  // namespace kvkeep::cli
