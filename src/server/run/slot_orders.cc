#include "server/run/slot_orders.h"

#include <spdlog/spdlog.h>

#include <memory>

#include "cache/cache.h"
#include "policy/evict_candidate.h"
#include "server/run/places.h"
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

}  // namespace kvkeep::server
