#pragma once

// A directory that a server filled, and an audit over it that the test drives by hand.

#include <deque>
#include <map>

#include "server/run/audit.h"
#include "server/run/class_talk_fixture.h"
#include "server/run/scheduler_test_fixture.h"
#include "testing/sim/forged_segment.h"
#include "testing/sim/temporary_directory.h"

namespace kvkeep::server {

using engine::MemoryClass;
using Tokens = std::vector<TokenId>;

inline const MemoryClass kAuditedClasses[] = {MemoryClass::kSliceable, MemoryClass::kWindowed, MemoryClass::kHybrid,
                                              MemoryClass::kRecurrent};

inline std::vector<std::filesystem::path> files_of(const std::string& directory, std::string_view suffix) {
  std::vector<std::filesystem::path> files;
  for (const auto& each : std::filesystem::recursive_directory_iterator(directory)) {
    const std::string name = each.path().filename();
    // All of them end with ".kvs".
    const bool rows = name.find('.') == name.rfind('.');
    if (name.ends_with(suffix) && (suffix != ".kvs" || rows)) files.push_back(each.path());
  }
  std::ranges::sort(files);
  return files;
}

// Flips one bit of every eight bytes of the payload, after the header that the fake engine writes.
inline void forge(const std::filesystem::path& path) {
  constexpr std::size_t kHeadBytes = 16;
  auto segment = sim::read_segment(path);
  ASSERT_TRUE(segment) << path;
  for (std::size_t at = kHeadBytes; at < segment->payload.size(); at += 8) segment->payload[at] ^= std::byte{4};
  sim::write_segment(path, std::move(*segment));
}

// Each reading takes a millisecond, and a test may let more time pass.
class AuditClock final : public os::Clock {
 public:
  std::int64_t monotonic_ns() override { return now_ns_ += 1'000'000; }
  std::int64_t wall_ns() override { return now_ns_; }
  void pass_ms(std::int64_t ms) { now_ns_ += ms * 1'000'000; }

 private:
  std::atomic<std::int64_t> now_ns_ = 0;
};

// A world whose scheduler does not run: the test is the engine thread.
class AuditBench {
 public:
  explicit AuditBench(const WorldOptions& options, AuditOptions audited = {.every_ms = 1, .idle_ms = 0})
      : world(options), audit(audited, world.engine, world.cache, clock, mebibytes(1), [this](cache::LoadResult done) {
          const MutexLock lock(mutex_);
          loaded_.push_back(std::move(done));
        }) {}

  // Delivers the read that the audit waits for, or does one unit of work.
  std::optional<AuditReport> step(std::optional<SeqId> free = SeqId{0}, std::size_t slice = 64) {
    if (!audit.loading()) return audit.step(free, slice);
    world.reader->drain();
    const MutexLock lock(mutex_);
    audit.loaded(loaded_.front());
    loaded_.pop_front();
    return std::nullopt;
  }
  // Runs until the audit repeats its answers. Returns false if they agreed.
  bool run_until_suspected() {
    int answers = 0;
    world.engine.set_on_decode([&](auto batch) { answers += batch.size() == 1 && batch[0].want_logits ? 1 : 0; });
    bool ended = false;
    while (answers < 3 && !ended) ended = step().has_value();  // restored, computed, restored again
    world.engine.set_on_decode({});
    return !ended;
  }
  AuditReport run() {
    for (;;) {
      if (const auto report = step()) return *report;
    }
  }
  // Returns how this many audits ended.
  AuditCounts run(std::size_t count) {
    AuditCounts counts;
    for (std::size_t i = 0; i < count && !world.cache.distrusted(); ++i) counts.add(run().outcome);
    return counts;
  }

  World world;
  AuditClock clock;

 private:
  Mutex mutex_;
  std::deque<cache::LoadResult> loaded_ GUARDED_BY(mutex_);

 public:
  Audit audit;
};

class AuditTest : public testing::TestWithParam<MemoryClass> {
 protected:
  WorldOptions options() const {
    WorldOptions options = class_world(GetParam());
    options.ram = ByteCount{0};
    options.disk_directory = directory_.path();
    return options;
  }
  // Conversations of a few turns with a common beginning, on disk only: computed once per program and class.
  struct Filled {
    sim::TemporaryDirectory directory;
    std::vector<Tokens> prompts;
  };
  void fill() {
    static std::map<MemoryClass, Filled> filled;
    Filled& kept = filled[GetParam()];
    if (kept.prompts.empty()) store_conversations(kept);
    prompts_ = kept.prompts;
    std::filesystem::copy(kept.directory.path(), directory_.path(), std::filesystem::copy_options::recursive);
  }
  void store_conversations(Filled& kept) {
    WorldOptions there = options();
    there.disk_directory = kept.directory.path();
    World world(there);
    world.start();
    std::mt19937 random(seed() + 1);  // for texts that no test has
    const auto text = [&](std::size_t count) { return random_text(random, count); };
    const Tokens system = text(150);
    for (int talk = 0; talk < 3; ++talk) {
      Tokens tokens = system + text(60);
      for (int turn = 0; turn < 4; ++turn) {
        tokens = tokens + world.ask(tokens, 20).tokens + text(120);
        kept.prompts.push_back(tokens);
      }
      (void)world.ask(tokens, 1);
    }
    world.stop();
    world.cache.flush();
  }
  static void forge_all(const std::string& directory, const std::string& kind) {
    const auto files = files_of(directory, kind);
    ASSERT_FALSE(files.empty()) << kind;
    for (const auto& path : files) forge(path);
  }
  static Tokens random_text(std::mt19937& random, std::size_t count) {
    Tokens tokens(count);
    for (TokenId& token : tokens) token = static_cast<TokenId>(10 + random() % 900);
    return tokens;
  }
  Tokens text(std::size_t count) { return random_text(random_, count); }
  // The kinds of state that the class keeps, by the ends of the files' names.
  std::vector<std::string> kinds() const {
    switch (GetParam()) {
      case MemoryClass::kSliceable: return {".kvs"};
      case MemoryClass::kWindowed: return {".kvs", ".window.kvs"};
      case MemoryClass::kHybrid: return {".kvs", ".point.kvs"};
      default: return {".point.kvs"};
    }
  }

  const sim::TemporaryDirectory directory_;
  std::mt19937 random_{seed()};
  std::vector<Tokens> prompts_;
};

inline std::string audited_class_name(const testing::TestParamInfo<MemoryClass>& each) {
  return std::string(to_string(each.param));
}

}  // namespace kvkeep::server
