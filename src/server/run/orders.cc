#include "server/run/orders.h"

#include <spdlog/spdlog.h>

#include <memory>
#include <utility>

#include "cache/cache.h"
#include "policy/evict_candidate.h"
#include "server/run/places.h"
#include "server/run/scheduler.h"
#include "server/run/sequences.h"

namespace kvkeep::server {
namespace {

void keep(const Conversation& talk, cache::Cache& cache) {
  cache.keep(cache.track(talk.tokens, talk.tenant), policy::kLongestKeepNs);
}

// Returns how many tokens of the conversation, from its end on, are not known any more.
Result<std::size_t> forget(const Conversation& talk, Sequences& sequences, cache::Cache& cache) {
  sequences.forget(talk.tokens, talk.tenant);
  TRY_ASSIGN(const Position known, cache.forget(talk.tokens, talk.tenant));
  return talk.tokens.size() - known.value();
}

}  // namespace

Result<SlotOutcome> carry_out(const SlotOrder& order, Places& places, Sequences& sequences, cache::Cache& cache) {
  TRY_ASSIGN(const std::shared_ptr<const Conversation> talk, places.conversation(order.slot));
  SlotOutcome outcome;
  if (talk == nullptr || talk->tenant != order.tenant) return outcome;
  outcome.tokens = talk->tokens;
  if (order.kind == SlotOrder::Kind::kKeep) {
    keep(*talk, cache);
    return outcome;
  }
  TRY_ASSIGN(outcome.forgotten, forget(*talk, sequences, cache));
  places.forget(order.slot);
  spdlog::info(
      "slot {} erased by a client: {} of the conversation's {} tokens are forgotten, others go on from the rest",
      order.slot, outcome.forgotten, outcome.tokens.size());
  return outcome;
}

Status order(Scheduler& scheduler, const SlotOrder& order, std::shared_ptr<SlotSink> sink) {
  return scheduler.ask([order, sink = std::move(sink)](const Error* stopped, Places& places, Sequences& sequences,
                                                       cache::Cache& cache) {
    sink->on_outcome(stopped != nullptr ? Result<SlotOutcome>(*stopped) : carry_out(order, places, sequences, cache));
  });
}

// ---- all state of a tenant, or a part of it ----

Result<cache::Cleared> carry_out(const cache::ClearScope& scope, Places& places, Sequences& sequences,
                                 cache::Cache& cache) {
  std::vector<TokenId> beginning;
  TenantScope tenants = scope.tenants;
  if (scope.below) {
    TRY_ASSIGN(const cache::ListedPrefix named, cache.find(scope.below->hex(), tenants));
    beginning = cache.tokens_of(named);
    tenants = cache.tenant_of(named);
  }
  TRY_ASSIGN(const cache::Cleared cleared, cache.clear(scope));
  // Idle sequences hold the ends of their paths: these go now.
  sequences.forget(beginning, tenants, scope.unused_ns.value_or(0));
  if (!scope.unused_ns) places.forget_below(beginning, tenants);
  spdlog::info("kv cache: cleared for a client: {} prefixes with {} tokens, {} MiB in RAM and {} MiB on disk",
               cleared.prefixes, cleared.tokens, cleared.ram.value() >> 20, cleared.disk.value() >> 20);
  return cleared;
}

Status clear(Scheduler& scheduler, const cache::ClearScope& scope, OnCleared done) {
  return scheduler.ask(
      [scope, done = std::move(done)](const Error* stopped, Places& places, Sequences& sequences, cache::Cache& cache) {
        done(stopped != nullptr ? Result<cache::Cleared>(*stopped) : carry_out(scope, places, sequences, cache));
      });
}

}  // namespace kvkeep::server
