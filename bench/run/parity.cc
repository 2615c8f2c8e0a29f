#include "bench/run/parity.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>
#include <utility>

#include "bench/run/server_client.h"
#include "os/machine.h"

namespace kvkeep::bench {
namespace {

constexpr Goal kGoal{Goal::Kind::kAtMost, 1.03};
constexpr Goal kSwitchesGoal{Goal::Kind::kAtMost, 6};
// Template and begin-of-sequence are the same in all prompts.
constexpr std::uint64_t kMostCachedTokens = 16;
constexpr std::uint32_t kWarmUpTokens = 8;

struct Kind {
  const char* name;
  std::size_t prompt_tokens;
  std::uint32_t reply_tokens;
  // A run that measures prefill counts all of its time over the prompt's tokens; another one counts the time after the
  // first token over the other tokens.
  bool prefill;
};
constexpr std::array<Kind, 3> kKinds{{
    {"prefill of 2,000", 2000, 1, true},
    {"decode of 256", 30, 256, false},
    {"decode of 256 after 2,000", 2000, 256, false},
}};

// Taken at one moment of a run.
struct Reading {
  double cpu_s = 0;
  std::uint64_t switches = 0;
};

Result<Reading> read(const ServerProcess& server) {
  TRY_ASSIGN(const double cpu_s, server.cpu_seconds());
  TRY_ASSIGN(const std::uint64_t switches, os::voluntary_switches(server.id()));
  return Reading{cpu_s, switches};
}

// The cost of a token, one entry per run.
struct Costs {
  std::vector<double> cpu_us;
  std::vector<double> wall_us;
  std::vector<double> switches;
};

class Side {
 public:
  Side(ServerProcess& server, int settle_ms, Interrupt& interrupt)
      : server_(&server), settle_ms_(settle_ms), interrupt_(interrupt) {}

  const std::string& name() const { return server_->name(); }
  const Costs& costs(std::size_t kind) const { return costs_[kind]; }

  // What only a process's first request costs, such as memory used for the first time, is paid here.
  Status start(const std::string& label) {
    TRY(server_->start());
    TRY_ASSIGN(client_, ServerClient::make({.base_url = server_->base_url(), .keeps_connection = true}, interrupt_));
    TRY_ASSIGN(const std::string text, client_->text(label, kKinds.back().prompt_tokens));
    const Exchange reply = client_->chat({{{"role", "user"}, {"content", text}}}, kWarmUpTokens, [] {});
    return reply.answered() ? Status() : unsupported(name() + ": " + reply.error());
  }
  Status stop() {
    client_.reset();
    return server_->stop();
  }

  Status run(std::size_t number, const std::string& label) {
    const Kind& kind = kKinds[number];
    TRY_ASSIGN(const std::string text, client_->text(label, kind.prompt_tokens));
    TRY_ASSIGN(const Reading begin, read(*server_));
    std::optional<Result<Reading>> first;
    const Exchange reply =
        client_->chat({{{"role", "user"}, {"content", text}}}, kind.reply_tokens, [&] { first = read(*server_); });
    server_->wait(settle_ms_);
    TRY_ASSIGN(const Reading end, read(*server_));
    TRY(check(kind, reply));
    if (!first) return unsupported(name() + ": no token came");
    TRY_ASSIGN(const Reading middle, std::move(*first));
    return add(number, kind.prefill ? begin : middle, end, reply);
  }

 private:
  Status add(std::size_t number, const Reading& from, const Reading& to, const Exchange& reply) {
    const Kind& kind = kKinds[number];
    const auto tokens = kind.prefill ? static_cast<double>(*reply.facts.prefilled_tokens) : kind.reply_tokens - 1.0;
    const double wall_ms = kind.prefill ? reply.ttft_ms : reply.total_ms() - reply.ttft_ms;
    if (to.cpu_s <= from.cpu_s) {
      return unsupported(name() + ": its process computes nothing; is it a script that starts a server?");
    }
    costs_[number].cpu_us.push_back((to.cpu_s - from.cpu_s) / tokens * 1e6);
    costs_[number].wall_us.push_back(wall_ms / tokens * 1e3);
    // Threads that ended meanwhile are no longer counted.
    costs_[number].switches.push_back(static_cast<double>(to.switches - std::min(to.switches, from.switches)) / tokens);
    return {};
  }

