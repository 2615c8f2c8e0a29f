#pragma once

// The cache in a random story, step by step, next to a naive map of what must and what may be known, which complains as
// soon as the two differ.

#include <algorithm>
#include <functional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "cache/cache_scenario_fixture.h"
#include "testing/sim/seeded_executor.h"

namespace kvkeep::cache {

inline std::size_t shared_length(const Tokens& a, const Tokens& b) {
  const auto [in_a, in_b] = std::ranges::mismatch(a, b);
  return static_cast<std::size_t>(in_a - a.begin());
}

// Every sequence that was kept whole, with the leaves at its end.
class NaiveMap {
 public:
  explicit NaiveMap(const StateShape& shape) : shape_(shape) {}

  void add(const Tokens& tokens) { kept_.insert(tokens); }
  void clear() { kept_.clear(); }

  std::size_t known(const Tokens& prompt) const {
    std::size_t longest = 0;
    for (const Tokens& tokens : kept_) longest = std::max(longest, shared_length(tokens, prompt));
    return longest;
  }
  bool restorable(const Tokens& prompt, std::size_t at) const {
    if (shape_.window_tokens == 0) return kept_.contains(head(prompt, at));
    for (std::size_t end = at; end > 0 && end + shape_.window_tokens > at; --end) {
      if (!has_window_row(prompt, end)) return false;
    }
    return true;
  }

 private:
  // For the token before `end`: sequences have window rows of their last tokens.
  bool has_window_row(const Tokens& prompt, std::size_t end) const {
    return std::ranges::any_of(kept_, [&](const Tokens& tokens) {
      return shared_length(tokens, prompt) >= end && end + shape_.window_tokens > tokens.size();
    });
  }

