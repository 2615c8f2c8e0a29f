#include "bench/run/parity.h"

#include <fmt/format.h>

#include <array>
#include <optional>
#include <utility>

#include "bench/run/server_api.h"
#include "bench/words.h"

namespace kvkeep::bench {
namespace {

constexpr Goal kGoal{Goal::Kind::kAtMost, 1.03};
// Template and begin-of-sequence are the same in all prompts.
constexpr std::uint64_t kMostCachedTokens = 16;

struct Kind {
  const char* name;
  std::size_t prompt_tokens;
  std::uint32_t reply_tokens;
  // A run that counts its prefill counts all of it over the prompt's tokens; else what comes after the first token over
  // the tokens left.
  bool prefill;
};
constexpr std::array<Kind, 3> kKinds{{
    {"prefill of 2,000 tokens", 2000, 1, true},
    {"decode of 256 tokens", 30, 256, false},
    {"decode of 256 tokens behind 2,000", 2000, 256, false},
}};

class Side {
 public:
  static Result<Side> make(ServerProcess& server, int settle_ms, Interrupt& interrupt) {
    TRY_ASSIGN(std::unique_ptr<ServerApi> api, ServerApi::make(server.base_url(), interrupt));
    return Side(server, std::move(api), settle_ms);
  }

  const std::string& name() const { return server_->name(); }
  const std::vector<double>& us_per_token(std::size_t kind) const { return us_per_token_[kind]; }

  Status run(std::size_t number, const std::string& label) {
    const Kind& kind = kKinds[number];
    const CountTokens count = [&](std::string_view text) -> Result<std::size_t> {
      TRY_ASSIGN(const std::vector<TokenId> ids, api_->tokenize(text));
      return ids.size();
    };
    TRY_ASSIGN(const std::string text, text_of_tokens(label, kind.prompt_tokens, count));
    TRY_ASSIGN(const double begin_s, server_->cpu_seconds());
    std::optional<Result<double>> first_s;
    TRY_ASSIGN(const TimedReply reply, api_->chat({{{"role", "user"}, {"content", text}}}, kind.reply_tokens,
                                                  [&] { first_s = server_->cpu_seconds(); }));
    server_->wait(settle_ms_);
    TRY_ASSIGN(const double end_s, server_->cpu_seconds());
    TRY(check(kind, reply));
    if (!first_s) return unsupported(name() + ": no token came");
    TRY_ASSIGN(const double first, *first_s);
    const double seconds = kind.prefill ? (end_s - begin_s) / static_cast<double>(*reply.facts.prefilled_tokens)
                                        : (end_s - first) / (kind.reply_tokens - 1);
    if (seconds <= 0) {
      return unsupported(name() + ": its process computes nothing; is it a script that starts a server?");
    }
    us_per_token_[number].push_back(seconds * 1e6);
    return {};
  }

 private:
  Side(ServerProcess& server, std::unique_ptr<ServerApi> api, int settle_ms)
      : server_(&server), api_(std::move(api)), settle_ms_(settle_ms) {}

  Status check(const Kind& kind, const TimedReply& reply) const {
    const ReplyFacts& facts = reply.facts;
    if (!facts.error.empty()) return unsupported(name() + ": " + facts.error);
    const bool whole = facts.reply_tokens == kind.reply_tokens && facts.prefilled_tokens.value_or(0) > 0;
    if (whole && facts.cached_tokens.value_or(0) <= kMostCachedTokens) return {};
    return unsupported(fmt::format("{}: asked for {} tokens behind a new prompt of {}, got {} with {} cached", name(),
                                   kind.reply_tokens, kind.prompt_tokens, facts.reply_tokens.value_or(0),
                                   facts.cached_tokens.value_or(0)));
  }

  ServerProcess* server_;
  std::unique_ptr<ServerApi> api_;
  int settle_ms_;
  std::array<std::vector<double>, kKinds.size()> us_per_token_;
};

std::vector<PartFigures> figures_of(const Side& ours, const Side& theirs) {
  std::vector<PartFigures> out;
  for (std::size_t kind = 0; kind < kKinds.size(); ++kind) {
    std::vector<double> ratios = ours.us_per_token(kind);
    for (std::size_t i = 0; i < ratios.size(); ++i) ratios[i] /= theirs.us_per_token(kind)[i];
    out.push_back(
        summarize(fmt::format("CPU time per token, {}: {} / {}", kKinds[kind].name, ours.name(), theirs.name()),
                  "ratio", std::move(ratios), kGoal));
    for (const Side* side : {&ours, &theirs}) {
      out.push_back(summarize(fmt::format("CPU time per token, {}: {}", kKinds[kind].name, side->name()), "us",
                              side->us_per_token(kind)));
    }
  }
  return out;
}

}  // namespace

std::vector<std::string> parity_flags() {
  return {"-np", "1", "-t", "1", "-c", "8192", "-b", "2048", "-ub", "512", "-fa", "on"};
}

Result<std::vector<PartFigures>> measure_parity(ServerProcess& ours, ServerProcess& theirs,
                                                const ParityOptions& options,
                                                const std::function<void(std::size_t done, std::size_t of)>& progress,
                                                Interrupt& interrupt) {
  TRY_ASSIGN(Side first, Side::make(ours, options.settle_ms, interrupt));
  TRY_ASSIGN(Side second, Side::make(theirs, options.settle_ms, interrupt));
  std::size_t label = 0;
  for (std::size_t pair = 0; pair < options.pairs; ++pair) {
    progress(pair, options.pairs);
    for (std::size_t kind = 0; kind < kKinds.size(); ++kind) {
      std::array<Side*, 2> order{&first, &second};
      if (pair % 2 != 0) std::swap(order[0], order[1]);  // a drift of the machine favours neither
      for (Side* side : order) {
        TRY(interrupt.check());
        TRY(side->run(kind, fmt::format("parity {}", label++)));
      }
    }
  }
  progress(options.pairs, options.pairs);
  return figures_of(first, second);
}

}  // namespace kvkeep::bench
