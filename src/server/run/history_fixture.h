#pragma once

// Random histories of a server: a story is a list of steps; play() carries it out next to the twin and returns the
// first fault, or "".

#include <fmt/format.h>
#include <rapidcheck.h>

#include <string>
#include <vector>

#include "server/run/history_setting_fixture.h"
#include "server/run/history_twin_fixture.h"

namespace kvkeep::server {

class Story {
 public:
  Story(engine::MemoryClass memory_class, const Setting& setting, Mistakes mistakes = {})
      : setting_(setting),
        mistakes_(std::move(mistakes)),
        cuts_(cut_options(setting)),
        world_(world_options(memory_class), mistakes_.bend),
        twin_(world_.engine->memory().shape(), cuts_),
        loads_(setting.loads, world_.engine->memory().rows_bytes(1) > 0,
               world_.engine->memory().shape().needs_points()),
        calm_(!setting.small_ram && !setting.small_disk),
        exact_(!setting.frontiers) {}

  // Returns the first fault, or "".
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
    if (setting.most_points > 0) cuts.most_points = setting.most_points;
    cuts.least_step_tokens = setting.least_step;
    return cuts;
  }
  HistoryWorld::Options world_options(engine::MemoryClass memory_class) const {
    HistoryWorld::Options options;
    options.fake.memory_class = memory_class;
    options.fake.cells = setting_.small_cells ? 700 : 8192;
    options.fake.sequences = setting_.sequences;
    options.fake.own_cells = setting_.own_cells;
    if (setting_.own_cells) options.fake.cells *= setting_.sequences;
    options.fake.batch_tokens = setting_.batch;
    options.fake.first_sampled_token = kFirstTextToken;
    options.fake.window_tokens = 24;
    options.fake.row_bytes = 16;
    options.scheduler.parallel = setting_.parallel;
    if (setting_.joint) options.scheduler.decode_with_prefill = policy::DecodeWithPrefill::kTogether;
    options.scheduler.cuts = cuts_;
    mistakes_.cuts(options.scheduler.cuts);
    options.disk = setting_.disk;
    if (setting_.small_ram) options.ram = ByteCount{12'000};
    if (setting_.small_disk) options.disk_budget = ByteCount{30 * 8192};
    if (setting_.text) options.scheduler.texts = &history_texts();
    if (setting_.loads != Loads::kAlways) options.restore = policy::RestoreMode::kAuto;
    options.prefill_ms_per_token = kPrefillMsPerToken;
    if (setting_.loads == Loads::kAutoSlow) options.load_ms_per_byte = kSlowLoadMsPerByte;
    mistakes_.world(options);
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
    // Longer ones grow into cells that no plan counted.
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
    // The same text in other ids, which the model never sampled.
    if (setting_.text && step.does == Does::kResend && step.c % 4 == 0) {
      for (Message& each : talk.messages) each.text = retokenized(each.text);
    }
    return talk;
  }

  void ask(const std::vector<Ask>& asked) {
    const std::uint64_t decoded_before = world_.engine->tokens_decoded();
    const std::uint64_t set_aside_before = world_.scheduler->stats().set_aside;
    std::vector<Ask> sent = asked;
    for (Ask& one : sent) one.cache_prompt = one.cache_prompt || mistakes_.ignores_cache_prompt;
    std::vector<Reply> replies = world_.ask(sent);
    if (replies.size() < asked.size()) return complain("no reply came");
    for (Reply& reply : replies) mistakes_.stats(reply.stats);
    const std::vector<Evaluated> evaluated = find_evaluated(asked, replies);
    const bool undisturbed = world_.scheduler->stats().set_aside == set_aside_before;
    std::vector<Ask> as;
    for (const Evaluated& each : evaluated) as.push_back(each.as);
    exact_ = exact_ && undisturbed && (setting_.parallel == 1 || !any_meets_a_reply(as, replies));
    std::uint64_t least_decoded = 0;
    std::uint64_t most_decoded = 0;
    loads_.begin_requests(static_cast<std::size_t>(std::ranges::count_if(
        replies, [](const Reply& reply) { return reply.stats.miss == MissReason::kLoadTooSlow; })));
    for (std::size_t i = 0; i < asked.size(); ++i) {
      check_reply(i, evaluated, replies);
      check_accounts(replies[i], undisturbed);
      check_load(i, evaluated, replies, undisturbed && calm_engine_);
      least_decoded += replies[i].stats.prefilled_tokens;
      most_decoded +=
          replies[i].stats.prefilled_tokens + replies[i].tokens.size() - (replies[i].tokens.empty() ? 0 : 1);
    }
    loads_.end_of_requests();
    const std::uint64_t decoded = world_.engine->tokens_decoded() - decoded_before;
    const bool adds_up = undisturbed && calm_engine_ ? decoded == most_decoded : decoded >= least_decoded;
    if (!adds_up) complain(fmt::format("{} tokens were decoded, {} to {} told", decoded, least_decoded, most_decoded));
    for (std::size_t i = 0; i < asked.size(); ++i) {
      if (setting_.text && replies[i].finish == Finish::kError) twin_.note_failed(asked[i], replies[i]);
      twin_.note(evaluated[i].as, replies[i], calm_, exact_, evaluated[i].sampled);
    }
    if (asked.size() == 1 && undisturbed && calm_engine_) check_limit(evaluated.front().as);
    if (asked.size() == 1 && asking_ != SIZE_MAX) answer(asked.front(), replies.front());
    if (mistakes_.erases_later_points) erase_later_points(replies.front());
  }
  // If this was a conversation, its next prompt contains the reply.
  void answer(const Ask& asked, const Reply& reply) {
    Talk& talk = talks_[asking_];
    if (talk.messages.back().user && talk.ask(1).prompt == asked.prompt && reply.tokens.size() < 30)
      talk.assistant(setting_.text ? retokenized(reply.tokens) : reply.tokens);
  }
  // A request with the ids that the server evaluated for it.
  struct Evaluated {
    Ask as;
    std::vector<bool> sampled;  // which ids of the prompt this server sampled
    bool is_text = false;       // some of the reused ids are not the prompt's own
  };
  std::vector<Evaluated> find_evaluated(const std::vector<Ask>& asked, const std::vector<Reply>& replies) {
    std::vector<Evaluated> all;
    std::vector<Computed> earlier;  // state that these requests compute for each other
    for (std::size_t i = 0; i < asked.size(); ++i) {
      all.push_back(evaluated(asked[i], replies[i], earlier));
      if (asked[i].cache_prompt) earlier.push_back(Twin::computed(all.back().as, replies[i], all.back().sampled));
    }
    return all;
  }
  Evaluated evaluated(const Ask& asked, const Reply& reply, const std::vector<Computed>& earlier) {
    if (!setting_.text || !asked.cache_prompt || reply.finish == Finish::kError) return {asked, {}};
    const std::size_t most =
        std::max<std::size_t>(asked.prompt.size(), world_.engine->description().context_tokens - 1);
    const Effective* best = nullptr;
    std::vector<Effective> all = twin_.effective(asked.prompt, earlier);
    const bool fit = std::ranges::all_of(all, [most](const Effective& e) { return e.all.tokens.size() <= most; });
    if (!fit) all.push_back({{asked.prompt, {}}, 0});
    for (const Effective& each : all) {
      if (each.all.tokens.size() != reply.stats.prompt_tokens || (best != nullptr && best->matched >= each.matched))
        continue;
      const Ask as = asked_as(asked, each.all.tokens);
      if (shared_tokens(reply.tokens, world_.expected(as)) == reply.tokens.size()) best = &each;
    }
    if (best == nullptr) {
      complain("the text follows no prompt that known ids make, as long as they are promised to match");
      return {asked, {}};
    }
    const std::size_t same = shared_tokens(best->all.tokens, asked.prompt);
    return {asked_as(asked, best->all.tokens), best->all.sampled, same < reply.stats.cached_tokens};
  }

  // ---- laws ----

  void check_reply(std::size_t index, const std::vector<Evaluated>& all, const std::vector<Reply>& replies) {
    const Ask& asked = all[index].as;
    const Reply& reply = replies[index];
    if (reply.finish == Finish::kError && !calm_engine_) return;
    if (reply.finish != Finish::kLength) return complain(fmt::format("ended as {}", to_string(reply.finish)));
    Tokens expected = world_.expected(asked);
    // A memory without cells, which a fault pretends, ends the reply like the end of a context.
    if (!calm_engine_) expected.resize(std::min(expected.size(), reply.tokens.size()));
    if (reply.tokens != expected) return complain("the text is not what an undisturbed engine writes");
    const std::size_t reused = reply.stats.cached_tokens;
    if (!asked.cache_prompt) {
      if (reused > 0) complain("reuse although cache_prompt was false");
      return;
    }
    const std::size_t most = most_known(index, all, replies);
    if (reused > most) complain(fmt::format("{} tokens reused, of which only {} were ever computed", reused, most));
    if ((as_text(reply.stats.source) == reply.stats.source) != (all[index].is_text || reused == 0))
      complain(fmt::format("the source is called {}", to_string(reply.stats.source)));
    const std::size_t least = least_promised(index, all);
    if (calm_ && reused < least && reply.stats.miss != MissReason::kLoadTooSlow)
      complain(fmt::format("{} tokens reused, {} were promised ({} known, {} asked)", reused, least, most,
                           asked.prompt.size()));
  }
  void check_accounts(const Reply& reply, bool undisturbed) {
    const JobStats& stats = reply.stats;
    if (reply.finish == Finish::kError) return;
    if (stats.memory_tokens + stats.ram_tokens + stats.disk_tokens != stats.cached_tokens)
      complain(fmt::format("{} tokens cached, but {} in memory, {} in RAM, {} on disk", stats.cached_tokens,
                           stats.memory_tokens, stats.ram_tokens, stats.disk_tokens));
    // A request that was interrupted may find more when it resumes than when it began.
    if (undisturbed && calm_engine_ && stats.cached_tokens + stats.prefilled_tokens != stats.prompt_tokens)
      complain(fmt::format("{} cached + {} prefilled of {}", stats.cached_tokens, stats.prefilled_tokens,
                           stats.prompt_tokens));
  }
  // Requests that are sent together share the prefixes that they compute.
  std::size_t most_known(std::size_t index, const std::vector<Evaluated>& all,
                         const std::vector<Reply>& replies) const {
    const Tokens& prompt = all[index].as.prompt;
    std::size_t most = twin_.most(prompt);
    for (std::size_t i = 0; i < all.size(); ++i) {
      if (i == index || !all[i].as.cache_prompt) continue;
      const std::size_t shared = shared_tokens(all[i].as.prompt + replies[i].tokens, prompt);
      most = std::max(most, std::min(shared, prompt.size() - 1));
    }
    return most;
  }
  // Under a limit of points, requests may push out each other's.
  std::size_t least_promised(std::size_t index, const std::vector<Evaluated>& all) const {
    if (setting_.most_points == 0 || all.size() == 1) return twin_.least(all[index].as.prompt);
    Twin left = twin_;
    for (std::size_t i = 0; i < all.size(); ++i) {
      if (i != index) left.forget_points_on(all[i].as.prompt);
    }
    return left.least(all[index].as.prompt);
  }
  void check_load(std::size_t index, const std::vector<Evaluated>& all, const std::vector<Reply>& replies,
                  bool undisturbed) {
    if (replies[index].finish == Finish::kError) return loads_.forget();
    const std::string wrong = loads_.look(replies[index].stats, undisturbed, most_known(index, all, replies));
    if (!wrong.empty()) complain(wrong);
  }
  // Points at the end of a reply, even one that ends with the prompt, are not counted. Windows that lie side by side
  // are no points, and whole states that others are built on stay.
  void check_limit(const Ask& asked) {
    const cache::StateShape shape = world_.engine->memory().shape();
    if (setting_.most_points == 0 || shape.window_tokens > 0 || shape.whole_points || !asked.cache_prompt) return;
    const auto lease = world_.cache->lease(asked.prompt);
    const auto count =
        static_cast<std::size_t>(std::ranges::count_if(lease->points(), [&](const cache::LeasedPoint& point) {
          return point.range.end.value() < asked.prompt.size();
        }));
    if (count > setting_.most_points)
      complain(fmt::format("{} points on one path, {} are allowed", count, setting_.most_points));
  }
  void complain(const std::string& what) {
    if (wrong_.empty()) wrong_ = what;
  }

  // ---- events of the server ----

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
    exact_ = false;  // some state that was not promised may be there
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
    loads_.forget();
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
    std::uint32_t* const kinds[] = {&faults.fail_decode,  &faults.no_cells_decode, &faults.fail_save,
                                    &faults.fail_restore, &faults.fail_point,      &faults.bad_logits};
    *kinds[step.a % std::size(kinds)] = 1 + step.b % 4;
    world_.engine->fake.set_faults(faults);
  }
  void lose_calm() {
    twin_.forget_promises();
    calm_ = exact_ = false;
  }
  // After the last fault everything works again, even after a restart: a prompt that is sent twice is found.
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
  LoadWatch loads_;
  TextSource text_;
  std::vector<Tokens> systems_;
  std::vector<Talk> talks_;
  std::size_t asking_ = 0;   // the talk of the last request
  bool calm_;                // nothing was lost: promises hold
  bool calm_engine_ = true;  // the engine does not fail
  bool exact_;               // the twin knows all points
  std::string wrong_;
};

}  // namespace kvkeep::server
