#include "server/run/prefill_cuts.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <utility>

#include "cache/cache.h"
#include "cache/cache_stats.h"
#include "index/text_match.h"
#include "server/run/lookup.h"

namespace kvkeep::server {

namespace {

// Most fine points of one prompt, within a share of --cache-ram. Each one interrupts the prefill, so that fewer are
// taken within a tool's result than within the tools, which are read once.
constexpr std::size_t kMostFine = 32;
constexpr std::size_t kMostSteps = 8;
constexpr std::size_t kFineShare = 64;

// A request that recomputes this many tokens for lack of a point marks a place where one is wanted.
constexpr std::size_t kLearntGap = 32;

// Lines longer than this are cut off here: their beginning is not looked for.
constexpr std::size_t kLookBackTokens = 256;

// Of cuts within a chunk, one is left before it.
std::vector<policy::Cut> outside_chunks(std::vector<policy::Cut> cuts, std::span<const TokenRange> media,
                                        Position held) {
  for (policy::Cut& cut : cuts) cut.at = outside_media(media, cut.at);
  const auto twice = std::ranges::unique(cuts, {}, &policy::Cut::at);
  cuts.erase(twice.begin(), twice.end());
  std::erase_if(cuts, [held](const policy::Cut& cut) { return cut.at <= held; });
  return cuts;
}

}  // namespace

std::optional<Position> PrefillCuts::next() const {
  return next_ < cuts_.size() ? std::optional(cuts_[next_].at) : std::nullopt;
}

std::optional<policy::Cut> PrefillCuts::take(Position at) {
  if (next() != at) return std::nullopt;
  return cuts_[next_++];
}

// ---- likely cuts ----

std::vector<policy::TextLine> LikelyCutFinder::lines(TokenSpan prompt, TokenRange range) const {
  return policy::lines_of(prompt, range, [this](TokenId id) { return texts_->text(id); });
}

void LikelyCutFinder::learn(std::uint64_t client, TokenSpan prompt, Position at) {
  if (texts_ == nullptr) return;
  const Position from{at.value() - std::min<std::uint32_t>(at.value(), kLookBackTokens)};
  std::vector<policy::TextLine> before = lines(prompt, {from, at});
  if (before.empty()) return;
  // The last line may continue at `at`; or it ended, and the next line differs in its first token.
  const std::string_view last = texts_->text(prompt[at.value() - 1]);
  const bool begins = last.empty() || last.ends_with('\n');
  std::string_view whole;  // assigned, not chosen by ?:, which would make a temporary string
  if (begins) {
    whole = before.back().text;
  } else if (before.size() > 1) {
    whole = before[before.size() - 2].text;
  }
  changed_.learn(client, begins ? std::string_view() : before.back().text, whole);
}

policy::LikelyCuts LikelyCutFinder::find(std::uint64_t client, TokenSpan prompt, TokenRange range,
                                         Position first_answer) {
  if (texts_ == nullptr) return {};
  const auto changed = [&](std::string_view line, std::string_view before) {
    return changed_.holds(client, line, before);
  };
  return policy::find_likely_cuts(lines(prompt, range), first_answer, changed);
}

// ---- the plan ----

PrefillCuts CutPlanner::plan(const PrefillStart& start, SeqId seq, const Sequence& held) {
  if (!held.track || !memory_.shape().needs_points()) return {};
  // A request that resumes after an interruption still has the cuts before it that are left.
  if (held.tokens.size() >= start.prompt_tokens) return {};
  policy::CutView view;
  view.options = options_.cuts;
  view.prompt_tokens = start.prompt_tokens;
  view.markers = start.markers;
  view.cached = held.end();
  view.known = start.known.end;
  view.points = start.known.points;
  view.runs = start.known.runs;
  add_likely(view, start, seq);
  policy::CutPlan plan = policy::plan_cuts(view);
  cache_.await_point(*held.track, plan.awaited);
  if (!plan.leave.empty()) cache_.forget_points(start.tokens, plan.leave, start.job.tenant);
  if (plan.cold_skipped && start.first) {
    spdlog::debug(
        "kv cache: no point at the stable beginning of a prompt of {} tokens: it is longer than "
        "--kv-cache-cold-max-tokens {} id={}",
        view.prompt_tokens, options_.cuts.cold_max_tokens, start.job.id);
  }
  return PrefillCuts(outside_chunks(std::move(plan.cuts), start.media, held.end()));
}

// Finds where the prompt's text suggests that other prompts of its client will part from it. Windows need no such cuts:
// they lie side by side, and a slice is soon prefilled again.
void CutPlanner::add_likely(policy::CutView& view, const PrefillStart& start, SeqId seq) {
  const cache::StateShape shape = memory_.shape();
  if (!shape.points || start.job.ahead) return;
  const Position end = Position{} + view.prompt_tokens;
  const Position told = view.markers.generation_prompt.value_or(end);
  const Position answer = view.markers.assistant_turns.empty() ? end : view.markers.assistant_turns.front();
  const bool branches = view.known < end && view.known - view.cached >= kLearntGap;
  if (branches && start.first) likely_.learn(start.job.client, start.tokens, view.known);
  if (view.cached >= told) return;
  policy::LikelyCuts found = likely_.find(start.job.client, start.tokens, {view.cached, told}, answer);
  view.likely = std::move(found.lines);
  if (!options_.fine_points || shape.whole_points) return;
  const ByteCount point{memory_.point_bytes(seq)};
  view.most_fine = policy::points_that_fit(cache_.stats().ram_budget, kFineShare, point, kMostFine);
  view.fine = std::move(found.tools);
  // The tokens that the client sent since the last answer; in its first prompt, the last message of the user.
  const Position asked = view.markers.user_turns.empty() ? answer : view.markers.user_turns.back();
  const TokenRange since{std::max(view.cached, std::min(answer, asked)), told};
  const auto steps = policy::fine_steps(since, view.options.least_step_tokens, std::min(view.most_fine, kMostSteps));
  view.fine.insert(view.fine.end(), steps.begin(), steps.end());
}

}  // namespace kvkeep::server