  Status check(const Kind& kind, const Exchange& reply) const {
    const ReplyFacts& facts = reply.facts;
    if (!reply.answered()) return unsupported(name() + ": " + reply.error());
    const bool whole = facts.reply_tokens == kind.reply_tokens && facts.prefilled_tokens.value_or(0) > 0;
    if (whole && facts.cached_tokens.value_or(0) <= kMostCachedTokens) return {};
    return unsupported(fmt::format("{}: asked for {} tokens after a new prompt of {}, got {} with {} cached", name(),
                                   kind.reply_tokens, kind.prompt_tokens, facts.reply_tokens.value_or(0),
                                   facts.cached_tokens.value_or(0)));
  }

  ServerProcess* server_;
  std::unique_ptr<ServerClient> client_;  // of the running process
  int settle_ms_;
  Interrupt& interrupt_;
  std::array<Costs, kKinds.size()> costs_;
};

// The ratio, pair by pair, then each side.
void add_times(std::vector<PartFigures>& out, const std::string& title, const Side& ours, const Side& theirs,
               std::vector<double> Costs::* field, std::size_t kind) {
  std::vector<double> ratios = ours.costs(kind).*field;
  for (std::size_t i = 0; i < ratios.size(); ++i) ratios[i] /= (theirs.costs(kind).*field)[i];
  out.push_back(
      summarize(fmt::format("{}: {} / {}", title, ours.name(), theirs.name()), "ratio", std::move(ratios), kGoal));
  for (const Side* side : {&ours, &theirs}) {
    out.push_back(summarize(fmt::format("{}: {}", title, side->name()), "us/token", side->costs(kind).*field));
  }
}

void add_switches(std::vector<PartFigures>& out, const std::string& title, const Side& ours, const Side& theirs,
                  std::size_t kind) {
  out.push_back(
      summarize(fmt::format("{}: {}", title, ours.name()), "/token", ours.costs(kind).switches, kSwitchesGoal));
  out.push_back(summarize(fmt::format("{}: {}", title, theirs.name()), "/token", theirs.costs(kind).switches));
}

std::vector<PartFigures> parity_figures(const Side& ours, const Side& theirs, const char* setting) {
  std::vector<PartFigures> out;
  for (std::size_t kind = 0; kind < kKinds.size(); ++kind) {
    const std::string what = fmt::format("{}, {}", kKinds[kind].name, setting);
    add_times(out, "CPU time, " + what, ours, theirs, &Costs::cpu_us, kind);
    add_times(out, "wall time, " + what, ours, theirs, &Costs::wall_us, kind);
    if (!kKinds[kind].prefill) add_switches(out, "switches, " + what, ours, theirs, kind);
  }
  return out;
}

}  // namespace

std::vector<ParitySetting> parity_settings() { return {{"one thread", {"-t", "1"}}, {"default threads", {}}}; }

std::vector<std::string> parity_flags() { return {"-np", "1", "-c", "8192", "-b", "2048", "-ub", "512", "-fa", "on"}; }

Result<std::vector<PartFigures>> measure_parity(ServerProcess& ours, ServerProcess& theirs, const char* setting,
                                                const ParityOptions& options,
                                                const std::function<void(std::size_t done, std::size_t of)>& progress,
                                                Interrupt& interrupt) {
  Side first(ours, options.settle_ms, interrupt);
  Side second(theirs, options.settle_ms, interrupt);
  std::size_t label = 0;
  const auto new_label = [&] { return fmt::format("parity with {} {}", setting, label++); };
  for (std::size_t pair = 0; pair < options.pairs; ++pair) {
    progress(pair, options.pairs);
    std::array<Side*, 2> order{&first, &second};
    if (pair % 2 != 0) std::swap(order[0], order[1]);  // a drift of the machine favours neither
    for (Side* side : order) TRY(side->start(new_label()));
    for (std::size_t kind = 0; kind < kKinds.size(); ++kind) {
      for (Side* side : order) {
        TRY(interrupt.check());
        TRY(side->run(kind, new_label()));
      }
    }
    for (Side* side : order) TRY(side->stop());
  }
  progress(options.pairs, options.pairs);
  return parity_figures(first, second, setting);
}

}  // namespace kvkeep::bench
