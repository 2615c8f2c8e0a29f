#include "bench/run/replay_counts.h"

#include <fmt/format.h>

#include <algorithm>
#include <tuple>
#include <utility>

#include "bench/sessions/canonical.h"
#include "bench/sessions/json_fields.h"

namespace kvkeep::bench {
namespace {

struct Claims {
  std::uint64_t ids = 0;
  std::uint64_t fed_back = 0;  // of the decoded ids
  bool any_silent = false;     // a reply has no claim about computed tokens
  bool any_broken = false;     // the cost of a broken request is unknown
};

Claims claims_of(const std::vector<Exchange>& exchanges) {
  Claims claims;
  for (const Exchange& exchange : exchanges) {
    if (!exchange.sent || exchange.dialect == Dialect::kOther) continue;
    if (!exchange.answered()) {
      claims.any_broken = claims.any_broken || exchange.status < 400 || exchange.status >= 500;
      continue;
    }
    const ReplyFacts& facts = exchange.facts;
    const std::uint64_t fed_back = std::max<std::uint64_t>(facts.reply_tokens.value_or(0), 1) - 1;
    claims.any_silent = claims.any_silent || !facts.prefilled_tokens || !facts.reply_tokens;
    claims.fed_back += fed_back;
    claims.ids += facts.prefilled_tokens.value_or(0) + fed_back;
  }
  return claims;
}

}  // namespace

ClaimsCheck check_claims(const std::vector<Exchange>& exchanges, std::uint64_t decoded) {
  using enum ClaimsCheck::Verdict;
  const Claims claims = claims_of(exchanges);
  if (decoded == 0 && (claims.ids > 0 || claims.any_silent)) {
    return {kUnknown,
            "nothing was counted at the engine (a server that links libllama statically cannot be seen): the "
            "prefilled tokens are only the server's claim"};
  }
  if (claims.any_silent) {
    return {kUnknown, fmt::format("{} ids were prefilled in all, counted at the engine",
                                  decoded - std::min(decoded, claims.fed_back))};
  }
  if (decoded == claims.ids) return {kHold, ""};
  if (decoded > claims.ids && claims.any_broken) return {kUnknown, ""};
  return {kDiffer, fmt::format("the replies say that {} ids were computed (prefilled, or sampled and fed back), the "
                               "engine saw {}",
                               claims.ids, decoded)};
}

namespace {

// Ids given to the engine for a request and its reply, without the last sampled one. 0 if the reply does not say.
std::uint64_t decoded_tokens(const ReplyFacts& facts) {
  if (!facts.prompt_tokens) return 0;
  return *facts.prompt_tokens + std::max<std::uint64_t>(facts.reply_tokens.value_or(0), 1) - 1;
}

}  // namespace

ReplayIdeal::Certainty ReplayIdeal::fill(const std::vector<Exchange>& exchanges, RunFigures& figures) {
  std::vector<std::tuple<std::int64_t, bool, std::size_t>> events;
  for (std::size_t i = 0; i < exchanges.size(); ++i) {
    if (!exchanges[i].answered() || exchanges[i].dialect == Dialect::kOther) continue;
    events.emplace_back(exchanges[i].sent_ns, true, i);
    events.emplace_back(exchanges[i].ended_ns, false, i);
  }
  std::ranges::sort(events);
  Certainty certainty;
  unplaced_ = 0;
  for (const auto& [time_ns, is_prompt, i] : events) {
    if (!is_prompt) {
      take_reply(exchanges[i]);
      continue;
    }
    const IdealEstimate ideal = take_prompt(exchanges[i]);
    figures.requests[i].ideal_tokens = ideal.tokens;
    certainty.off_by += ideal.uncertainty;
    certainty.estimated += ideal.uncertainty == 0 ? 0 : 1;
  }
  certainty.off_by += unplaced_;
  return certainty;
}

IdealEstimate ReplayIdeal::take_prompt(const Exchange& exchange) {
  const std::uint64_t prompt_tokens = exchange.facts.prompt_tokens.value_or(0);
  const IdealEstimate text = by_text(exchange, prompt_tokens);
  const std::optional<std::uint64_t> ids = by_ids(exchange, prompt_tokens);
  // The template's own text about tools is not in the text; it is new with the first tools.
  const auto tools = exchange.body.find("tools");
  const bool has_tools = tools != exchange.body.end() && !tools->empty();
  const bool first_tools = has_tools && !std::exchange(had_tools_, true);
  const std::uint64_t explained = text.tokens + text.uncertainty + text.rewritable;
  if (!ids || (*ids > explained && !first_tools)) return text;
  return {.tokens = *ids, .uncertainty = 0};
}

IdealEstimate ReplayIdeal::by_text(const Exchange& exchange, std::uint64_t prompt_tokens) {
  const CanonicalTexts prompts = canonical_prompts(exchange.dialect, exchange.body);
  const IdealEstimate rough = rough_texts_.take_prompt(prompts, prompt_tokens, pseudo_tokens);
  const IdealEstimate fine =
      texts_.take_prompt(prompts, prompt_tokens, [this](std::string_view piece) { return tokens_of(piece); });
  return no_tokens_.empty() ? fine : rough;
}

std::optional<std::uint64_t> ReplayIdeal::by_ids(const Exchange& exchange, std::uint64_t prompt_tokens) {
  if (!has_ids_) return std::nullopt;
  const auto ids = client_.prompt_ids(exchange.dialect, exchange.body);
  has_ids_ = ids && ids->size() == prompt_tokens;
  if (!has_ids_) return std::nullopt;
  return ids_.add(*ids);
}

void ReplayIdeal::take_reply(const Exchange& exchange) {
  const std::uint64_t decoded = decoded_tokens(exchange.facts);
  const Json longer = with_reply(exchange.dialect, exchange.body, exchange.facts.message);
  const CanonicalTexts texts = canonical_texts(exchange.dialect, longer);
  rough_texts_.take_decoded(texts, decoded, pseudo_tokens);
  texts_.take_decoded(texts, decoded, [this](std::string_view piece) { return tokens_of(piece); });
  take_reply_ids(exchange, longer, decoded);
}

// Replies do not contain the sampled ids; they are taken to be those of the text, rendered after the prompt.
void ReplayIdeal::take_reply_ids(const Exchange& exchange, const Json& longer, std::uint64_t decoded) {
  const std::uint64_t prompt_tokens = exchange.facts.prompt_tokens.value_or(0);
  if (!has_ids_ || decoded <= prompt_tokens) return;
  const auto ids = client_.prompt_ids(exchange.dialect, longer);
  const TokenSpan all = ids ? TokenSpan(*ids) : TokenSpan();
  const std::size_t shared = all.size() - ids_.never_decoded(all);
  if (shared < prompt_tokens) {
    unplaced_ += decoded - prompt_tokens;
  } else {
    ids_.add(all.first(std::min<std::size_t>(all.size(), decoded)));
  }
}

std::vector<TokenId> ReplayIdeal::tokens_of(std::string_view piece) {
  if (!no_tokens_.empty()) return {};
  if (const auto known = pieces_.find(piece); known != pieces_.end()) return known->second;
  Result<std::vector<TokenId>> tokens = client_.tokenize(piece);
  if (!tokens) {
    no_tokens_ = tokens.error().message;
    return {};
  }
  return pieces_.emplace(piece, std::move(tokens).value()).first->second;
}

}  // namespace kvkeep::bench
