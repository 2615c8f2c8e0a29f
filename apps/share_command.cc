#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <optional>
#include <utility>

#include "cache_place.h"
#include "cache_setup.h"
#include "carry/carry.h"
#include "commands.h"
#include "engine/llama/library.h"
#include "engine/llama/model_params.h"
#include "inspect/archive.h"
#include "inspect/cache_directory.h"
#include "named_files.h"
#include "os/clock.h"
#include "os/paths.h"
#include "os/process.h"
#include "os/threads.h"
#include "output.h"
#include "serve_log.h"
#include "share_report.h"

namespace kvkeep::cli {
namespace {

constexpr std::int64_t kSecondsPerHour = 3'600;
constexpr std::int64_t kProbeNs = 5'000'000'000;

// Rows of the processor, and of devices that layers would lie on: the kinds that kvkeep serve computes with, unless its
// flags say otherwise. Loads no weights.
Result<std::string> device_of_this_machine() {
  engine::llama::start_library();
  TRY_ASSIGN(const engine::llama::ModelParams params, engine::llama::ModelParams::make({}));
  return engine::llama::device_kinds(params, 1, true);
}

// The engine of a command, which answers, and the key to it.
struct OpenedEngine {
  std::unique_ptr<share::ObjectEngine> engine;
  std::string key;
  std::shared_ptr<share::Patience> patience;  // of all its calls
  share::EngineAccess access() const {
    return {*engine, os::real_clock(),
            [own = patience](int tries, const Error& trouble) { return own->wait(tries, trouble); }};
  }
};

std::shared_ptr<share::Patience> patience_with(const share::ObjectEngine& engine) {
  const auto tell = [address = engine.address()](const Error& trouble) {
    spdlog::warn("shared tier: {} does not answer ({}): it is tried again for {} seconds", address, trouble.message,
                 share::Patience::kLongestNs / 1'000'000'000);
  };
  const auto pause = [](std::int64_t ms) { os::pause(std::chrono::milliseconds(ms)); };
  return std::make_shared<share::Patience>(os::real_clock(), pause, tell);
}

// Fails if no node that has names answers. One that is gone may be a seed of many, or a replica.
Status probe_nodes(share::ObjectEngine& engine, os::Clock& clock) {
  Status trouble;
  bool is_well = false;
  for (std::uint32_t i = 0; i < engine.nodes(); ++i) {
    const share::NodeId node{i};
    const Status well = engine.probe(node, clock.monotonic_ns() + kProbeNs);
    is_well |= well.ok() && engine.has_names(node);
    if (well.ok()) continue;
    const std::string text = engine.node_address(node) + ": " + well.error().message;
    if (trouble.ok()) trouble = Error{well.error().kind, text};
    if (engine.nodes() > 1) spdlog::warn("shared tier: {}", text);
  }
  return is_well ? Status{} : trouble;
}

Result<OpenedEngine> open_engine_of(const ShareCommandOptions& options) {
  OpenedEngine opened;
  TRY_ASSIGN(opened.key, read_share_key(options.shared.key_file));
  if (options.shared.encrypt && !share::can_encrypt()) {
    return unsupported("this build has no OpenSSL, which --share-encrypt needs");
  }
  os::Clock& clock = os::real_clock();
  const auto use =
      options.action == ShareAction::kPush && !options.dry ? share::EngineUse::kAll : share::EngineUse::kLook;
  TRY_ASSIGN(opened.engine, open_engine(options.shared.url, clock, use));
  opened.patience = patience_with(*opened.engine);
  TRY(probe_nodes(*opened.engine, clock));
  if (opened.key.empty() && options.action != ShareAction::kList) warn_without_key(*opened.engine);
  return opened;
}

share::Warehouse warehouse_of(const ShareCommandOptions& options, const OpenedEngine& opened,
                              const FingerprintHash& fingerprint, const std::string& device,
                              const std::string& weights) {
  return {opened.access(),
          {.fingerprint = fingerprint,
           .device = device,
           .weights = weights,
           .key = opened.key,
           .encrypt = options.shared.encrypt},
          options.shared.ttl_hours * kSecondsPerHour};
}

std::string shown_device(const std::string& device) { return device.empty() ? "any device" : device; }

// The summary of earlier models is told though this one failed. Returns the error if there is none.
Status note_failed(CarriedModels& carried, const FingerprintHash& fingerprint, const std::string& space,
                   const std::string& device, const Error& error) {
  if (carried.models.empty()) return error;
  carry::CarryReport report;
  report.stopped = error.message;
  carried.models.push_back({fingerprint.hex(), space, shown_device(device), std::move(report)});
  return {};
}

int finish(const ShareCommandOptions& options, const CarriedModels& carried) {
  print(options.json ? carried_json(carried) : carried_text(carried));
  return carried.complete() ? 0 : 1;
}

Result<int> list(const ShareCommandOptions& options) {
  TRY_ASSIGN(const OpenedEngine opened, open_engine_of(options));
  TRY_ASSIGN(std::vector<carry::Namespace> found, carry::find_namespaces(opened.access(), opened.key));
  TRY_ASSIGN(const std::string own, device_of_this_machine());
  std::vector<ListedNamespace> listed;
  for (carry::Namespace& one : found) {
    std::string device = carry::device_of(one, opened.key, {own});
    listed.push_back({std::move(one), std::move(device)});
  }
  print(options.json ? namespaces_json(listed) : namespaces_text(listed));
  return 0;
}

// ---- push ----

Result<std::string> device_to_push(const ShareCommandOptions& options, const inspect::ModelDirectory& model) {
  if (options.shared.across_devices) return std::string();
  auto device = carry::device_of(model);
  if (!options.device.empty()) {
    if (device && *device != options.device) {
      spdlog::warn(
          "--device {}: the directory notes that {} computed its state: servers on that device will not find it",
          options.device, *device);
    }
    return options.device;
  }
  if (device) return device;
  return Error{device.error().kind,
               device.error().message +
                   ": name the one whose servers shall find it with --device TEXT, or pass --share-across-devices"};
}

Result<int> push(const ShareCommandOptions& options) {
  TRY_ASSIGN(const std::string root, cache_root(options.cache));
  TRY_ASSIGN(inspect::CacheDirectory directory, inspect::read_directory(os::real_file_system(), root));
  TRY(choose_models(directory, options.cache.fingerprint));
  std::erase_if(directory.models, [](const inspect::ModelDirectory& model) { return model.files.segments.empty(); });
  if (directory.models.empty()) return not_found(root + ": nothing is stored there");
  std::vector<std::string> devices;
  std::vector<std::string> weights;
  for (const inspect::ModelDirectory& model : directory.models) {
    TRY_ASSIGN(std::string hash, carry::weights_of(model));
    weights.push_back(std::move(hash));
    TRY_ASSIGN(std::string device, device_to_push(options, model));
    devices.push_back(std::move(device));
  }
  TRY_ASSIGN(const OpenedEngine opened, open_engine_of(options));
  const std::int64_t began_ns = os::real_clock().monotonic_ns();
  CarriedModels carried{.direction = Direction::kPush, .dry = options.dry, .models = {}};
  ByteCount left = options.most.value_or(ByteCount{UINT64_MAX});
  for (std::size_t i = 0; i < directory.models.size(); ++i) {
    const inspect::ModelDirectory& model = directory.models[i];
    share::Warehouse warehouse = warehouse_of(options, opened, model.fingerprint, devices[i], weights[i]);
    Bar bar;
    const auto progress = [&bar](ByteCount done, ByteCount total) { bar.show(done, total); };
    auto report = carry::push(os::real_file_system(), model, devices[i], warehouse,
                              {.most = left, .dry = options.dry, .progress = progress});
    if (!report) {
      TRY(note_failed(carried, model.fingerprint, warehouse.vault().space(), devices[i], report.error()));
      break;
    }
    left = left - std::min(left, report->carried.bytes);
    carried.models.push_back(
        {model.fingerprint.hex(), warehouse.vault().space(), shown_device(devices[i]), std::move(*report)});
  }
  carried.seconds = os::elapsed_ms(began_ns, os::real_clock().monotonic_ns()) / 1e3;
  return finish(options, carried);
}

// ---- pull ----

// The directory of a pull. A dry run makes none.
struct PullPlace {
  std::string root;
  bool made = false;
  ByteCount budget;
  ByteCount room;
  std::unique_ptr<os::FileLock> lock;  // null: servers run on it, or the run is dry
};

Result<PullPlace> place_to_look_at(const ShareCommandOptions& options) {
  PullPlace place;
  TRY_ASSIGN(place.root, disk_directory(options.cache.tiers));
  place.room = place.budget = disk_budget(options.cache.tiers, ByteCount{UINT64_MAX});
  return place;
}

Result<PullPlace> open_place(const ShareCommandOptions& options) {
  PullPlace place;
  const auto known = cache_root(options.cache);
  if (options.dry && !known && known.error().kind == ErrorKind::kNotFound) return place_to_look_at(options);
  if (!options.dry) {
    TRY_ASSIGN(place.made, make_cache(options.cache));
  }
  TRY_ASSIGN(place.root, cache_root(options.cache));
  TRY_ASSIGN(inspect::CacheDirectory directory, inspect::read_directory(os::real_file_system(), place.root));
  if (!options.dry) {
    TRY_ASSIGN(place.lock, hold_cache(place.root));
  }
  inspect::ViewOptions counted;
  counted.most_runs = 0;
  const ByteCount used = inspect::view_of(inspect::plant(std::move(directory)), counted).used;
  TRY_ASSIGN(place.budget, cache_budget(options.cache, place.root));
  TRY_ASSIGN(const os::Space space, os::real_file_system().space(place.root));
  place.room = std::min(place.budget - std::min(used, place.budget), space.free);
  return place;
}

// The device whose state is wanted: that of the state which lies there already, or this machine's.
Result<std::string> device_to_pull(const ShareCommandOptions& options, const std::string& root,
                                   const FingerprintHash& fingerprint) {
  if (options.shared.across_devices) return std::string();
  if (!options.device.empty()) return options.device;
  inspect::ModelDirectory model;
  model.note = inspect::read_model_note(os::real_file_system(), root + "/" + fingerprint.hex());
  if (auto noted = carry::device_of(model)) return noted;
  return device_of_this_machine();
}

struct Wanted {
  carry::Namespace from;
  std::string device;
};

Result<std::vector<Wanted>> wanted_namespaces(const ShareCommandOptions& options, const OpenedEngine& opened,
                                              const std::string& root) {
  TRY_ASSIGN(std::vector<carry::Namespace> found, carry::find_namespaces(opened.access(), opened.key));
  std::vector<Wanted> wanted;
  std::string device;
  for (carry::Namespace& one : found) {
    if (!one.fingerprint || !one.fingerprint->hex().starts_with(options.cache.fingerprint)) continue;
    TRY_ASSIGN(device, device_to_pull(options, root, *one.fingerprint));
    if (carry::is_named_after(one, opened.key, device)) wanted.push_back({std::move(one), device});
  }
  if (!wanted.empty()) return wanted;
  const std::string of_device = device.empty() ? "" : fmt::format(" that was computed by {}", device);
  return not_found(fmt::format(
      "{} has no state{} under this key for {}: {} shows what it has, --device and --share-across-devices choose",
      opened.engine->address(), of_device,
      options.cache.fingerprint.empty() ? "any model" : "model " + options.cache.fingerprint, as_typed("share ls")));
}

// Servers on the directory grant the room.
Status take_part(inspect::Guest& guest, carry::PullTarget& target) {
  TRY(guest.join());
  target.own_mark = guest.own_mark();
  target.beside_servers = true;
  target.reserve = [&guest](ByteCount bytes) { return guest.reserve(bytes, pauses_for_room()); };
  return {};
}

Result<CarriedModel> pull_one(const ShareCommandOptions& options, const OpenedEngine& opened, const PullPlace& place,
                              const Wanted& wanted, ByteCount most) {
  os::FileSystem& files = os::real_file_system();
  carry::PullTarget target{.root = place.root,
                           .room = place.room,
                           .own_mark = "pull-" + std::to_string(os::process_id()),
                           .turn_memory = memory_for_turns(place.budget),
                           .now_s = os::real_clock().wall_ns() / 1'000'000'000,
                           .device = wanted.device};
  std::optional<inspect::Guest> guest;
  if (place.lock == nullptr && !options.dry) {
    guest.emplace(place.root, files, os::real_clock());
    TRY(take_part(*guest, target));
  }
  share::Warehouse warehouse = warehouse_of(options, opened, *wanted.from.fingerprint, wanted.device,
                                            wanted.from.note ? wanted.from.note->weights : "");
  Bar bar;
  const auto progress = [&bar](ByteCount done, ByteCount total) { bar.show(done, total); };
  TRY_ASSIGN(carry::CarryReport report, carry::pull(files, wanted.from, warehouse, target,
                                                    {.most = most, .dry = options.dry, .progress = progress}));
  return CarriedModel{wanted.from.fingerprint->hex(), wanted.from.space, shown_device(wanted.device),
                      std::move(report)};
}

Result<CarriedModels> pull_all(const ShareCommandOptions& options, PullPlace& place) {
  TRY_ASSIGN(const OpenedEngine opened, open_engine_of(options));
  TRY_ASSIGN(const std::vector<Wanted> wanted, wanted_namespaces(options, opened, place.root));
  const std::int64_t began_ns = os::real_clock().monotonic_ns();
  CarriedModels carried{.direction = Direction::kPull, .dry = options.dry, .models = {}};
  ByteCount left = options.most.value_or(ByteCount{UINT64_MAX});
  for (const Wanted& one : wanted) {
    auto model = pull_one(options, opened, place, one, left);
    if (!model) {
      TRY(note_failed(carried, *one.from.fingerprint, one.from.space, one.device, model.error()));
      break;
    }
    const carry::Count& added = model->report.carried;
    left = left - std::min(left, added.bytes);
    // Each file takes whole blocks.
    place.room = place.room - std::min(place.room, added.bytes + ByteCount{added.items * 2 * 4096});
    carried.models.push_back(std::move(*model));
  }
  carried.seconds = os::elapsed_ms(began_ns, os::real_clock().monotonic_ns()) / 1e3;
  return carried;
}

Result<int> pull(const ShareCommandOptions& options) {
  TRY_ASSIGN(PullPlace place, open_place(options));
  const auto carried = pull_all(options, place);
  if (!carried && place.made) {
    place.lock.reset();
    unmake_cache(place.root);
  }
  if (!carried) return carried.error();
  return finish(options, *carried);
}

}  // namespace

Result<int> run_share(const ShareCommandOptions& options) {
  LogOptions log;
  log.verbosity = 2;  // warnings
  log.timestamps = false;
  TRY(set_up_log(log));
  switch (options.action) {
    case ShareAction::kList: return list(options);
    case ShareAction::kPush: return push(options);
    case ShareAction::kPull: return pull(options);
  }
  return 1;
}

}  // namespace kvkeep::cli
