#pragma once

// Random histories of a server: a story is a list of steps; play() acts it out beside the twin and tells what was wrong
// first, or nothing.

#include <fmt/format.h>
#include <rapidcheck.h>

#include <functional>
#include <ostream>
#include <string>
#include <vector>

#include "server/run/history_talk_fixture.h"
#include "server/run/history_twin_fixture.h"

namespace kvkeep::server {

enum class Does {
  kNewTalk,
  kContinue,
  kBranch,
  kResend,
  kChangeMiddle,
  kDropThinking,
  kSideRequest,
  kUncached,
  kSeveral,
  kWrite,
  kRestart,
  kKill,
  kDamage,  // of files; from here on only in rough histories
  kFault,   // of the engine
};

// What a, b and c mean depends on the step; they are taken modulo what there is.
struct Step {
  Does does = Does::kNewTalk;
  std::uint32_t a = 0;
  std::uint32_t b = 0;
  std::uint32_t c = 0;
};
inline std::ostream& operator<<(std::ostream& out, const Step& step) {
  static constexpr const char* kNames[] = {"new_talk",      "continue", "branch",   "resend",  "change_middle",
                                           "drop_thinking", "side",     "uncached", "several", "write",
                                           "restart",       "kill",     "damage",   "fault"};
  return out << kNames[static_cast<int>(step.does)] << "(" << step.a << "," << step.b << "," << step.c << ")";
}

// The circumstances of a story, chosen small so that they shrink.
struct Setting {
  bool disk = true;
  bool small_cells = false;
  bool small_ram = false;
  bool small_disk = false;
  std::uint32_t parallel = 1;
  std::uint32_t sequences = 6;
  std::uint32_t batch = 512;
  bool frontiers = false;  // points at intervals
};
inline std::ostream& operator<<(std::ostream& out, const Setting& setting) {
  return out << fmt::format(
             "disk={:d} small_cells={:d} small_ram={:d} small_disk={:d} parallel={} sequences={} "
             "batch={} frontiers={:d}",
             setting.disk, setting.small_cells, setting.small_ram, setting.small_disk, setting.parallel,
             setting.sequences, setting.batch, setting.frontiers);
}

// Mistakes above the engine that a checker of histories must notice.
struct Mistakes {
  Bend bend = Bend::kNothing;
  bool ignores_cache_prompt = false;
  bool erases_later_points = false;  // after a restore, what was captured beyond it on other branches
  bool loses_points_at_restart = false;
  std::function<void(policy::CutOptions&)> cuts = [](policy::CutOptions&) {};  // other ones than promised
};

class Story {
 public:
  Story(engine::MemoryClass memory_class, const Setting& setting, Mistakes mistakes = {})
      : setting_(setting),
        mistakes_(std::move(mistakes)),
        cuts_(cut_options(setting)),
        world_(world_options(memory_class), mistakes_.bend),
        twin_(world_.engine->shape(), cuts_),
        calm_(!setting.small_ram && !setting.small_disk),
        exact_(!setting.frontiers) {}

  // Empty, or what was wrong.
  std::string play(const std::vector<Step>& steps) {
    for (const Step& step : steps) {
      act(step);
      if (!wrong_.empty()) return fmt::format("{} after {}", wrong_, rc::toString(step));
    }
    settle();
    return wrong_;
  }

