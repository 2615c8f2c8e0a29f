// What all dialects' replies share: errors and token counts.

#include <algorithm>

#include "bench/reply_draft.h"

namespace kvkeep::bench {
namespace {

// A string, or what is in it, or its JSON.
std::string words_of(const Json& value) {
  if (value.is_string()) return value.get<std::string>();
  if (std::string message = text_field(value, "message"); !message.empty()) return message;
  return to_line(value);
}

}  // namespace

std::string error_text(const Json& body) {
  for (const char* name : {"error", "message", "detail"}) {
    if (const Json* value = field(body, name)) return shortened(words_of(*value));
  }
  return body.is_object() && body.empty() ? std::string() : shortened(to_line(body));
}

void take_timings(const Json& event, ReplyDraft& draft) {
  const Json* timings = field(event, "timings");
  if (timings == nullptr) return;
  if (const auto computed = count_field(*timings, "prompt_n")) draft.computed_tokens = computed;
  if (const auto cached = count_field(*timings, "cache_n")) draft.timings_cached = cached;
  if (std::string source = text_field(*timings, "cache_source"); !source.empty()) draft.facts.cache_source = source;
  const Json* rate = field(*timings, "predicted_per_second");
  if (rate != nullptr && rate->is_number()) draft.facts.tokens_per_second = rate->get<double>();
  if (!draft.facts.reply_tokens) draft.facts.reply_tokens = count_field(*timings, "predicted_n");
}

void settle_counts(std::optional<std::uint64_t> prompt, ReplyDraft& draft) {
  ReplyFacts& facts = draft.facts;
  facts.cached_tokens = draft.cache_read_tokens ? draft.cache_read_tokens : draft.timings_cached;
  facts.prompt_tokens = prompt;
  if (!prompt && draft.computed_tokens) facts.prompt_tokens = *draft.computed_tokens + facts.cached_tokens.value_or(0);
  facts.prefilled_tokens = draft.computed_tokens;
  if (!facts.prefilled_tokens && facts.prompt_tokens && facts.cached_tokens) {
    facts.prefilled_tokens = *facts.prompt_tokens - std::min(*facts.prompt_tokens, *facts.cached_tokens);
  }
}

}  // namespace kvkeep::bench
