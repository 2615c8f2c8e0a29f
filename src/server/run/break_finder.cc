#include "server/run/break_finder.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/media_ids.h"
#include "cache/cache.h"
#include "server/run/lookup.h"

namespace kvkeep::server {
namespace {

using explain::Hindrance;

// Tokens around a difference that decide about its kind, and those that are shown of it.
constexpr std::size_t kTokensBefore = 128;
constexpr std::size_t kTokensChanged = 256;
constexpr std::size_t kTokensAfter = 24;
constexpr std::size_t kTokensShown = 16;

// A prompt begins like another if it shares so many tokens with it beyond the template's own.
constexpr std::size_t kAlikeTokens = 16;
constexpr std::size_t kBeginningTokens = 128;
constexpr std::size_t kMostVisits = 256;

Hindrance hindrance_of(MissReason reason) {
  switch (reason) {
    case MissReason::kCacheOff: return Hindrance::kCacheOff;
    case MissReason::kPromptScored: return Hindrance::kPromptScored;
    case MissReason::kNotCacheable: return Hindrance::kNotCacheable;
    case MissReason::kLoadFailed: return Hindrance::kLoadFailed;
    case MissReason::kLoadTooSlow: return Hindrance::kLoadTooSlow;
    case MissReason::kNoCells: return Hindrance::kNoRoom;
    case MissReason::kWholePrompt:
    case MissReason::kNewTokens:
    case MissReason::kNoPoint:
    case MissReason::kNothingCached: break;
  }
  return Hindrance::kNone;
}

TokenSpan up_to(TokenSpan tokens, std::size_t most) { return tokens.first(std::min(tokens.size(), most)); }

bool begins_alike(TokenSpan tokens, TokenSpan other, std::size_t beginning) {
  return common_prefix(tokens, other) >= beginning + kAlikeTokens;
}

}  // namespace

// ---- what clients sent ----

void OwnPrompts::remember(std::uint64_t owner, std::uint64_t conversation, TokenSpan tokens, PromptWithParts prompt) {
  if (tokens.empty() || tokens.size() > most_tokens_) return;
  const auto goes_on = [&](const Prompt& earlier) {
    const std::size_t size = earlier.tokens.size();
    return earlier.owner == owner && earlier.conversation == conversation && size <= tokens.size() &&
           earlier.tokens.back() == tokens[size - 1] && common_prefix(earlier.tokens, tokens) == size;
  };
  if (const auto earlier = std::ranges::find_if(prompts_, goes_on); earlier != prompts_.end()) {
    tokens_ -= earlier->tokens.size();
    prompts_.erase(earlier);
  }
  prompts_.push_back({owner, conversation, {tokens.begin(), tokens.end()}, std::move(prompt)});
  tokens_ += tokens.size();
  while (tokens_ > most_tokens_ || prompts_.size() > kMostPrompts) {
    tokens_ -= prompts_.front().tokens.size();
    prompts_.pop_front();
  }
}

// The run is short and seldom equal by chance: it is compared first.
bool OwnPrompts::has(const Prompt& prompt, TokenSpan before, TokenSpan run) {
  const TokenSpan tokens(prompt.tokens);
  return tokens.size() >= before.size() + run.size() &&
         std::ranges::equal(tokens.subspan(before.size(), run.size()), run) &&
         common_prefix(tokens, before) == before.size();
}

bool OwnPrompts::has(std::uint64_t owner, TokenSpan before, TokenSpan run) const {
  return std::ranges::any_of(prompts_,
                             [&](const Prompt& prompt) { return prompt.owner == owner && has(prompt, before, run); });
}

explain::KnownFrom OwnPrompts::known_from(std::uint64_t owner, std::uint64_t conversation, TokenSpan before,
                                          TokenSpan run) const {
  const auto sent = [&](bool in_this) {
    return std::ranges::any_of(prompts_, [&](const Prompt& prompt) {
      return prompt.owner == owner && (prompt.conversation == conversation) == in_this && has(prompt, before, run);
    });
  };
  if (conversation == 0) return explain::KnownFrom::kUnknown;
  if (sent(true)) return explain::KnownFrom::kSameConversation;
  return sent(false) ? explain::KnownFrom::kAnother : explain::KnownFrom::kUnknown;
}

const PromptWithParts* OwnPrompts::parts_of(TokenSpan before, TokenSpan run) const {
  for (auto sent = prompts_.rbegin(); sent != prompts_.rend(); ++sent) {
    if (sent->prompt.parts != nullptr && has(*sent, before, run)) return &sent->prompt;
  }
  return nullptr;
}

std::size_t OwnPrompts::values_at(std::uint64_t owner, TokenSpan prompt, Position at) const {
  explain::OtherValues values(prompt, at);
  for (const Prompt& sent : prompts_) {
    if (sent.owner == owner) values.add(sent.tokens);
  }
  return values.count();
}

// The newest first, which often share the most. Texts that differ at one place only are compared up to there: of many
// long ones that would take longer than everything else.
std::size_t OwnPrompts::shared_with(std::uint64_t owner, TokenSpan prompt) const {
  std::size_t most = 0;
  std::size_t compared = 0;
  for (auto other = prompts_.rbegin(); other != prompts_.rend() && most < prompt.size(); ++other) {
    const TokenSpan tokens(other->tokens);
    if (other->owner != owner || tokens.size() <= most || tokens[most] != prompt[most]) continue;
    if (compared >= kMostCompared * prompt.size()) break;
    const std::size_t shared = common_prefix(tokens, prompt);
    compared += shared;
    most = std::max(most, shared);
  }
  return most;
}

// ---- finding breaks ----

std::string named_text(const TextOfTokens& text, TokenSpan tokens) {
  constexpr std::uint32_t kName = (1U << 30) - 1;
  std::string all;
  while (!tokens.empty()) {
    const bool is_media = is_media_id(tokens.front());
    const auto end = std::ranges::find_if(tokens, [&](TokenId id) { return is_media_id(id) != is_media; });
    const TokenSpan run = tokens.first(static_cast<std::size_t>(end - tokens.begin()));
    const auto first = static_cast<std::uint32_t>(run.front());
    const bool has_name = is_media && (first & (1U << 30)) != 0;  // else the run begins within a chunk
    all += has_name ? fmt::format("[media {:08x}]", first & kName) : text(run);
    tokens = tokens.subspan(run.size());
  }
  return all;
}

const Asker& asker_of(const Job& job) {
  static const Asker kNobody;
  return job.asker != nullptr ? *job.asker : kNobody;
}

std::shared_ptr<const FoundBreak> at_end(std::shared_ptr<const FoundBreak> found, const JobStats& stats) {
  if (found == nullptr || found->found.lost_tokens <= stats.prefilled_tokens) return found;
  auto bounded = std::make_shared<FoundBreak>(*found);
  bounded->found.lost_tokens = stats.prefilled_tokens;
  return bounded;
}

double lost_ms(const explain::CacheBreak& found, const JobStats& stats) {
  // A client that left took the time of the tokens until then; a request that was set aside computed some twice.
  const std::size_t rest = stats.prompt_tokens - std::min(stats.cached_tokens, stats.prompt_tokens);
  const std::size_t prefilled = std::min(rest, stats.prefilled_tokens);
  const double ms = std::max(stats.prompt_ms - stats.load_ms, 0.0);
  if (prefilled == 0) return 0;
  return ms * static_cast<double>(std::min(found.lost_tokens, prefilled)) / static_cast<double>(prefilled);
}

std::shared_ptr<const FoundBreak> BreakFinder::find(const BeginningRequest& request) {
  if (!wanted() || request.job.ahead) return nullptr;
  const explain::BreakFacts facts = facts_of(request);
  auto made = std::make_shared<FoundBreak>();
  made->found = explain::find_break(facts);
  if (made->found.differs) {
    made->texts = shown_texts(request);
    made->line = explain::line_before(facts.text.before);
  }
  note_visit(request);
  return made;
}

explain::BreakFacts BreakFinder::facts_of(const BeginningRequest& request) const {
  const JobStats& stats = request.stats;
  explain::BreakFacts facts{.prompt_tokens = request.tokens.size(),
                            .cached_tokens = stats.cached_tokens,
                            .known_tokens = std::max(stats.known_tokens, stats.cached_tokens),
                            .beginning_tokens = request.job.markers.beginning.value(),
                            .hindrance = hindrance_of(stats.miss),
                            .parts = request.asker == nullptr ? nullptr : request.asker->parts.get(),
                            .thoughts = options_->thoughts};
  if (request.difference != nullptr) {
    facts.at = request.difference->at;
    facts.known_tokens = std::max<std::size_t>(facts.known_tokens, facts.at->value());
  }
  const bool off = facts.hindrance == Hindrance::kCacheOff || facts.hindrance == Hindrance::kPromptScored ||
                   facts.hindrance == Hindrance::kNotCacheable;
  if (off || facts.cached_tokens + 1 >= facts.prompt_tokens) return facts;
  const TokenRange unused{Position{} + facts.cached_tokens, Position{} + facts.known_tokens};
  facts.lost = cache_.lost_state(request.tokens, unused, request.job.tenant);
  // State that was known when the request came left the cache since, if its load found it damaged.
  if (!facts.lost && facts.hindrance == Hindrance::kLoadFailed) {
    facts.lost = cache_.lost_state(request.tokens, {unused.begin, unused.begin}, request.job.tenant);
  }
  const bool damaged = facts.lost && explain::is_damage(facts.lost->cause);
  if (damaged && facts.hindrance == Hindrance::kLoadFailed) facts.hindrance = Hindrance::kDamaged;
  if (facts.lost && facts.lost->tokens > 0) add_unkept(request, facts);
  if (request.difference != nullptr) {
    add_texts(request, facts);
  }
  add_unknown(request, facts);
  return facts;
}

// Of a prompt larger than its tier the end never got there, and its beginning was lost: the client's own prompts tell
// how much was computed.
void BreakFinder::add_unkept(const BeginningRequest& request, explain::BreakFacts& facts) const {
  const std::size_t computed = own_.shared_with(asker_of(request.job).owner, request.tokens);
  const std::size_t known = std::min(facts.known_tokens, computed);
  facts.lost->tokens = std::max(facts.lost->tokens, computed - known);
}

void BreakFinder::add_texts(const BeginningRequest& request, explain::BreakFacts& facts) const {
  const std::size_t at = facts.at->value();
  const TokenSpan here = request.tokens.subspan(at);
  facts.comparison = explain::compare(here, request.known_rest);
  const TokenSpan run = up_to(request.known_rest, kTokensShown);
  facts.known_from =
      own_.known_from(asker_of(request.job).owner, asker_of(request.job).conversation, request.tokens.first(at), run);
  if (const PromptWithParts* known = own_.parts_of(request.tokens.first(at), run)) {
    facts.known_parts = known->parts.get();
    facts.known_prompt_tokens = known->tokens;
  }
  facts.tokens = request.tokens;
  facts.known_rest = request.known_rest;
  facts.other_values = own_.values_at(asker_of(request.job).owner, request.tokens, *facts.at);
  const std::size_t before = std::min(at, kTokensBefore);
  const explain::Comparison& compared = facts.comparison;
  facts.text.before = options_->text(request.tokens.subspan(at - before, before));
  facts.text.here = options_->text(up_to(here, std::min(compared.here_gap, kTokensChanged)));
  facts.text.there = options_->text(up_to(request.known_rest, std::min(compared.there_gap, kTokensChanged)));
  if (!compared.runs.empty()) {
    facts.text.after = options_->text(up_to(here.subspan(compared.here_gap), kTokensAfter));
  }
  explain::add_calls(facts, options_->text);
}

void BreakFinder::add_unknown(const BeginningRequest& request, explain::BreakFacts& facts) const {
  if (facts.known_tokens >= facts.beginning_tokens + kAlikeTokens) return;
  const Job& job = request.job;
  if (job.tenant == kNoTenant) {
    facts.other_settings = std::ranges::any_of(options_->other_settings, [&](const std::vector<TokenId>& other) {
      return begins_alike(request.tokens, other, facts.beginning_tokens);
    });
  }
  if (asker_of(job).named_session == 0) return;
  for (const Visit& visit : visits_) {
    if (visit.session != asker_of(job).named_session || visit.tenant == job.tenant) continue;
    if (!begins_alike(request.tokens, visit.beginning, facts.beginning_tokens)) continue;
    const bool adapters = has_adapters(visit.tenant) || has_adapters(job.tenant);
    (adapters ? facts.other_settings : facts.other_salt) = true;
  }
}

ShownTexts BreakFinder::shown_texts(const BeginningRequest& request) const {
  const std::size_t at = request.difference->at.value();
  const std::size_t before = std::min(at, kTokensShown);
  const TokenSpan there = up_to(request.known_rest, kTokensShown);
  return {.before = named_text(options_->text, request.tokens.subspan(at - before, before)),
          .here = named_text(options_->text, up_to(request.tokens.subspan(at), kTokensShown)),
          .there = named_text(options_->text, there),
          .shows_there = options_->shows_all || own_.has(asker_of(request.job).owner, request.tokens.first(at), there)};
}

void BreakFinder::note_visit(const BeginningRequest& request) {
  const Job& job = request.job;
  if (asker_of(job).named_session == 0) return;
  const auto same = [&](const Visit& visit) {
    return visit.session == asker_of(job).named_session && visit.tenant == job.tenant;
  };
  if (const auto found = std::ranges::find_if(visits_, same); found != visits_.end()) visits_.erase(found);
  const TokenSpan beginning = up_to(request.tokens, job.markers.beginning.value() + kBeginningTokens);
  visits_.push_back({asker_of(job).named_session, job.tenant, {beginning.begin(), beginning.end()}});
  if (visits_.size() > kMostVisits) visits_.pop_front();
}

void BreakFinder::end(const Job& job, const JobStats& stats, std::shared_ptr<const FoundBreak> found,
                      const EffectiveTokens& effective, std::int64_t now_ns) {
  if (!wanted() || job.ahead || found == nullptr) return;
  if (job.cache_prompt) {
    const auto parts = effective.asker != nullptr ? effective.asker->parts : nullptr;
    own_.remember(asker_of(job).owner, asker_of(job).conversation, effective.tokens, {parts, stats.prompt_tokens});
  }
  if (options_->sink == nullptr) return;
  options_->sink->on_explained({.id = job.id,
                                .kind = job.kind,
                                .owner = asker_of(job).owner,
                                .tenant = job.tenant,
                                .client = asker_of(job).program,
                                .ended_ns = now_ns,
                                .stats = stats,
                                .found = at_end(std::move(found), stats)});
}

}  // namespace kvkeep::server