 private:
  static policy::CutOptions cut_options(const Setting& setting) {
    policy::CutOptions cuts;
    if (setting.frontiers) cuts.continued_interval_tokens = 64;
    if (setting.frontiers) cuts.boundary_align_tokens = 16;
    return cuts;
  }
  HistoryWorld::Options world_options(engine::MemoryClass memory_class) const {
    HistoryWorld::Options options;
    options.fake.memory_class = memory_class;
    options.fake.cells = setting_.small_cells ? 700 : 8192;
    options.fake.sequences = setting_.sequences;
    options.fake.batch_tokens = setting_.batch;
    options.fake.first_sampled_token = kFirstTextToken;
    options.fake.window_tokens = 24;
    options.fake.row_bytes = 16;
    options.scheduler.parallel = setting_.parallel;
    options.scheduler.cuts = cuts_;
    mistakes_.cuts(options.scheduler.cuts);
    options.disk = setting_.disk;
    if (setting_.small_ram) options.ram = ByteCount{12'000};
    if (setting_.small_disk) options.disk_budget = ByteCount{30 * 8192};
    return options;
  }

  void act(const Step& step) {
    switch (step.does) {
      case Does::kWrite: return write(step);
      case Does::kRestart: return restart();
      case Does::kKill: return kill(step);
      case Does::kDamage: return damage(step);
      case Does::kFault: return fault(step);
      case Does::kSeveral: {
        std::vector<Ask> asked;
        for (std::uint32_t i = 0; i < 2 + step.a % 3; ++i) {
          const auto kind = static_cast<Does>((step.b >> (3 * i)) % 8);
          asked.push_back(request({kind, step.c + i, step.b + 3 * i, step.a + i}));
        }
        return ask(asked);
      }
      default: return ask({request(step)});
    }
  }

  // ---- requests ----

  Ask request(const Step& step) {
    asking_ = SIZE_MAX;
    if (step.does == Does::kSideRequest) {
      Talk side;
      side.system = text_.next(8 + step.a % 60);
      side.user(text_.next(4 + step.b % 8));
      return side.ask(1 + step.c % 6);
    }
    asking_ = talks_.empty() ? 0 : step.a % talks_.size();
    const bool fresh =
        talks_.empty() || step.does == Does::kNewTalk || talks_[asking_].size() > (setting_.small_cells ? 240 : 420);
    const bool goes_on = !fresh && (step.does == Does::kContinue || step.does == Does::kUncached);
    if (fresh) {
      talks_.push_back(new_talk(step));
    } else if (!goes_on) {
      talks_.push_back(changed(talks_[asking_], step));
    }
    if (!goes_on) asking_ = talks_.size() - 1;
    Talk& talk = talks_[asking_];
    if (goes_on || !talk.messages.back().user) talk.user(text_.next(1 + step.b % 50));
    // Longer ones grow into cells that nobody had counted.
    const bool grows = setting_.small_cells && step.c % 3 == 0;
    Ask asked = talk.ask(grows ? 380 + step.c % 24 : 1 + step.c % 24);
    asked.cache_prompt = step.does != Does::kUncached;
    return asked;
  }
  Talk new_talk(const Step& step) {
    while (systems_.size() < 4) systems_.push_back(text_.next(12 + 40 * systems_.size()));
    Talk talk;
    talk.system = systems_[step.a % systems_.size()];
    talk.user(text_.next(1 + step.b % 70));
    if (step.b % 3 == 0) talk.user(text_.next(40));
    return talk;
  }
  Talk changed(Talk talk, const Step& step) {
    const std::size_t message = step.b % talk.messages.size();
    const std::size_t at = step.c % (talk.messages[message].text.size() + 1);
    if (step.does == Does::kBranch) talk.branch(message, at, text_.next(1 + step.c % 40));
    if (step.does == Does::kChangeMiddle) talk.change(message, at, text_.next(1 + step.c % 5));
    if (step.does == Does::kDropThinking) talk.drop_thinking(1 + step.c % 6);
    if (step.does == Does::kResend && !talk.messages.back().user) talk.messages.pop_back();
    return talk;
  }

  void ask(const std::vector<Ask>& asked) {
    const std::uint64_t decoded_before = world_.engine->tokens_decoded();
    const std::uint64_t set_aside_before = world_.scheduler->stats().set_aside;
    std::vector<Ask> sent = asked;
    for (Ask& one : sent) one.cache_prompt = one.cache_prompt || mistakes_.ignores_cache_prompt;
    const std::vector<Reply> replies = world_.ask(sent);
    if (replies.size() < asked.size()) return complain("no reply came");
    const bool undisturbed = world_.scheduler->stats().set_aside == set_aside_before;
    exact_ = exact_ && undisturbed;
    std::uint64_t least_decoded = 0;
    std::uint64_t most_decoded = 0;
    for (std::size_t i = 0; i < asked.size(); ++i) {
      check_reply(asked[i], replies[i], asked, replies);
      check_accounts(replies[i], undisturbed);
      least_decoded += replies[i].stats.prefilled_tokens;
      most_decoded +=
          replies[i].stats.prefilled_tokens + replies[i].tokens.size() - (replies[i].tokens.empty() ? 0 : 1);
    }
    const std::uint64_t decoded = world_.engine->tokens_decoded() - decoded_before;
    const bool adds_up = undisturbed && calm_engine_ ? decoded == most_decoded : decoded >= least_decoded;
    if (!adds_up) complain(fmt::format("{} tokens were decoded, {} to {} told", decoded, least_decoded, most_decoded));
    for (std::size_t i = 0; i < asked.size(); ++i) twin_.note(asked[i], replies[i], calm_, exact_);
    if (asked.size() == 1 && asking_ != SIZE_MAX) answer(asked.front(), replies.front());
    if (mistakes_.erases_later_points) erase_later_points(replies.front());
  }
  // The conversation goes on with what was answered, if this was one.
  void answer(const Ask& asked, const Reply& reply) {
    Talk& talk = talks_[asking_];
    if (talk.messages.back().user && talk.ask(1).prompt == asked.prompt && reply.tokens.size() < 30)
      talk.assistant(reply.tokens);
  }

  // ---- what must hold ----

  void check_reply(const Ask& asked, const Reply& reply, const std::vector<Ask>& all,
                   const std::vector<Reply>& replies) {
    if (reply.finish == Finish::kError && !calm_engine_) return;
    if (reply.finish != Finish::kLength) return complain(fmt::format("ended as {}", to_string(reply.finish)));
    Tokens expected = world_.expected(asked);
    // A memory without cells, which a fault pretends, is the end of a context.
    if (!calm_engine_) expected.resize(std::min(expected.size(), reply.tokens.size()));
    if (reply.tokens != expected) return complain("the text is not what an undisturbed engine writes");
    const std::size_t reused = reply.stats.cached_tokens;
    if (!asked.cache_prompt) {
      if (reused > 0) complain("reuse although cache_prompt was false");
      return;
    }
    std::size_t most = twin_.most(asked.prompt);
    for (std::size_t i = 0; i < all.size(); ++i) {
      if (&all[i] == &asked || !all[i].cache_prompt) continue;
      const std::size_t shared = shared_tokens(all[i].prompt + replies[i].tokens, asked.prompt);
      most = std::max(most, std::min(shared, asked.prompt.size() - 1));
    }
    if (reused > most) complain(fmt::format("{} tokens reused, of which only {} were ever computed", reused, most));
    const std::size_t least = twin_.least(asked.prompt);
    if (calm_ && reused < least)
      complain(fmt::format("{} tokens reused, {} were promised ({} known, {} asked)", reused, least, most,
                           asked.prompt.size()));
  }
  void check_accounts(const Reply& reply, bool undisturbed) {
    const JobStats& stats = reply.stats;
    if (reply.finish == Finish::kError) return;
    if (stats.memory_tokens + stats.ram_tokens + stats.disk_tokens != stats.cached_tokens)
      complain(fmt::format("{} tokens cached, but {} in memory, {} in RAM, {} on disk", stats.cached_tokens,
                           stats.memory_tokens, stats.ram_tokens, stats.disk_tokens));
    // A request that was interrupted may find more when it goes on than when it began.
    if (undisturbed && calm_engine_ && stats.cached_tokens + stats.prefilled_tokens != stats.prompt_tokens)
      complain(fmt::format("{} cached + {} prefilled of {}", stats.cached_tokens, stats.prefilled_tokens,
                           stats.prompt_tokens));
  }
  void complain(const std::string& what) {
    if (wrong_.empty()) wrong_ = what;
  }

  // ---- what happens to the server ----

  void write(const Step& step) {
    if (step.a % 3 != 0) {
      for (std::uint32_t left = step.b % 8; left > 0; --left) world_.writer.run_one();
    } else {
      world_.writer.run_all();
      twin_.everything_is_written();
    }
  }
  void restart() {
    world_.restart();
    twin_.everything_is_written();
    lose_unwritten();
  }
  void kill(const Step& step) {
    world_.die(step.a % 2 == 0);
    lose_unwritten();
    exact_ = false;  // some of what was not promised may be there
  }
  void lose_unwritten() {
    if (mistakes_.loses_points_at_restart) {
      for (const format::PartKind kind :
           {format::PartKind::kPoint, format::PartKind::kWhole, format::PartKind::kWindowRows}) {
        for (const std::string& path : world_.segment_paths(kind)) (void)world_.files.remove(path).ok();
      }
      world_.restart();
    }
    setting_.disk ? twin_.forget_unwritten() : twin_.forget_everything();
    calm_engine_ = true;
  }
  void damage(const Step& step) {
    const std::vector<std::string> paths = world_.segment_paths();
    if (paths.empty()) return;
    lose_calm();
    const std::string& path = paths[step.a % paths.size()];
    std::vector<std::byte> bytes = *world_.files.contents(path);
    switch (step.b % 4) {
      case 0:
        if (!bytes.empty()) bytes[step.c * 31 % bytes.size()] ^= std::byte{4};
        return world_.files.plant(path, bytes);
      case 1: bytes.resize(bytes.size() * (step.c % 8) / 8); return world_.files.plant(path, bytes);
      case 2: return world_.files.plant(path, *world_.files.contents(paths[step.c % paths.size()]));
      default: (void)world_.files.remove(path).ok();
    }
  }
  void fault(const Step& step) {
    lose_calm();
    calm_engine_ = false;
    engine::fake::FakeFaults faults;
    std::uint32_t* const kinds[] = {&faults.fail_decode, &faults.no_cells_decode, &faults.fail_save,
                                    &faults.fail_restore, &faults.fail_point};
    *kinds[step.a % std::size(kinds)] = 1 + step.b % 4;
    world_.engine->fake.set_faults(faults);
  }
  void lose_calm() {
    twin_.forget_promises();
    calm_ = exact_ = false;
  }
  // When faults stop, all works again, be it after a restart: what is asked twice is found.
  void settle() {
    if (!wrong_.empty() || setting_.small_ram || setting_.small_disk) return;
    if (setting_.disk) restart();
    world_.engine->fake.set_faults({});
    calm_engine_ = true;
    twin_.forget_promises();
    const Step last{Does::kNewTalk, 1, 20, 3};
    const Ask asked = request(last);
    for (int i = 0; i < 3 && wrong_.empty(); ++i) {
      calm_ = true;
      exact_ = false;
      ask({asked});
    }
  }
  void erase_later_points(const Reply& reply) {
    for (const Talk& talk : talks_) {
      const auto lease = world_.cache->lease(talk.ask(1).prompt);
      for (const cache::LeasedPoint& point : lease->points()) {
        if (point.range.end.value() > reply.stats.cached_tokens && reply.stats.cached_tokens > 0)
          world_.cache->report_damaged(point.id);
      }
    }
  }

  const Setting setting_;
  const Mistakes mistakes_;
  const policy::CutOptions cuts_;
  HistoryWorld world_;
  Twin twin_;
  TextSource text_;
  std::vector<Tokens> systems_;
  std::vector<Talk> talks_;
  std::size_t asking_ = 0;   // the talk of the last request
  bool calm_;                // nothing was lost: promises hold
  bool calm_engine_ = true;  // the engine does not fail
  bool exact_;               // the twin knows of all points
  std::string wrong_;
};

}  // namespace kvkeep::server
