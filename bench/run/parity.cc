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

// Of the first one only the decoding is measured: its prompt is too short.
struct Asked {
  std::size_t prompt_tokens;
  std::uint32_t reply_tokens;
};
constexpr Asked kShort{30, 256};
constexpr Asked kLong{2000, 256};

// A figure: prefill counts the time until the first token over the prompt's tokens, decode the time after it over the
// other tokens.
struct Kind {
  const char* name;
  bool prefill;
};
enum : std::size_t { kPrefill, kDecode, kDecodeAfter };
constexpr std::array<Kind, 3> kKinds{
    {{"prefill of 2,000", true}, {"decode of 256", false}, {"decode of 256 after 2,000", false}}};

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

  // The first request of a process pays for memory that is used for the first time; none is measured here.
  Status start(const std::string& label) {
    TRY(server_->start());
    TRY_ASSIGN(client_, ServerClient::make({.base_url = server_->base_url(), .keeps_connection = true}, interrupt_));
    return ask({kShort.prompt_tokens, kWarmUpTokens}, label, [](const Run&) { return Status(); });
  }
  Status stop() {
    client_.reset();
    return server_->stop();
  }

  Status decode_short(const std::string& label) {
    return ask(kShort, label, [&](const Run& run) { return add(kDecode, run); });
  }
  Status prefill_and_decode(const std::string& label) {
    return ask(kLong, label, [&](const Run& run) -> Status {
      TRY(add(kPrefill, run));
      return add(kDecodeAfter, run);
    });
  }

 private:
  struct Run {
    Reading begin;
    Reading first;  // when the first token came
    Reading end;
    Exchange reply;
  };

  template <typename Add>
  Status ask(const Asked& asked, const std::string& label, Add add_run) {
    TRY_ASSIGN(const std::string text, client_->text(label, asked.prompt_tokens));
    TRY_ASSIGN(const Reading begin, read(*server_));
    std::optional<Result<Reading>> first;
    const Exchange reply =
        client_->chat({{{"role", "user"}, {"content", text}}}, asked.reply_tokens, [&] { first = read(*server_); });
    server_->wait(settle_ms_);
    TRY_ASSIGN(const Reading end, read(*server_));
    TRY(check(asked, reply));
    if (!first) return unsupported(name() + ": no token came");
    TRY_ASSIGN(const Reading middle, std::move(*first));
    return add_run({begin, middle, end, reply});
  }

  Status add(std::size_t number, const Run& run) {
    const bool prefill = kKinds[number].prefill;
    const Reading& from = prefill ? run.begin : run.first;
    const Reading& to = prefill ? run.first : run.end;
    const ReplyFacts& facts = run.reply.facts;
    const double tokens =
        prefill ? static_cast<double>(*facts.prefilled_tokens) : static_cast<double>(*facts.reply_tokens) - 1.0;
    const double wall_ms = prefill ? run.reply.ttft_ms : run.reply.total_ms() - run.reply.ttft_ms;
    if (to.cpu_s <= from.cpu_s) {
      return unsupported(name() + ": its process computes nothing; is it a script that starts a server?");
    }
    costs_[number].cpu_us.push_back((to.cpu_s - from.cpu_s) / tokens * 1e6);
    costs_[number].wall_us.push_back(wall_ms / tokens * 1e3);
    // Threads that ended meanwhile are no longer counted.
    costs_[number].switches.push_back(static_cast<double>(to.switches - std::min(to.switches, from.switches)) / tokens);
    return {};
  }

  Status check(const Asked& asked, const Exchange& reply) const {
    const ReplyFacts& facts = reply.facts;
    if (!reply.answered()) return unsupported(name() + ": " + reply.error());
    const bool whole = facts.reply_tokens == asked.reply_tokens && facts.prefilled_tokens.value_or(0) > 0;
    if (whole && facts.cached_tokens.value_or(0) <= kMostCachedTokens) return {};
    return unsupported(fmt::format("{}: asked for {} tokens after a new prompt of {}, got {} with {} cached", name(),
                                   asked.reply_tokens, asked.prompt_tokens, facts.reply_tokens.value_or(0),
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
    for (const auto measure : {&Side::decode_short, &Side::prefill_and_decode}) {
      for (Side* side : order) {
        TRY(interrupt.check());
        TRY((side->*measure)(new_label()));
      }
    }
    for (Side* side : order) TRY(side->stop());
  }
  progress(options.pairs, options.pairs);
  return parity_figures(first, second, setting);
}

}  // namespace kvkeep::bench
