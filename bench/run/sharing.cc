#include "bench/run/sharing.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <memory>
#include <utility>

#include "bench/run/contestant.h"
#include "bench/run/memory_state.h"
#include "bench/run/server_client.h"
#include "bench/sessions/ideal.h"
#include "bench/sessions/json_fields.h"
#include "os/clock.h"

namespace kvkeep::bench {
namespace {

using Progress = std::function<void(std::size_t done, std::size_t of)>;

constexpr std::uint32_t kSharedReplyTokens = 8;
constexpr std::uint32_t kTurnTokens = 120;
constexpr std::uint32_t kSharedTemplateTokens = 512;  // for the template's text in all turns, more than needed
constexpr int kPublishedWithinMs = 1'000;             // captured state is in an engine on this machine within 300 ms

struct Counted {
  std::uint64_t prefilled = 0;
  std::uint64_t never_computed = 0;
  double ttft_ms = 0;
};

// Two servers, and the prefixes that either of them decoded.
class Sharers {
 public:
  static Result<Sharers> start(const BenchOptions& bench, const SharingOptions& options, Interrupt& interrupt) {
    Workload sizes;  // only of the context
    const auto turns = static_cast<std::uint32_t>(options.turns + 1);
    sizes.context_tokens = options.prompt_tokens + turns * (kTurnTokens + kSharedReplyTokens) + kSharedTemplateTokens;
    Sharers sharers;
    for (std::size_t i = 0; i < kServers; ++i) {
      TRY_ASSIGN(Served served, Served::start(bench, sizes, {"--share", options.url}, interrupt));
      sharers.servers_.push_back(std::move(served));
      TRY_ASSIGN(auto client,
                 ServerClient::make({.base_url = sharers.servers_.back().process->base_url(), .keeps_connection = true},
                                    interrupt));
      sharers.clients_.push_back(std::move(client));
    }
    return sharers;
  }

  // Asks one of the servers for the next turn, whose reply joins the conversation. Then both may find its state.
  Result<Counted> ask(std::size_t at, Json& messages, const std::string& label, std::uint32_t tokens) {
    ServerClient& client = *clients_[at % kServers];
    ServerProcess& server = *servers_[at % kServers].process;
    TRY_ASSIGN(const std::string words, client.text(label, tokens));
    messages.push_back(chat_message("user", words));
    TRY_ASSIGN(std::vector<TokenId> prompt, client.chat_ids(messages));
    const std::uint64_t before = server.decoded_ids();
    const Exchange reply = client.chat(messages, {.reply_tokens = kSharedReplyTokens, .whole_length = true});
    if (!reply.answered()) return unsupported(fmt::format("{}: {}", label, reply.failure()));
    TRY_ASSIGN(const std::vector<TokenId> sampled, client.tokenize(reply.facts.text));
    const std::uint64_t decoded = server.decoded_ids() - before;
    const std::uint64_t fed_back = std::min<std::uint64_t>(decoded, reply.facts.reply_tokens.value_or(1) - 1);
    const Counted counted{decoded - fed_back, prefixes_.never_decoded(prompt), reply.ttft_ms};
    if (!sampled.empty()) prompt.insert(prompt.end(), sampled.begin(), sampled.end() - 1);
    prefixes_.add(prompt);
    messages.push_back(chat_message("assistant", reply.facts.text));
    server.wait(kPublishedWithinMs);
    return counted;
  }

  std::optional<Goal> goal() const {
    const auto bound = ratio_bound(memory_state_of(servers_.front().process->log()), Workload{});
    return bound ? std::optional(Goal{Goal::Kind::kAtMost, *bound}) : std::nullopt;
  }

 private:
  static constexpr std::size_t kServers = 2;
  Sharers() = default;

