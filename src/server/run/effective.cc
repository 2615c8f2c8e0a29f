// The effective prompt: what the request's text is made of in the cache, where that are other ids than the prompt's.

#include <algorithm>
#include <limits>
#include <utility>

#include "server/run/scheduler.h"

namespace kvkeep::server {

namespace {

constexpr Position kNoEnd{std::numeric_limits<std::uint32_t>::max()};

policy::PromptMarkers moved(policy::PromptMarkers markers, const index::EffectivePrompt& effective) {
  for (std::vector<Position>* places : {&markers.user_turns, &markers.assistant_turns, &markers.message_ends}) {
    for (Position& place : *places) place = effective.moved(place);
  }
  if (markers.generation_prompt) markers.generation_prompt = effective.moved(*markers.generation_prompt);
  return markers;
}

}  // namespace

// Until the client was told what is reused, every start looks again: what was found may have left, and others may have
// computed more. Live sequences are looked at beside the cache, which may be off.
void Scheduler::match_text(Active& active) {
  if (options_.texts == nullptr || !cached(active) || active.reported || active.restore_failed) return;
  const std::vector<TokenId>& prompt = active.job.prompt;
  index::TextMatch best = cache_.match_text(prompt, *options_.texts, active.job.tenant);
  for (const Sequence& held : sequences_) {
    if (!may_use(active, held) || best.prompt_tokens == prompt.size()) continue;
    index::TextMatch match = index::match_text(held.tokens, held.sampled, prompt, *options_.texts);
    if (match.prompt_tokens > best.prompt_tokens) best = std::move(match);
  }
  index::EffectivePrompt effective = index::effective_prompt(best, prompt, *options_.texts);
  const bool fits =
      effective.tokens.size() <= std::max<std::size_t>(prompt.size(), engine_.description().context_tokens - 1);
  if (!fits) return take_prompt(active, prompt, {});
  take_prompt(active, std::move(effective.tokens), best.sampled);
  active.markers = moved(active.job.markers, effective);
  if (!effective.replacements.empty()) active.text_from = effective.replacements.front().effective.begin;
}

// Everything after the prompt will have been sampled.
void Scheduler::take_prompt(Active& active, std::vector<TokenId> tokens, std::span<const TokenRange> sampled) {
  if (tokens != active.tokens) active.sampler.reset();  // penalties look at the ids
  active.tokens = std::move(tokens);
  active.sampled.assign(sampled.begin(), sampled.end());
  const Position end = Position{} + active.tokens.size();
  if (!active.sampled.empty() && active.sampled.back().end == end) {
    active.sampled.back().end = kNoEnd;
  } else {
    active.sampled.push_back({end, kNoEnd});
  }
  active.markers = active.job.markers;
  active.text_from.reset();
  active.stats.prompt_tokens = active.tokens.size();
}

}  // namespace kvkeep::server
