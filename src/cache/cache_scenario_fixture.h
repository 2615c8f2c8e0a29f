#pragma once

// A process with a cache under faults, and the laws that it must keep (docs/fault-model.md). Failures of the fixture's
// comparisons are collected as broken laws, so that each is reported with the fault that shows it.

#include <gtest/gtest-spi.h>
#include <spdlog/spdlog.h>

#include <memory>
#include <string>
#include <utility>

#include "cache/cache_test_fixture.h"
#include "testing/sim/fault_loop.h"

namespace kvkeep::cache {

using sim::FaultCase;

// Logging thousands of failing disks would take most of the time.
class Quiet {
 public:
  Quiet() : before_(spdlog::get_level()) { spdlog::set_level(spdlog::level::off); }
  ~Quiet() { spdlog::set_level(before_); }
  Quiet(const Quiet&) = delete;
  Quiet& operator=(const Quiet&) = delete;

 private:
  const spdlog::level::level_enum before_;
};

// Messages of expectations that failed within `step`; none of them reaches the test.
template <typename Step>
std::vector<std::string> complaints_of(Step step) {
  testing::TestPartResultArray failures;
  {
    const testing::ScopedFakeTestPartResultReporter reporter(
        testing::ScopedFakeTestPartResultReporter::INTERCEPT_ONLY_CURRENT_THREAD, &failures);
    step();
  }
  std::vector<std::string> found;
  for (int i = 0; i < failures.size(); ++i) found.emplace_back(failures.GetTestPartResult(i).message());
  return found;
}

inline constexpr ByteCount kScenarioBudget{24 * 8192};
inline constexpr ByteCount kScenarioRam{1200};  // most must be read from disk

// Store, continue, branch, evict while a path is held, hit, restart, continue.
class CacheScenario final : public sim::FaultScenario {
 public:
  CacheScenario(const ModelClass& model, sim::SimFileSystem& files, const FaultCase& fault, bool shaky = false)
      : fault_(fault), files_(files), world_(files, kScenarioRam, kScenarioBudget) {
    world_.model = model;
    if (shaky) world_.shaky = std::make_unique<ShakyTier>(1);
    files_.set_observer([this] { check_budget(); });
    files_.set_pace(world_.clock, {.operation_ns = 20'000, .byte_ns = 1});
  }
  ~CacheScenario() override { files_.set_observer(nullptr); }

  void prepare() override {}
  void run() override {
    watch([this] { store_and_push_out(); });
  }
  void run_again() override {
    watch([this] {
      if (world_.open()) continue_and_store();
    });
  }
  void go_on() override {
    world_.clock.advance_ms(16'000);  // a disk that was full is tried again within that time
    watch([this] {
      if (world_.cache == nullptr && !world_.open()) return broken("law 5: cannot be opened after faults stopped");
      look(a_);
      keeps_a_new_one(conversation(800 + 1000 * ++healed_, 64), "after faults stopped");
    });
  }
  void die() override {
    held_.reset();
    world_.die();
  }
  void recover() override {
    watch([this] { check_recovered(); });
  }

 private:
  template <typename Step>
  void watch(Step step) {
    for (std::string& complaint : complaints_of(step)) broken("law 1: " + std::move(complaint));
  }

  // Loads and compares everything that is there of a prompt; returns how long the rows are.
  std::size_t look(const Tokens& prompt) {
    const std::size_t known = world_.check(prompt);
    if (world_.model.shape.needs_points()) (void)world_.restorable(prompt);
    return known;
  }
  bool disturbed() const { return files_.fault_fired() && fault_.first.fault.kind != FaultKind::kSlow; }

  void store_and_push_out() {
    const Tokens b = conversation(1, 40) + conversation(50, 40);
    if (!world_.open()) return;
    world_.keep(head(a_, 40));
    world_.keep(a_);
    world_.writer.run_all();
    if (look(a_) != a_.size() && !disturbed()) broken("law 5: forgotten though there is room");
    world_.keep(b);
    world_.writer.run_one();
    held_ = world_.cache->lease(a_);
    world_.writer.run_all();
    for (TokenId i = 2; i < 6; ++i) {
      world_.keep(conversation(i * 100, 64));
      world_.writer.run_all();
    }
    check_held();
    look(b);
    world_.keep(head(short_, 7));  // too short for a file: what continues it takes it along
    world_.writer.run_all();
    world_.keep(short_);
    world_.writer.run_all();
    world_.cache->flush();
    if (files_.crashed()) return;
    world_.die();
    world_.files.kill();
    if (!world_.open()) return;
    if (!is_whole(short_) && !disturbed()) broken("law 3: what was just written is lost");
    continue_and_store();
  }

  // Held paths stay, whatever comes.
  void check_held() {
    const bool whole = world_.loads(held_, a_) || world_.shaky != nullptr;
    if (!whole && !disturbed()) broken("law 5: what was held left");
    held_.reset();
  }

  void continue_and_store() {
    look(a_);
    world_.keep(a_ + conversation(70, 32));
    world_.writer.run_all();
    look(a_ + conversation(70, 32));
    world_.keep(conversation(700, 64));
    world_.writer.run_all();
    world_.cache->flush();
  }

  // Law 4, after each operation.
  void check_budget() {
    if (files_.physical_bytes() > kScenarioBudget.value()) broken("law 4: more on disk than the budget");
  }

  void check_recovered() {
    const std::size_t before = world_.segment_files().size();
    if (!world_.open()) return broken("law 2: cannot be opened");
    // After kills without other faults every file on disk has its parent.
    const bool only_died = fault_.only_kills() && dies(fault_.first) && (!fault_.second || dies(*fault_.second));
    if (only_died && world_.segment_files().size() != before) broken("law 3: a hole in what was written");
    look(a_ + conversation(70, 32));
    look(conversation(1, 40) + conversation(50, 40));
    for (TokenId i = 2; i < 6; ++i) look(conversation(i * 100, 64));
    world_.writer.run_all();
    if (world_.store->used() > kScenarioBudget) broken("law 4: more is counted than the budget");
    const Tokens fresh = conversation(900, 64);
    keeps_a_new_one(fresh, "in the next process");
    world_.cache->flush();
    world_.die();
    world_.files.power_cut();
    if (!world_.open()) return broken("law 2: cannot be opened a second time");
    if (!is_whole(fresh)) broken("law 5: a new conversation is lost over a power cut");
  }
  static bool dies(const sim::FaultyRun& run) {
    return run.fault.kind == FaultKind::kCrash || run.fault.kind == FaultKind::kSlow;
  }

  void keeps_a_new_one(const Tokens& fresh, const char* when) {
    const bool kept = world_.keep(fresh);
    world_.writer.run_all();
    if (!kept) return broken(std::string("law 5: a new conversation is refused ").append(when));
    if (!is_whole(fresh)) broken(std::string("law 5: a new conversation is lost ").append(when));
  }
  bool is_whole(const Tokens& fresh) {
    if (world_.check(fresh) != fresh.size()) return false;
    if (!world_.model.shape.needs_points()) return true;
    const std::vector<std::size_t> restorable = world_.restorable(fresh);
    return !restorable.empty() && restorable.back() == fresh.size();
  }

  const FaultCase fault_;
  sim::SimFileSystem& files_;
  const Tokens a_ = conversation(1, 96);
  const Tokens short_ = conversation(600, 24);
  World world_;
  std::shared_ptr<Lease> held_;
  TokenId healed_ = 0;  // times
};

}  // namespace kvkeep::cache
