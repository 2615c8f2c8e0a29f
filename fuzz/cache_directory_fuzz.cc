// A whole cache directory out of bytes: a sound one, to which the input does what it likes. Opening succeeds, no lookup
// or load ends otherwise than with right bytes or none, the budget holds, and the directory can be used again.
//
// An input says first which class of models it is about and whether it forges: damage of any kind is always seen, and
// every byte that is served is checked; sums that were made to fit let other rows pass (whoever can write them owns the
// directory), so only the other laws are checked there.

#include <gtest/gtest.h>

#include <map>

#include "cache/cache_test_fixture.h"
#include "segment_fixup.h"
#include "store/layout.h"

namespace kvkeep::cache {
namespace {

constexpr ByteCount kBudget{64 * 8192};
constexpr std::size_t kMostEdits = 12;

const std::vector<ModelClass>& models() {
  static const std::vector<ModelClass> all = {kRowsModel, kWindowedModel, kHybridModel, kRecurrentModel, kOpaqueModel};
  return all;
}

std::vector<Tokens> prompts() {
  const Tokens a = conversation(1, 96);
  return {a, conversation(1, 40) + conversation(50, 40), conversation(200, 64), conversation(300, 24)};
}

struct FileImage {
  std::vector<std::byte> bytes;
  std::int64_t modified_ns = 0;
};
using Directory = std::map<std::string, FileImage>;

// The directory of a process that kept the prompts and ended well.
Directory sound_directory(const ModelClass& model) {
  World world(ByteCount{0}, kBudget);
  world.model = model;
  KVKEEP_ASSERT(world.open(), "an empty directory opens");
  for (const Tokens& prompt : prompts()) {
    for (std::size_t size = 40; size < prompt.size(); size += 40) world.keep(head(prompt, size));
    KVKEEP_ASSERT(world.keep(prompt), "there is room");
    world.writer.run_all();
  }
  world.cache->flush();
  world.die();
  Directory directory;
  for (const std::string& path : world.files.paths()) {
    const std::string folder = store::directory_of(path);
    const auto listed = world.files.list(folder);
    KVKEEP_ASSERT(listed, "the simulated disk works");
    for (const os::FileInfo& info : *listed) {
      if (folder + "/" + info.name == path) directory[path] = {*world.files.contents(path), info.modified_ns};
    }
  }
  return directory;
}

const Directory& sound_directory_of(std::size_t model) {
  static std::map<std::size_t, Directory> known;
  if (!known.contains(model)) known[model] = sound_directory(models()[model]);
  return known[model];
}

// Names that mean something, and some that do not.
std::string chosen_name(fuzz::Input& input, const Directory& directory) {
  const std::size_t choice = input.below(directory.size() + 8);
  if (choice < directory.size()) return std::next(directory.begin(), static_cast<std::ptrdiff_t>(choice))->first;
  const std::string own = store::directory_of(directory.begin()->first);
  switch (choice - directory.size()) {
    case 0: return own + "/index";
    case 1: return own + "/turns";
    case 2: return own + "/" + std::string(32, 'a') + "-" + std::string(32, 'b') + ".kvs";
    case 3: return own + "/" + std::string(32, '0') + "-" + std::string(32, 'f') + ".whole.kvs";
    case 4: return own + "/unfinished.tmp";
    case 5: return "/cache/quarantine/" + std::string(input.text(6));
    case 6: return "/cache/" + std::string(64, 'c') + "/" + std::string(32, 'a') + "-" + std::string(32, 'b') + ".kvs";
    default: return own + "/" + std::string(input.text(8));
  }
}

void change_bytes(fuzz::Input& input, std::vector<std::byte>& bytes) {
  const std::size_t kind = input.below(5);
  const std::size_t place = bytes.empty() ? 0 : input.below(bytes.size());
  switch (kind) {
    case 0: bytes.resize(place); break;
    case 1: {
      const ByteSpan more = input.bytes(input.below(300));
      bytes.insert(bytes.end(), more.begin(), more.end());
      break;
    }
    case 2: {
      const ByteSpan other = input.bytes(std::min(input.below(64), bytes.size() - place));
      std::ranges::copy(other, bytes.begin() + static_cast<std::ptrdiff_t>(place));
      break;
    }
    case 3: bytes = fuzz::copy_of(input.bytes(input.below(1024))); break;
    default:
      if (!bytes.empty()) bytes[place] ^= std::byte{input.number<std::uint8_t>()};
  }
}

// The header's sums fit again, or those of the payload as well.
void forge(fuzz::Input& input, std::vector<std::byte>& bytes) {
  fuzz::fix_header(bytes);
  if (input.flag()) fuzz::fix_parts(bytes);
}

void edit(fuzz::Input& input, bool may_forge, Directory& directory) {
  const std::string name = chosen_name(input, directory);
  if (name.back() == '/') return;
  switch (input.below(4)) {
    case 0: directory.erase(name); break;
    case 1: directory[name] = directory[chosen_name(input, directory)]; break;
    default:
      change_bytes(input, directory[name].bytes);
      if (may_forge) forge(input, directory[name].bytes);
  }
  if (directory.empty()) directory["/cache/lock"] = {};
}

void lay_out(const Directory& directory, sim::SimFileSystem& files) {
  for (const auto& [path, image] : directory) {
    KVKEEP_ASSERT(files.make_directories(store::directory_of(path)).ok(), "the simulated disk works");
    files.plant(path, image.bytes);
    KVKEEP_ASSERT(files.set_modified(path, image.modified_ns).ok(), "the simulated disk works");
  }
}

// Every load of a lease comes to an end, whatever it brings; a lease that failed gets shorter.
void load_all(World& world, const Tokens& prompt) {
  for (int attempt = 0; attempt < 100; ++attempt) {
    const std::shared_ptr<Lease> lease = world.cache->lease(prompt);
    std::vector<std::optional<Position>> places = {std::nullopt};
    for (const policy::Restorable& run : lease->restorable()) places.emplace_back(run.last);
    bool failed = false;
    for (const std::optional<Position>& place : places) {
      bool is_answered = false;
      const auto done = [&](const LoadResult& result) {
        is_answered = true;
        failed |= !result.status.ok();
      };
      world.cache->load(lease, {Position{}, lease->end()}, done, place);
      world.reader.run_all();
      KVKEEP_ASSERT(is_answered, "a load is answered");
    }
    if (!failed) return;
  }
  KVKEEP_ASSERT(false, "loading never succeeded nor gave up");
}

void look(World& world, bool forged) {
  for (const Tokens& prompt : prompts()) {
    if (forged) {
      load_all(world, prompt);
    } else {
      (void)world.check(prompt);
      if (world.model.shape.needs_points()) (void)world.restorable(prompt);
    }
  }
}

void check(fuzz::Input input) {
  const std::size_t model = input.below(models().size());
  const bool forged = input.flag();
  Directory directory = sound_directory_of(model);
  for (std::size_t i = 0; i < kMostEdits && input.left() > 0; ++i) edit(input, forged, directory);

  World world(ByteCount{0}, kBudget);
  world.model = models()[model];
  lay_out(directory, world.files);
  KVKEEP_ASSERT(world.open(), "what lies in a directory never keeps it from opening");
  look(world, forged);
  world.writer.run_all();
  KVKEEP_ASSERT(world.store->used() <= kBudget, "the budget holds");

  const Tokens fresh = conversation(900, 64);
  KVKEEP_ASSERT(world.keep(fresh), "new conversations are kept");
  world.writer.run_all();
  world.cache->flush();
  world.die();
  world.files.power_cut();
  KVKEEP_ASSERT(world.open(), "what lies in a directory never keeps it from opening");
  KVKEEP_ASSERT(world.check(fresh) == 64, "they survive a power cut");
  look(world, forged);
}

}  // namespace
}  // namespace kvkeep::cache

KVKEEP_FUZZ_TARGET(cache_directory)(const std::uint8_t* data, std::size_t size) {
  GTEST_FLAG_SET(throw_on_failure, true);  // the fixture's checks end the process
  kvkeep::cache::check(kvkeep::fuzz::Input(data, size));
  return 0;
}
