#include "server/run/lookup.h"

#include <algorithm>
#include <iterator>
#include <limits>
#include <utility>

#include "base/assert.h"
#include "base/media_ids.h"
#include "cache/cache.h"
#include "explain/comparison.h"
#include "server/run/found_break.h"
#include "server/run/restore.h"

namespace kvkeep::server {

namespace {

constexpr Position kNoEnd{std::numeric_limits<std::uint32_t>::max()};

// A request starts only if this many cells are free beyond its prompt: its reply shall not at once push others out.
constexpr std::size_t kReplyRoom = 256;

// Cells that idle sequences may keep next to a request: a few short ones, or an eighth of the request's own, so that
// attention over the cells of others costs a few percent at most.
constexpr std::size_t kIdleCells = 512;
constexpr std::size_t kIdleShare = 8;

// A point may lie this far before where prompts part or end: the tokens after it are not why the rest is prefilled.
constexpr std::size_t kSmallGap = 16;

policy::PromptMarkers moved(policy::PromptMarkers markers, const index::EffectivePrompt& effective) {
  for (std::vector<Position>* places : {&markers.user_turns, &markers.assistant_turns, &markers.message_ends}) {
    for (Position& place : *places) place = effective.moved(place);
  }
  if (markers.generation_prompt) markers.generation_prompt = effective.moved(*markers.generation_prompt);
  return markers;
}

std::shared_ptr<const Asker> moved(std::shared_ptr<const Asker> asker, const index::EffectivePrompt& effective) {
  if (asker == nullptr || asker->parts == nullptr || effective.replacements.empty()) return asker;
  auto parts = std::make_shared<PromptParts>(*asker->parts);
  for (PromptPart& part : parts->parts) part.begin = effective.moved(part.begin);
  auto changed = std::make_shared<Asker>(*asker);
  changed->parts = std::move(parts);
  return changed;
}

std::string_view name_of(policy::Plan::Start start) {
  switch (start) {
    case policy::Plan::Start::kFresh: return "fresh";
    case policy::Plan::Start::kInPlace: return "in-place";
    case policy::Plan::Start::kFork: return "fork";
    case policy::Plan::Start::kWait: return "wait";
  }
  return "fresh";
}

// Keeps the deepest of the cached candidates, which come last and say most.
void leave_out_shallow(Explanation& told) {
  const std::size_t count = told.candidates.size();
  if (count <= Explanation::kMostCandidates) return;
  told.candidates_left_out = count - Explanation::kMostCandidates;
  const auto residents =
      std::ranges::count(told.candidates, policy::Candidate::Kind::kResident, &policy::Candidate::kind);
  const std::size_t kept = std::min(static_cast<std::size_t>(residents), Explanation::kMostCandidates);
  const auto first = told.candidates.begin() + static_cast<std::ptrdiff_t>(kept);
  told.candidates.erase(first, first + static_cast<std::ptrdiff_t>(told.candidates_left_out));
}

// Ids of chunks come from this server, so they are whole.
std::vector<TokenRange> chunks_of(TokenSpan tokens) {
  const auto runs = media_runs(tokens);
  KVKEEP_ASSERT(runs.ok(), "the ids of a chunk are as they were made");
  std::vector<TokenRange> chunks;
  for (const MediaRun& run : *runs) chunks.push_back(run.range);
  return chunks;
}

// All tokens after the prompt will have been sampled.
EffectiveTokens effective_tokens(SharedTokens tokens, std::span<const TokenRange> sampled,
                                 const policy::PromptMarkers& markers) {
  EffectiveTokens effective{.tokens = std::move(tokens), .sampled = {}, .markers = markers};
  effective.media = chunks_of(effective.tokens);
  effective.sampled.assign(sampled.begin(), sampled.end());
  const Position end = Position{} + effective.tokens.size();
  if (!effective.sampled.empty() && effective.sampled.back().end == end) {
    effective.sampled.back().end = kNoEnd;
  } else {
    effective.sampled.push_back({end, kNoEnd});
  }
  return effective;
}

// Where each sequence has cells of its own, no other one can take them or is slowed by them.
void show_cells(const cache::ModelMemory& memory, std::uint32_t promised, policy::PlanView& view) {
  view.forks_copy = memory.own_cells();
  view.cells_free = view.cells_total = memory.cells_total() / (memory.own_cells() ? memory.sequence_count() : 1);
  if (memory.own_cells()) return;
  const std::uint32_t free = view.cells_total - memory.cells_used();
  view.cells_free = free - std::min(free, promised);
  view.idle_cells = std::max(kIdleCells, view.prompt_tokens / kIdleShare);
}

}  // namespace

EffectiveTokens as_sent(const Job& job) {
  EffectiveTokens effective = effective_tokens(job.prompt, {}, job.markers);
  effective.asker = job.asker;
  return effective;
}

Position outside_media(std::span<const TokenRange> media, Position at) {
  const auto after = std::ranges::upper_bound(media, at, {}, &TokenRange::begin);
  if (after == media.begin()) return at;
  const TokenRange last = *std::prev(after);
  return at < last.end ? last.begin : at;
}

PromptLookup::PromptLookup(const LookupOptions& options, const cache::ModelMemory& memory, cache::Cache& cache,
                           const Sequences& sequences)
    : options_(options), memory_(memory), cache_(cache), sequences_(sequences) {}

// Looks at live sequences, too: the cache may be off.
EffectiveTokens PromptLookup::match_text(const Job& job) const {
  if (options_.texts == nullptr || !cached(job) || job.scored_prompt) return as_sent(job);
  const TokenSpan prompt = job.prompt;
  index::TextMatch best = cache_.match_text(prompt, *options_.texts, job.tenant);
  for (const Sequence& held : sequences_.all()) {
    if (!held.shared_with(job.tenant) || best.prompt_tokens == prompt.size()) continue;
    index::TextMatch match = index::match_text(held.tokens, held.occupant.sampled, prompt, *options_.texts);
    if (match.prompt_tokens > best.prompt_tokens) best = std::move(match);
  }
  index::EffectivePrompt matched = index::effective_prompt(best, prompt, *options_.texts);
  const bool fits = matched.tokens.size() <= std::max<std::size_t>(prompt.size(), options_.context_tokens - 1);
  if (!fits) return as_sent(job);
  const bool as_it_was = matched.tokens == job.prompt.all();
  SharedTokens tokens = as_it_was ? job.prompt : SharedTokens(std::move(matched.tokens));
  EffectiveTokens effective = effective_tokens(std::move(tokens), best.sampled, moved(job.markers, matched));
  effective.asker = moved(job.asker, matched);
  if (!matched.replacements.empty()) effective.text_from = matched.replacements.front().effective.begin;
  return effective;
}

FoundPath PromptLookup::find(const Job& job, TokenSpan tokens, const PlanTerms& terms, const LookupTiers& tiers,
                             Sequences::Cells cells) const {
  FoundPath found;
  if (tiers.cache && cached(job)) found.lease = cache_.lease(tokens, job.tenant);
  policy::PlanView& view = found.view;
  view.prompt_tokens = tokens.size();
  view.restore = terms.restore;
  view.rates = terms.rates;
  view.reply_room = std::min(kReplyRoom, static_cast<std::size_t>(job.max_tokens.value_or(kReplyRoom)));
  show_cells(memory_, terms.cells_promised, view);
  view.needs_points = memory_.shape().needs_points();
  view.sequence_free = sequences_.free().has_value();
  view.residents = sequences_.residents(tokens, tiers.memory && cached(job) ? &job.tenant : nullptr, cells);
  view.whole = chunks_of(tokens);
  if (found.lease != nullptr) {
    for (const cache::LeasedStep& step : found.lease->steps()) {
      view.cached.push_back({step.range, step.payload == nullptr ? step.tier : cache::Tier::kRam, step.bytes});
    }
    if (view.needs_points) view.restorable = found.lease->restorable();
  }
  found.known = policy::known_path(view, memory_.shape().window_tokens > 0);
  return found;
}

std::size_t PromptLookup::work(const Job& job, TokenSpan tokens, const PlanTerms& terms,
                               const LookupTiers& tiers) const {
  const FoundPath found = find(job, tokens, terms, tiers, Sequences::Cells::kLeaveOut);
  return tokens.size() - policy::choose_prefix(found.view).to.value();
}

std::optional<Difference> PromptLookup::difference(const Job& job, TokenSpan tokens,
                                                   std::vector<TokenId>* known_rest) const {
  if (!cached(job)) return std::nullopt;
  const cache::Branch branch = cache_.branch(tokens, SIZE_MAX, job.tenant);  // up to its end
  Position at = branch.at;
  std::vector<TokenSpan> known;  // in the model's memory
  for (const Sequence& held : sequences_.all()) {
    const Position end = Position{} + (held.shared_with(job.tenant) ? common_prefix(held.tokens, tokens) : 0);
    if (end < at || end == Position{}) continue;
    if (end > at) known.clear();
    at = end;
    const TokenSpan rest = TokenSpan(held.tokens).subspan(at.value());
    if (!rest.empty() && known.size() + 1 < explain::kMostAlike) known.push_back(rest);
  }
  const std::size_t held_count = known.size();
  if (at == branch.at && !branch.next.empty()) known.emplace_back(branch.next);
  if (known.empty()) return std::nullopt;
  const std::size_t chosen = explain::most_alike(TokenSpan(tokens).subspan(at.value()), known);
  const bool in_memory = chosen < held_count;
  const TokenSpan next = known[chosen];
  std::optional<Difference> found = difference_at(at, tokens, next, in_memory);
  if (found) found->known_beyond = next.size();
  if (found && known_rest != nullptr) known_rest->assign(next.begin(), next.end());
  return found;
}

Explanation PromptLookup::explain(const Job& job, const FoundPath& found, policy::Plan::Start start,
                                  const EffectiveTokens& effective, const std::optional<Difference>& difference) const {
  Explanation told;
  told.start = name_of(start);
  told.text_from = effective.text_from;
  told.known = found.known.end;
  told.restore = found.view.restore;
  told.rates = found.view.rates;
  if (memory_.shape().needs_points()) told.restorable_kind = cache::point_kind(memory_.shape());
  if (!cached(job)) return told;
  told.candidates = policy::candidates(found.view);
  std::erase_if(told.candidates, [&](const policy::Candidate& candidate) {
    return candidate.kind == policy::Candidate::Kind::kResident &&
           sequences_[candidate.seq].occupant.tenant != job.tenant;
  });
  leave_out_shallow(told);
  told.difference = difference;
  told.known = std::max(told.known, difference ? difference->at : Position{});
  return told;
}

MissReason PromptLookup::miss_reason(const Job& job, std::size_t prompt_tokens, Position known_to, std::size_t reused,
                                     const std::optional<MissReason>& failed) const {
  if (!job.cache_prompt) return MissReason::kCacheOff;
  if (job.scored_prompt) return MissReason::kPromptScored;
  if (!cached(job)) return MissReason::kNotCacheable;
  const std::size_t known = std::max<std::size_t>(known_to.value(), reused);
  const bool small_gap = known - reused <= kSmallGap;
  if (known > 0 && reused + 1 >= prompt_tokens) return MissReason::kWholePrompt;
  if (failed) return *failed;
  if (reused > 0 && small_gap && known >= prompt_tokens) return MissReason::kWholePrompt;
  // Prompts that share less than the least length of a point share little more than the template's beginning.
  const bool unlike = known <= job.markers.beginning.value() ||
                      (reused == 0 && (small_gap || known_to.value() < options_.least_point_tokens));
  if (unlike) return MissReason::kNothingCached;
  return small_gap ? MissReason::kNewTokens : MissReason::kNoPoint;
}

Inspection PromptLookup::inspect(InspectedPrompt prompt, const PlanTerms& terms) const {
  Job job;
  job.prompt = std::move(prompt.tokens);
  job.cache_prompt = prompt.cache_prompt;
  job.tenant = prompt.tenant;
  job.markers.beginning = prompt.beginning;
  const EffectiveTokens effective = match_text(job);
  const FoundPath found = find(job, effective.tokens, terms);
  const policy::Plan plan = policy::make_plan(found.view);
  const policy::CachedPrefix prefix = policy::choose_prefix(found.view);  // from the view: a plan that waits has none
  JobStats stats;
  stats.prompt_tokens = effective.tokens.size();
  count_prefix(prefix, found.lease, stats);
  if (effective.text_from && *effective.text_from < prefix.to) stats.source = as_text(stats.source);
  const auto too_slow = prefix.too_slow ? std::optional(MissReason::kLoadTooSlow) : std::nullopt;
  stats.miss = miss_reason(job, effective.tokens.size(), found.known.end, prefix.to.value(), too_slow);
  const std::optional<Difference> leaves = difference(job, effective.tokens);
  return {stats, job.prompt.size(), explain(job, found, plan.start, effective, leaves)};
}

// Counts what a restore would count when it is done.
void PromptLookup::count_prefix(const policy::CachedPrefix& prefix, std::shared_ptr<cache::Lease> lease,
                                JobStats& stats) const {
  stats.cached_tokens = prefix.to.value();
  stats.memory_tokens = prefix.from_memory.value();
  if (stats.memory_tokens > 0) stats.source = CacheSource::kMemoryToken;
  if (lease == nullptr) return;
  Restore restore;
  restore.begin(std::move(lease), prefix.to, prefix.point);
  const bool rowless = memory_.rows_bytes(1) == 0;
  restore.count({.kind = RestoreUnit::Kind::kRows, .range = {prefix.from_memory, prefix.to}}, rowless, stats);
  if (!prefix.point) return;
  restore.count({.kind = RestoreUnit::Kind::kPoint, .range = {prefix.to, prefix.to}, .point = prefix.to}, rowless,
                stats);
}

}  // namespace kvkeep::server