  std::vector<Served> servers_;
  std::vector<std::unique_ptr<ServerClient>> clients_;
  DecodedPrefixes prefixes_;
};

double ratio_of(const Counted& counted) {
  return static_cast<double>(counted.prefilled) /
         static_cast<double>(std::max<std::uint64_t>(1, counted.never_computed));
}

// The ratio of each sample, and the counts that it is made of: a ratio alone does not tell how much a miss costs.
void add_counts(std::vector<PartFigures>& out, const std::string& what, const std::vector<Counted>& samples,
                std::optional<Goal> goal) {
  std::vector<double> ratios;
  std::vector<double> prefilled;
  std::vector<double> never_computed;
  for (const Counted& counted : samples) {
    ratios.push_back(ratio_of(counted));
    prefilled.push_back(static_cast<double>(counted.prefilled));
    never_computed.push_back(static_cast<double>(counted.never_computed));
  }
  out.push_back(summarize(what + ": prefilled / never computed", "ratio", std::move(ratios), goal));
  out.push_back(summarize(what + ": prefilled", "tokens", std::move(prefilled)));
  out.push_back(summarize(what + ": never computed", "tokens", std::move(never_computed)));
}

class Measurement {
 public:
  // The engine keeps what earlier runs published, so that labels must be new.
  Measurement(const SharingOptions& options, Sharers& sharers, const Progress& progress)
      : options_(options), sharers_(sharers), progress_(progress), run_(os::real_clock().wall_ns()) {}

  Result<std::vector<PartFigures>> measure() {
    std::vector<Counted> turns;
    std::vector<double> first_ms;
    std::vector<double> second_ms;
    for (std::size_t round = 0; round < options_.rounds; ++round) {
      Json messages = Json::array();
      TRY_ASSIGN(const Counted first, step(round, messages, options_.prompt_tokens));
      TRY_ASSIGN(const Counted second, step(round + 1, messages, kTurnTokens));
      turns.push_back(second);
      first_ms.push_back(first.ttft_ms);
      second_ms.push_back(second.ttft_ms);
    }
    TRY_ASSIGN(const Counted wandering, wander());
    const std::string turn =
        fmt::format("a turn after {} tokens that the other server computed", options_.prompt_tokens);
    std::vector<PartFigures> figures;
    add_counts(figures, turn, turns, sharers_.goal());
    figures.push_back(summarize(fmt::format("TTFT of these {} tokens", options_.prompt_tokens), "ms", first_ms));
    figures.push_back(summarize("TTFT of " + turn, "ms", second_ms));
    add_counts(figures, fmt::format("{} turns that wander", options_.turns), {wandering}, sharers_.goal());
    return figures;
  }

 private:
  Result<Counted> wander() {
    Json messages = Json::array();
    Counted all;
    for (std::size_t turn = 0; turn < options_.turns; ++turn) {
      TRY_ASSIGN(const Counted counted, step(turn, messages, turn == 0 ? options_.prompt_tokens / 2 : kTurnTokens));
      all.prefilled += counted.prefilled;
      all.never_computed += counted.never_computed;
    }
    return all;
  }

  Result<Counted> step(std::size_t at, Json& messages, std::uint32_t tokens) {
    auto counted = sharers_.ask(at, messages, fmt::format("{} share {}", run_, done_), tokens);
    progress_(++done_, 2 * options_.rounds + options_.turns);
    return counted;
  }

  const SharingOptions& options_;
  Sharers& sharers_;
  const Progress& progress_;
  const std::int64_t run_;
  std::size_t done_ = 0;
};

}  // namespace

Result<std::vector<PartFigures>> measure_sharing(const BenchOptions& bench, const SharingOptions& options,
                                                 const Progress& progress, Interrupt& interrupt) {
  TRY_ASSIGN(Sharers sharers, Sharers::start(bench, options, interrupt));
  Measurement measurement(options, sharers, progress);
  auto figures = measurement.measure();
  TRY(interrupt.check());
  return figures;
}

}  // namespace kvkeep::bench