  StateShape shape_;
  std::set<Tokens> kept_;
};

// The events that a story may have.
struct StoryKind {
  const char* name = "Ample";
  bool tight = false;   // both budgets are small: things leave
  bool faults = false;  // the disk fails, files are damaged
  bool shaky = false;   // below the disk is a tier that loses, delays and refuses
};
inline constexpr StoryKind kAmple{};
inline constexpr StoryKind kTight{"Tight", true, false};
inline constexpr StoryKind kFaulty{"Faulty", true, true};
inline constexpr StoryKind kAmpleShaky{"AmpleShaky", false, false, true};
inline constexpr StoryKind kTightShaky{"TightShaky", true, false, true};
inline constexpr StoryKind kFaultyShaky{"FaultyShaky", true, true, true};

class Story {
 public:
  Story(const ModelClass& model, const StoryKind& kind, std::uint64_t seed)
      : kind_(kind),
        files_(seed),
        world_(files_, ByteCount{kind.tight || seed % 2 == 0 ? 2500U : 100'000U}, disk_budget_of(kind)),
        background_({&world_.writer, &world_.reader, &world_.far_writer, &world_.far_reader}, seed),
        must_(model.shape),
        durable_(model.shape),
        may_(model.shape) {
    world_.model = model;
    // Either it is full itself, or it has what had to leave the disk.
    if (kind.shaky) world_.shaky = std::make_unique<ShakyTier>(seed, kind.tight ? mebibytes(64) : ByteCount{30'000});
    world_.wait_for_reader = [this] {
      while (world_.reader.waiting() + world_.far_reader.waiting() > 0) background_.run_one();
    };
    reopen();
  }
  ~Story() { held_.clear(); }

  // ---- what happens ----
  void keep(const Tokens& tokens, std::size_t piece) {
    may_.add(tokens);
    const bool kept = world_.keep(tokens, piece);
    if (kept) must_.add(tokens);
    if (!kept && sure()) complain("refused though there is room");
  }
  void look(const Tokens& prompt) {
    const std::size_t known = world_.check(prompt);
    if (known > may_.known(prompt)) complain("more is known than was ever kept");
    if (sure() && known < must_.known(prompt)) complain("forgotten though there is room");
    if (world_.model.shape.needs_points()) compare_restorable(prompt);
  }
  void hold(const Tokens& prompt) {
    if (held_.size() == kMostHeld) release();
    held_.emplace_back(prompt, world_.cache->lease(prompt));
  }
  // A held path can be read, whatever came meanwhile.
  void release() {
    if (held_.empty()) return;
    const auto [prompt, lease] = std::move(held_.front());
    held_.erase(held_.begin());
    // Segments that only the third tier had may be gone.
    if (!world_.loads(lease, prompt) && !disturbed_ && !kind_.shaky) complain("what was held left");
  }
  void work(std::size_t tasks) { background_.run(tasks); }
  void flush() {
    world_.cache->flush();
    if (disturbed_) return;
    durable_ = must_;
  }
  void end(bool power_cut) {
    end_process(power_cut);
    const std::size_t files = world_.segment_files().size();
    reopen();
    if (!disturbed_ && !power_cut && world_.segment_files().size() != files) complain("a hole in what was written");
  }
  void change_budget(std::size_t share) {
    if (!kind_.tight) return;
    world_.disk_budget = ByteCount{(kind_.shaky ? 10 + share % 6 : 16 + share % 40) * 8192};
    end_process(false);
    reopen();
    if (!disturbed_ && world_.store->used() > world_.disk_budget) complain("the smaller budget does not hold");
  }
  void tick(std::size_t minutes) { world_.clock.advance_ms(static_cast<std::int64_t>(minutes) * 60'000); }
  void keep_for(const Tokens& tokens, std::size_t minutes) {
    const Track track = world_.cache->track(tokens);
    world_.cache->keep(track, static_cast<std::int64_t>(minutes) * 60'000'000'000);
  }
  void fault(std::size_t which, std::size_t at_operation) {
    if (!kind_.faults) return;
    const sim::Fault& chosen = sim::kFaults[which % std::size(sim::kFaults)];
    files_.set_plan({chosen.kind, at_operation, chosen.of});
    disturbed_ = true;
  }
  void heal() {
    files_.heal();
    world_.clock.advance_ms(16'000);  // a disk that was full is tried again within that time
  }
  void damage(std::size_t which, std::size_t byte) {
    const std::vector<std::string> all = world_.segment_files();
    if (!kind_.faults || all.empty()) return;
    const std::string& path = all[which % all.size()];
    std::vector<std::byte> bytes = *files_.contents(path);
    bytes[byte * 37 % bytes.size()] ^= std::byte{4};
    files_.plant(path, std::move(bytes));
    disturbed_ = true;
  }
  // After each step.
  void settle() {
    if (files_.crashed()) end(true);
    if (files_.physical_bytes() > world_.disk_budget.value() && world_.writer.waiting() == 0 && !disturbed_)
      complain("more on disk than the budget");
    if (world_.store->used() < ByteCount{files_.physical_bytes()}) complain("more on disk than is counted");
  }
  // At the end of each story: when faults have stopped, new segments are kept, over a power cut.
  void finish() {
    files_.heal();
    end(true);
    const Tokens fresh(64, TokenId{1000});
    if (!world_.keep(fresh)) complain("a new conversation is refused");
    world_.cache->flush();
    end(true);
    if (world_.check(fresh) != fresh.size()) complain("a new conversation is lost");
  }

  ShakyTier* shaky() { return world_.shaky.get(); }

  const std::vector<std::string>& complaints() const { return complaints_; }
  void complain(std::string what) { complaints_.push_back(std::move(what)); }

 private:
  static constexpr std::size_t kMostHeld = 3;
  // Above a third tier more must leave the disk, so that it is read from.
  static ByteCount disk_budget_of(const StoryKind& kind) {
    if (!kind.tight) return mebibytes(64);
    return ByteCount{(kind.shaky ? 12U : 30U) * 8192U};
  }

  // Returns true if the map knows exactly what the cache must know.
  bool sure() const { return !kind_.tight && !disturbed_; }
  void end_process(bool power_cut) {
    held_.clear();
    world_.die();
    if (power_cut) {
      files_.power_cut();
    } else {
      files_.kill();
    }
    must_ = durable_;
  }
  void reopen() {
    if (world_.open()) return;
    if (!disturbed_) complain("cannot be opened");
    files_.heal();
    if (files_.crashed()) files_.power_cut();
    if (!world_.open()) complain("cannot be opened after faults stopped");
  }
  void compare_restorable(const Tokens& prompt) {
    const std::vector<std::size_t> found = world_.restorable(prompt);
    for (const std::size_t at : found) {
      if (!may_.restorable(prompt, at)) complain("restorable where nothing was kept");
    }
    for (std::size_t at = 1; at <= prompt.size() && sure(); ++at) {
      if (must_.restorable(prompt, at) && !std::ranges::binary_search(found, at))
        complain("a restorable position is forgotten");
    }
  }

  const StoryKind kind_;
  sim::SimFileSystem files_;
  World world_;
  sim::SeededExecutor background_;
  NaiveMap must_;     // what must be known, where sure() says so
  NaiveMap durable_;  // of that: what survives the end of the process
  NaiveMap may_;      // everything that was ever offered
  bool disturbed_ = false;
  std::vector<std::pair<Tokens, std::shared_ptr<Lease>>> held_;
  std::vector<std::string> complaints_;
};

}  // namespace kvkeep::cache
