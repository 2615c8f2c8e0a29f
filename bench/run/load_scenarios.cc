#include "bench/run/load_scenarios.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <utility>

#include "bench/run/crowd.h"
#include "bench/run/stream_times.h"
#include "bench/sessions/ideal.h"
#include "bench/sessions/json_fields.h"
#include "os/clock.h"
#include "os/threads.h"

namespace kvkeep::bench {
namespace {

constexpr std::size_t kTogether = 8;

Error not_measured(const LoadedServer& server, std::string_view why) {
  return unsupported(fmt::format("{}, {}: {}", server.process.name(), server.label, why));
}

double ms_between(std::int64_t from_ns, std::int64_t to_ns) { return static_cast<double>(to_ns - from_ns) / 1e6; }

// Asks by itself, and returns the reply.
Result<Exchange> ask(LoadedServer& server, const Json& messages, std::uint32_t reply_tokens) {
  Exchange reply = server.client.chat(messages, reply_tokens);
  TRY(server.interrupt.check());
  if (!reply.answered()) return not_measured(server, reply.failure());
  return reply;
}

Result<Json> new_prompt(LoadedServer& server, const std::string& what, std::size_t tokens) {
  TRY_ASSIGN(const std::string text, server.client.text(fmt::format("{} {}", what, server.label), tokens));
  return one_message(text);
}

// ---- streams together ----

// Prefilled before, so that all streams decode from their first moment on.
Result<double> rate_of(LoadedServer& server, const std::vector<Json>& prompts) {
  for (const Json& prompt : prompts) TRY(ask(server, prompt, 1));
  Crowd crowd(server.process.base_url(), prompts.size(), server.interrupt);
  std::vector<Streamed*> streams;
  for (const Json& prompt : prompts) {
    streams.push_back(&crowd.ask(prompt, {.reply_tokens = server.sizes.stream_tokens, .whole_length = true}));
  }
  crowd.wait();
  TRY(crowd.answered());
  std::vector<StreamTimes> times;
  for (const Streamed* stream : streams) times.push_back(stream->times());
  const auto rate = rate_together(times);
  if (!rate) return not_measured(server, "the streams did not run at the same time");
  return *rate;
}

Result<LoadRun> streams_of(LoadedServer& server, std::size_t count, std::size_t tokens) {
  std::vector<Json> prompts;
  for (std::size_t i = 0; i < count; ++i) {
    TRY_ASSIGN(prompts.emplace_back(), new_prompt(server, fmt::format("stream {}", i), tokens));
  }
  const std::string name =
      fmt::format("{} stream{} after {} tokens{}", count, count == 1 ? "" : "s", tokens, count == 1 ? "" : " each");
  LoadRun run;
  const auto measure = [&](std::string figure) -> Status {
    TRY_ASSIGN(const double rate, rate_of(server, prompts));
    run.figures.push_back({.name = std::move(figure),
                           .unit = "tokens/s",
                           .value = rate,
                           .ratio_goal = at_least(0.97),
                           .more_is_better = true});
    return {};
  };
  TRY(measure(name));
  // The first time a server may have changed its layout of cells meanwhile.
  if (count > 1) TRY(measure(name + ", again"));
  return run;
}

Result<LoadRun> run_one(LoadedServer& server) { return streams_of(server, 1, 400); }
Result<LoadRun> run_streams(LoadedServer& server) { return streams_of(server, kTogether, 400); }
Result<LoadRun> run_long_streams(LoadedServer& server) { return streams_of(server, kTogether, 2'000); }

// Returns prompts that begin with the same system prompt.
Result<std::vector<Json>> prompts_after_one(LoadedServer& server, std::size_t count, std::size_t shared,
                                            std::size_t own) {
  TRY_ASSIGN(const std::string system, server.client.text("system " + server.label, shared));
  std::vector<Json> prompts;
  for (std::size_t i = 0; i < count; ++i) {
    TRY_ASSIGN(const std::string text, server.client.text(fmt::format("own {} {}", i, server.label), own));
    prompts.push_back(Json::array({chat_message("system", system), chat_message("user", text)}));
  }
  return prompts;
}

Result<LoadRun> run_shared_streams(LoadedServer& server) {
  TRY_ASSIGN(const std::vector<Json> prompts, prompts_after_one(server, kTogether, 2'000, 40));
  TRY_ASSIGN(const double rate, rate_of(server, prompts));
  return LoadRun{.figures = {{.name = "8 streams after 2000 shared tokens",
                              .unit = "tokens/s",
                              .value = rate,
                              .ratio_goal = at_least(1),
                              .more_is_better = true}}};
}

// ---- a cold giant next to running streams ----

constexpr std::size_t kListeners = 3;
constexpr std::size_t kBegunPieces = 8;
constexpr std::uint32_t kMostListened = 4'000;  // tokens of a stream, which leaves when the giant is prefilled

Result<double> ttft_alone(LoadedServer& server, std::uint32_t tokens) {
  TRY_ASSIGN(const Json giant, new_prompt(server, "alone", tokens));
  TRY_ASSIGN(const Exchange reply, ask(server, giant, 1));
  return reply.ttft_ms;
}

// Streams that run until they are told to end.
class Listeners {
 public:
  Listeners(LoadedServer& server) : crowd_(server.process.base_url(), kListeners, server.interrupt) {}
  ~Listeners() { end(); }
  Listeners(const Listeners&) = delete;
  Listeners& operator=(const Listeners&) = delete;

  Status begin(LoadedServer& server) {
    for (std::size_t i = 0; i < kListeners; ++i) {
      TRY_ASSIGN(Json prompt, new_prompt(server, fmt::format("listener {}", i), 100));
      const auto on_piece = [this, i](const Piece&) {
        ++pieces_[i];
        return !ended_;
      };
      chats_.push_back(
          &crowd_.ask(std::move(prompt), {.reply_tokens = kMostListened, .whole_length = true, .on_piece = on_piece}));
    }
    constexpr int kBeginMs = 60'000;
    const bool begun = os::wait_until(kBeginMs, [&] {
      return server.interrupt.raised() ||
             std::ranges::all_of(pieces_, [](const auto& count) { return count >= kBegunPieces; });
    });
    TRY(server.interrupt.check());
    return begun ? Status() : not_measured(server, "the streams did not begin");
  }

  void end() {
    ended_ = true;
    crowd_.wait();
  }

  // Call it after end().
  std::vector<double> gaps(std::int64_t from_ns, std::int64_t to_ns) const {
    std::vector<double> all;
    for (const Streamed* chat : chats_) {
      // One that ended by itself was silent afterwards, and nobody waited for it.
      const bool ended_before = chat->exchange.answered() && !chat->pieces.empty();
      const std::vector<double> gaps =
          gaps_ms(chat->pieces, from_ns, ended_before ? std::min(to_ns, chat->pieces.back().ns) : to_ns);
      all.insert(all.end(), gaps.begin(), gaps.end());
    }
    return all;
  }

 private:
  std::atomic<bool> ended_ = false;
  std::array<std::atomic<std::size_t>, kListeners> pieces_{};
  std::vector<Streamed*> chats_;
  Crowd crowd_;  // last: its threads use the others
};

constexpr double kReadableMs = 250;      // a reader does not mind a shorter pause
constexpr std::size_t kLeastBatch = 24;  // 32 tokens with the markers that a template writes after it
constexpr std::uint32_t kDepths = 8;     // that are tried

// Returns the depth up to which this server computes a batch of 32 tokens within kReadableMs, a multiple of an eighth
// of the giant: beyond it no order of calls can keep the pauses short. The prompt of ttft_alone() is known there.
Result<std::uint32_t> readable_depth(LoadedServer& server) {
  for (std::uint32_t eighths = kDepths; eighths > 0; --eighths) {
    const std::uint32_t depth = server.sizes.giant_tokens / kDepths * eighths;
    TRY_ASSIGN(std::string text, server.client.text("alone " + server.label, depth));
    TRY_ASSIGN(const std::string more,
               server.client.text(fmt::format("probe {} {}", depth, server.label), kLeastBatch));
    TRY_ASSIGN(const Exchange reply, ask(server, one_message(text.append(" ").append(more)), 1));
    if (reply.ttft_ms <= kReadableMs) return depth;
  }
  return 0;
}

// A giant, and when its prefill was last within that depth.
struct Giant {
  Exchange reply;
  std::int64_t readable_to_ns = 0;
};

Result<Giant> ask_giant(LoadedServer& server, const Json& messages, std::uint32_t depth) {
  Giant giant;
  const auto note = [&](const PromptProgress& progress) {
    if (progress.processed_tokens <= depth) giant.readable_to_ns = progress.ns;
  };
  giant.reply = server.client.chat(messages, ChatOptions{.reply_tokens = 1, .on_progress = note});
  TRY(server.interrupt.check());
  if (!giant.reply.answered()) return not_measured(server, giant.reply.failure());
  return giant;
}

// Within the depth; if no stream had a token within it, of the whole prefill.
double readable_gap(const Listeners& listeners, const Giant& giant, const std::vector<double>& all_gaps) {
  const std::vector<double> gaps = listeners.gaps(giant.reply.sent_ns, giant.readable_to_ns);
  return percentile(gaps.empty() ? all_gaps : gaps, 0.99);
}

Result<LoadRun> run_gap(LoadedServer& server) {
  TRY_ASSIGN(const double alone_ms, ttft_alone(server, server.sizes.giant_tokens));
  TRY_ASSIGN(const std::uint32_t depth, readable_depth(server));
  TRY_ASSIGN(const Json messages, new_prompt(server, "giant", server.sizes.giant_tokens));
  Listeners listeners(server);
  TRY(listeners.begin(server));
  TRY_ASSIGN(const Giant giant, ask_giant(server, messages, depth));
  listeners.end();
  const Exchange& reply = giant.reply;
  const std::int64_t first_ns = reply.sent_ns + static_cast<std::int64_t>(reply.ttft_ms * 1e6);
  const std::vector<double> gaps = listeners.gaps(reply.sent_ns, first_ns);
  if (gaps.empty()) return not_measured(server, "no stream ran during the prefill");
  const std::string during = fmt::format("3 streams and a prefill of {}", server.sizes.giant_tokens);
  return LoadRun{.figures = {{.name = during + ": gap, median", .unit = "ms", .value = percentile(gaps, 0.5)},
                             {.name = "the same, 99th percentile", .unit = "ms", .value = percentile(gaps, 0.99)},
                             {.name = "the same, longest", .unit = "ms", .value = percentile(gaps, 1)},
                             {.name = fmt::format("depth up to which 32 tokens take {:g} ms", kReadableMs),
                              .unit = "tokens",
                              .value = static_cast<double>(depth),
                              .more_is_better = true},
                             {.name = "gap up to that depth, 99th percentile",
                              .unit = "ms",
                              .value = readable_gap(listeners, giant, gaps),
                              .goal = depth > 0 ? std::optional(at_most(kReadableMs)) : std::nullopt},
                             {.name = "prefill next to 3 streams / alone",
                              .unit = "share",
                              .value = alone_ms / reply.ttft_ms,
                              .goal = at_least(0.85),
                              .more_is_better = true}}};
}

// ---- a short warm request after a cold giant ----

constexpr std::size_t kShortOnes = 10;
constexpr std::chrono::milliseconds kAfterGiant{300};

constexpr std::size_t kCounts = 20;

// How long each of some counts of tokens takes.
Result<std::vector<double>> count_times(LoadedServer& server, const Json& messages) {
  std::vector<double> times_ms;
  for (std::size_t i = 0; i < kCounts; ++i) {
    const std::int64_t begin_ns = os::real_clock().monotonic_ns();
    TRY(server.client.count_tokens(messages));
    times_ms.push_back(ms_between(begin_ns, os::real_clock().monotonic_ns()));
  }
  return times_ms;
}

Result<LoadRun> run_short(LoadedServer& server) {
  TRY_ASSIGN(const Json warm, new_prompt(server, "warm", 650));
  TRY(ask(server, warm, 8));
  TRY_ASSIGN(const double alone_ms, ttft_alone(server, server.sizes.ahead_tokens));
  TRY_ASSIGN(Json giant, new_prompt(server, "giant", server.sizes.ahead_tokens));
  Crowd crowd(server.process.base_url(), 1, server.interrupt);
  const Streamed& ahead = crowd.ask(std::move(giant), {.reply_tokens = 1});
  os::pause(kAfterGiant);
  TRY_ASSIGN(const std::vector<double> counts_ms, count_times(server, warm));
  std::vector<double> ttfts_ms;
  for (std::size_t i = 0; i < kShortOnes; ++i) {
    TRY_ASSIGN(const Exchange reply, ask(server, warm, 8));
    ttfts_ms.push_back(reply.ttft_ms);
  }
  crowd.wait();
  TRY(crowd.answered());
  const std::string after = fmt::format("TTFT of a short after a cold {}", server.sizes.ahead_tokens);
  return LoadRun{
      .figures = {{.name = after, .unit = "ms", .value = ttfts_ms.front(), .goal = at_most(500)},
                  {.name = "the same, longest of 10 in turn", .unit = "ms", .value = percentile(ttfts_ms, 1)},
                  {.name = "TTFT of the cold, passed by 10 / alone",
                   .unit = "share",
                   .value = ahead.exchange.ttft_ms / alone_ms,
                   .goal = at_most(1.15)},
                  {.name = "counting 650 tokens meanwhile",
                   .unit = "ms",
                   .value = percentile(counts_ms, 0.5),
                   .goal = at_most(20)}}};
}

// ---- a herd, and agents: what is computed once for many ----

constexpr std::size_t kHerd = 16;
constexpr std::uint32_t kHerdReply = 4;

// Which prefixes of the prompts in their order are new.
class Ideal {
 public:
  Result<std::uint64_t> take(ServerClient& client, const Json& messages) {
    TRY_ASSIGN(const std::vector<TokenId> ids, client.chat_ids(messages));
    prompt_tokens_ = ids.size();
    const std::uint64_t ideal = prefixes_.never_decoded(ids);
    prefixes_.add(ids);
    return ideal;
  }
  std::uint64_t prompt_tokens() const { return prompt_tokens_; }  // of the last one

 private:
  DecodedPrefixes prefixes_;
  std::uint64_t prompt_tokens_ = 0;
};

// The engine is shared by all requests, so that only their sum can be counted there.
void check_sum(RunFigures& figures, const ServerProcess& process, std::uint64_t decoded) {
  std::uint64_t claimed = figures.prefilled_tokens();
  for (const RequestFigures& request : figures.requests)
    claimed += request.reply_tokens - std::min<std::uint64_t>(request.reply_tokens, 1);
  figures.counted_by = process.is_counted() ? CountedBy::kEngine : CountedBy::kReply;
  if (figures.counted_by == CountedBy::kReply) return;
  figures.sum_was_counted = claimed == decoded;
  if (claimed != decoded) {
    figures.problems.push_back(
        fmt::format("the engine saw {} ids, the replies say {} with sampled ones", decoded, claimed));
  }
}

RequestFigures request_figures(std::string label, const Exchange& reply) {
  return {.label = std::move(label),
          .status = reply.status,
          .error = {},
          .cached_tokens = reply.facts.cached_tokens.value_or(0),
          .prefilled_tokens = reply.facts.prefilled_tokens.value_or(reply.facts.prompt_tokens.value_or(0)),
          .reply_tokens = reply.facts.reply_tokens.value_or(0),
          .claimed_prefill = reply.facts.prefilled_tokens,
          .cache_source = reply.facts.cache_source,
          .ttft_ms = reply.ttft_ms,
          .total_ms = reply.total_ms()};
}

Result<LoadRun> run_herd(LoadedServer& server) {
  TRY_ASSIGN(const std::vector<Json> prompts, prompts_after_one(server, kHerd, 3'000, 50));
  const std::uint64_t before = server.process.decoded_ids();
  const std::int64_t begin_ns = os::real_clock().monotonic_ns();
  Crowd crowd(server.process.base_url(), kHerd, server.interrupt);
  std::vector<Streamed*> chats;
  for (const Json& prompt : prompts)
    chats.push_back(&crowd.ask(prompt, {.reply_tokens = kHerdReply, .whole_length = true}));
  crowd.wait();
  const double wall_ms = ms_between(begin_ns, os::real_clock().monotonic_ns());
  TRY(crowd.answered());
  const std::uint64_t decoded = server.process.decoded_ids() - before;
  RunFigures counts;
  counts.workload = "load-herd";
  counts.title = fmt::format("{} at once after one system prompt of 3000 tokens", kHerd);
  Ideal ideal;
  for (std::size_t i = 0; i < chats.size(); ++i) {
    RequestFigures& made =
        counts.requests.emplace_back(request_figures(fmt::format("herd {}", i + 1), chats[i]->exchange));
    TRY_ASSIGN(made.ideal_tokens, ideal.take(server.client, prompts[i]));
    made.prompt_tokens = ideal.prompt_tokens();
  }
  check_sum(counts, server.process, decoded);
  return LoadRun{.figures = {{.name = "16 cold after 3000 shared tokens, all",
                              .unit = "ms",
                              .value = wall_ms,
                              .ratio_goal = at_most(1)}},
                 .counts = std::move(counts)};
}

constexpr std::size_t kAgents = 6;
constexpr std::size_t kTurns = 4;

// An agent's conversation, which grows by a turn and its reply.
struct Agent {
  Json messages;
  std::vector<std::string> turns;
  std::vector<Json> prompts;  // as they were sent
  std::vector<Exchange> replies;
};

Result<std::vector<Agent>> agents_of(LoadedServer& server) {
  TRY_ASSIGN(const std::string system, server.client.text("agents " + server.label, 1'000));
  std::vector<Agent> agents(kAgents);
  for (std::size_t i = 0; i < kAgents; ++i) {
    agents[i].messages = Json::array({chat_message("system", system)});
    for (std::size_t turn = 0; turn < kTurns; ++turn) {
      TRY_ASSIGN(agents[i].turns.emplace_back(),
                 server.client.text(fmt::format("agent {} turn {} {}", i, turn, server.label), 200));
    }
  }
  return agents;
}

void play_agent(Agent& agent, ServerClient& client) {
  for (const std::string& turn : agent.turns) {
    agent.messages.push_back(chat_message("user", turn));
    agent.prompts.push_back(agent.messages);
    agent.replies.push_back(client.chat(agent.messages, {.reply_tokens = 48, .whole_length = true}));
    if (!agent.replies.back().answered()) return;
    agent.messages.push_back(chat_message("assistant", agent.replies.back().facts.text));
  }
}

Result<LoadRun> run_agents(LoadedServer& server) {
  TRY_ASSIGN(std::vector<Agent> agents, agents_of(server));
  const std::int64_t begin_ns = os::real_clock().monotonic_ns();
  Crowd crowd(server.process.base_url(), kAgents, server.interrupt);
  for (Agent& agent : agents) crowd.run([&agent](ServerClient& client) { play_agent(agent, client); });
  crowd.wait();
  const double wall_ms = ms_between(begin_ns, os::real_clock().monotonic_ns());
  TRY(server.interrupt.check());
  double prefilled = 0;
  double new_tokens = 0;
  Ideal ideal;
  for (const Agent& agent : agents) {
    if (agent.replies.size() < kTurns || !agent.replies.back().answered()) {
      return not_measured(server, agent.replies.empty() ? "no reply" : agent.replies.back().failure());
    }
    for (std::size_t turn = 0; turn < kTurns; ++turn) {
      TRY_ASSIGN(const std::uint64_t tokens, ideal.take(server.client, agent.prompts[turn]));
      // A reply is computed when it is sampled; only its last token is prefilled by the next turn.
      const std::uint64_t sampled = turn == 0 ? 0 : agent.replies[turn - 1].facts.reply_tokens.value_or(1) - 1;
      new_tokens += static_cast<double>(tokens - std::min(tokens, sampled));
      prefilled += static_cast<double>(agent.replies[turn].facts.prefilled_tokens.value_or(ideal.prompt_tokens()));
    }
  }
  return LoadRun{
      .figures = {{.name = "6 agents of 4 turns, all", .unit = "ms", .value = wall_ms, .ratio_goal = at_most(1)},
                  {.name = "the same, prefilled / new tokens",
                   .unit = "share",
                   .value = prefilled / new_tokens,
                   .goal = at_most(1.1),
                   .is_count = true}}};
}

std::vector<std::string> flags_of(const char* parallel, const char* context) {
  return {"-np", parallel, "-c", context};
}

std::vector<std::string> unified(const char* parallel, const char* context) {
  return {"-np", parallel, "-c", context, "-kvu"};
}

}  // namespace

Json one_message(std::string_view text) { return Json::array({chat_message("user", text)}); }

LoadSizes quick_load_sizes() {
  return {.giant_tokens = 4'096, .ahead_tokens = 3'000, .stream_tokens = 64, .clients_ms = 4'000};
}

const std::vector<LoadScenario>& load_scenarios() {
  static const std::vector<LoadScenario> all = {
      {.name = "short", .flags = unified("4", "24576"), .run = run_short},
      {.name = "gap", .flags = flags_of("4", "73728"), .other_layout = "-kvu", .run = run_gap},
      {.name = "one", .flags = flags_of("1", "4096"), .run = run_one},
      {.name = "streams", .flags = flags_of("8", "8192"), .other_layout = "-kvu", .run = run_streams},
      {.name = "long-streams", .flags = flags_of("8", "20480"), .other_layout = "-kvu", .run = run_long_streams},
      {.name = "shared-streams", .flags = flags_of("8", "20480"), .other_layout = "-no-kvu", .run = run_shared_streams},
      {.name = "herd", .flags = unified("8", "32768"), .run = run_herd},
      {.name = "agents", .flags = unified("6", "16384"), .run = run_agents},
      {.name = "clients", .flags = unified("16", "16384"), .run = run_clients},
      {.name = "held", .flags = unified("16", "16384"), .run = run_held},
      {.name = "full", .flags = unified("16", "16384"), .own_flags = {"--queue-limit", "256"}, .run = run_full},
  };
  return all;
}

}  // namespace kvkeep::bench
