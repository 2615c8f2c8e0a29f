#include "policy/cut.h"

#include <algorithm>
#include <iterator>
#include <tuple>
#include <utility>

namespace kvkeep::policy {

namespace {

// Cuts this near to each other are one place of the template: the end of a message and the marker that follows.
constexpr std::size_t kBoundaryTokens = 8;

// A branch this near after an anchor is where the opening of the user's turn ends, which all prompts of a client share.
constexpr std::size_t kOpeningTokens = 32;

// Likely cuts nearer than this to the point before are fine cuts: they save too little for a point on disk.
constexpr std::size_t kLikelyStepTokens = 256;
// But the last one before another point saves enough: a short task, before the turn.
constexpr std::size_t kBeforeNextTokens = 4;

// The order in which a limit keeps cuts.
enum class Rank { kTurn, kAnchor, kLastUser, kLesser };

struct Candidate {
  Position at;
  Rank rank = Rank::kLesser;
  CutReason reason = CutReason::kContinued;
  // If a position has several reasons, the first is reported.
  std::tuple<Position, Rank, CutReason> key() const { return {at, rank, reason}; }
};

bool closes(Position message_end, Position at) { return at >= message_end && at - message_end <= kBoundaryTokens; }

// The end of the last user message.
std::optional<Position> last_user_end(const PromptMarkers& markers) {
  if (markers.user_turns.empty()) return std::nullopt;
  const auto end = std::ranges::upper_bound(markers.message_ends, markers.user_turns.back());
  if (end == markers.message_ends.end()) return std::nullopt;
  return *end;
}

class Cuts {
 public:
  explicit Cuts(const CutView& view)
      : view_(view),
        end_(Position{} + view.prompt_tokens),
        first_anchor_(anchor_pos(view.options, view.markers, Anchor::kFirst)),
        last_anchor_(anchor_pos(view.options, view.markers, Anchor::kLast)),
        last_user_(view.options.loops_change ? last_user_end(view.markers) : std::nullopt) {}

  CutPlan plan() {
    add_turn();
    add_anchors();
    add_messages();
    add_likely();
    add_branch();
    add_continued();
    std::ranges::sort(all_, {}, &Candidate::key);
    CutPlan plan = within_limit(kept());
    add_fine(plan);
    plan.awaited = awaited(plan);
    return plan;
  }

 private:
  void add(Position at, Rank rank, CutReason reason) {
    if (at.value() >= view_.options.min_tokens && at <= end_) all_.push_back({at, rank, reason});
  }

  void add_turn() {
    const Position last = Position{} + (view_.prompt_tokens - 1);
    add(std::min(last, view_.markers.generation_prompt.value_or(last)), Rank::kTurn, CutReason::kTurn);
  }

  void add_anchors() {
    add_cold(last_anchor_ ? last_anchor_ : first_anchor_);
    if (first_anchor_ && last_anchor_) add_cold(first_anchor_);
  }

  void add_cold(std::optional<Position> anchor) {
    CutOptions any_length = view_.options;
    if (any_length.cold_max_tokens > 0) any_length.cold_max_tokens = SIZE_MAX;
    const auto target = cold_store_target(any_length, view_.cached, view_.prompt_tokens, anchor);
    if (!target || is_point(*target)) return;
    if (view_.prompt_tokens > view_.options.cold_max_tokens) {
      cold_skipped_ = true;
    } else {
      add(*target, anchor ? Rank::kAnchor : Rank::kLesser, anchor ? CutReason::kAnchor : CutReason::kCold);
    }
  }

  void add_messages() {
    if (last_user_) add(*last_user_, Rank::kLastUser, CutReason::kMessage);
    if (!wants_anchors()) return;  // these are lesser ones
    const auto& answers = view_.markers.assistant_turns;
    for (const Position end : view_.markers.message_ends) {
      if (answers.empty() || end <= answers.front()) add(end, Rank::kLesser, CutReason::kMessage);
    }
  }

  bool wants_anchors() const {
    return view_.options.anchor_user && view_.prompt_tokens <= view_.options.cold_max_tokens;
  }

  void add_likely() {
    if (!wants_anchors()) return;
    for (const Position at : view_.likely) add(at, Rank::kLesser, CutReason::kLikely);
  }

  // Those that lie far enough from all other points; where they are too many, the distance is doubled.
  void add_fine(CutPlan& plan) const {
    if (!wants_anchors() || view_.options.most_points != SIZE_MAX || view_.most_fine == 0) return;
    std::vector<Position> taken = view_.points;
    for (const Cut& cut : plan.cuts) taken.push_back(cut.at);
    taken.push_back(view_.cached);
    std::size_t step = std::max<std::size_t>(view_.options.least_step_tokens, 1);
    // Lines first: they change in each session. They may be all that a prompt has before its turn.
    std::vector<Position> lines = apart(view_.likely, taken, step, std::min(step, kBeforeNextTokens));
    if (lines.size() > view_.most_fine) lines.resize(view_.most_fine);
    taken.insert(taken.end(), lines.begin(), lines.end());
    std::vector<Position> fine;
    do fine = apart(view_.fine, taken, step, step);
    while (fine.size() > view_.most_fine - lines.size() && (step *= 2) > 0);
    fine.insert(fine.end(), lines.begin(), lines.end());
    for (const Position at : fine) plan.cuts.push_back({at, CutReason::kLikely, true});
    std::ranges::sort(plan.cuts, {}, &Cut::at);
  }

  // The wanted positions that lie so far after all that are taken before them, and so far before those after.
  std::vector<Position> apart(const std::vector<Position>& wanted, std::vector<Position> taken, std::size_t after,
                              std::size_t before) const {
    std::vector<Position> found;
    for (const Position at : wanted) {
      const auto near = [&](Position other) { return other > at ? other - at < before : at - other < after; };
      const bool within = at > view_.cached && at < end_ && at.value() >= view_.options.min_tokens;
      if (!within || std::ranges::any_of(taken, near)) continue;
      found.push_back(at);
      taken.push_back(at);
    }
    return found;
  }

  void add_branch() {
    if (view_.known > view_.cached && view_.known < end_) add(view_.known, Rank::kLesser, CutReason::kBranch);
  }

  void add_continued() {
    auto next = continued_store_target(view_.options, view_.cached);
    for (; next && *next <= end_; next = continued_store_target(view_.options, *next)) {
      add(*next, Rank::kLesser, CutReason::kContinued);
    }
  }

  bool is_point(Position at) const { return std::ranges::binary_search(view_.points, at); }

  // A point, an anchor or the turn that belongs to the same place, at or after a message's end.
  bool boundary_follows(Position at) const {
    const auto near = [at](Position other) { return closes(at, other); };
    return std::ranges::any_of(view_.points, near) || std::ranges::any_of(all_, [&](const Candidate& other) {
             return other.rank < Rank::kLastUser && near(other.at);
           });
  }

  // The first answer's turn cut is the point at the end of the user's message, if it was captured when that was the
  // end.
  bool at_last_user(Position at) const { return last_user_ && closes(*last_user_, at); }

  std::optional<Position> awaited(const CutPlan& plan) const {
    const auto stays = [&](Position at) { return at_last_user(at) && !std::ranges::binary_search(plan.leave, at); };
    const auto found = std::ranges::find_if(view_.points, stays);
    std::optional<Position> first;
    if (found != view_.points.end()) first = *found;
    for (const TokenRange run : view_.runs) {
      const Position at = std::max(run.begin, last_user_.value_or(run.end));
      if (at < run.end && at_last_user(at)) first = std::min(first.value_or(at), at);
    }
    return first;
  }

  bool wanted(const Candidate& candidate, Position previous) const {
    if (candidate.at <= view_.cached || is_point(candidate.at)) return false;
    const bool yields = candidate.reason == CutReason::kMessage || candidate.reason == CutReason::kLikely;
    if (yields && boundary_follows(candidate.at)) return false;
    if (candidate.reason == CutReason::kBranch && opens_after_anchor(candidate.at, previous)) return true;
    std::size_t least = std::max<std::size_t>(view_.options.least_step_tokens, 1);
    if (candidate.reason == CutReason::kLikely) least = std::max(least, kLikelyStepTokens);
    return candidate.rank != Rank::kLesser || candidate.at - previous >= least;
  }

  bool is_anchor(Position at) const { return at == first_anchor_ || at == last_anchor_; }

  bool opens_after_anchor(Position at, Position anchor) const {
    return is_anchor(anchor) && at > anchor && at - anchor < kOpeningTokens;
  }

  // Two prompts branched off here, and this one does again: the opening ends here, and no prompt returns to the anchor
  // before it. A single branch may be two questions that begin with the same word.
  bool is_replaced(Position point) const {
    const bool branches_at_point = view_.cached == view_.known && view_.known < end_ && is_point(view_.cached);
    return branches_at_point && opens_after_anchor(view_.cached, point);
  }

  // A likely cut lies just before the place where prompts did branch off.
  bool yields_to(const std::vector<Candidate>& kept, const Candidate& branch) const {
    if (branch.reason != CutReason::kBranch || kept.empty() || kept.back().reason != CutReason::kLikely) return false;
    return branch.at - kept.back().at < view_.options.least_step_tokens;
  }

  Position last_point_before(Position at) const {
    const auto after = std::ranges::upper_bound(view_.points, at);
    return after == view_.points.begin() ? Position{} : *std::prev(after);
  }

  // Walks up the prompt; a lesser cut has to save something beyond the point before it.
  std::vector<Candidate> kept() const {
    std::vector<Candidate> kept;
    auto point = view_.points.begin();
    Position previous = view_.cached;
    for (const Candidate& candidate : all_) {
      for (; point != view_.points.end() && *point <= candidate.at; ++point) previous = std::max(previous, *point);
      if (!kept.empty() && kept.back().at == candidate.at) continue;
      if (yields_to(kept, candidate)) {
        kept.pop_back();
        previous = std::max(kept.empty() ? view_.cached : kept.back().at, last_point_before(candidate.at));
      }
      if (!wanted(candidate, previous)) continue;
      kept.push_back(candidate);
      previous = candidate.at;
    }
    return kept;
  }

  Rank rank_of(Position at) const {
    Rank rank = at_last_user(at) ? Rank::kLastUser : Rank::kLesser;
    if (is_anchor(at)) rank = Rank::kAnchor;
    for (const Candidate& candidate : all_) {
      if (candidate.at == at) rank = std::min(rank, candidate.rank);
    }
    return rank;
  }

  // Existing points and new cuts together, the most useful ones: by rank, then by what they save.
  CutPlan within_limit(const std::vector<Candidate>& cuts) const {
    struct Rated {
      Position at;
      Rank rank;
      std::size_t saves;
      CutReason reason;
      bool exists;
    };
    std::vector<Rated> rated;
    CutPlan plan;
    for (const Position at : view_.points) {
      if (is_replaced(at)) {
        plan.leave.push_back(at);
      } else {
        rated.push_back({at, rank_of(at), 0, CutReason::kContinued, true});
      }
    }
    for (const Candidate& cut : cuts) rated.push_back({cut.at, cut.rank, 0, cut.reason, false});
    std::ranges::sort(rated, {}, &Rated::at);
    for (std::size_t i = 0; i < rated.size(); ++i)
      rated[i].saves = rated[i].at - (i == 0 ? Position{} : rated[i - 1].at);
    std::ranges::sort(rated, [](const Rated& a, const Rated& b) {
      return std::tuple(a.rank, b.saves, b.at) < std::tuple(b.rank, a.saves, a.at);
    });
    plan.cold_skipped = cold_skipped_;
    for (std::size_t i = 0; i < rated.size(); ++i) {
      const bool keep = i < view_.options.most_points;
      if (keep && !rated[i].exists) plan.cuts.push_back({rated[i].at, rated[i].reason});
      if (!keep && rated[i].exists) plan.leave.push_back(rated[i].at);
    }
    std::ranges::sort(plan.cuts, {}, &Cut::at);
    std::ranges::sort(plan.leave);
    return plan;
  }

  const CutView& view_;
  const Position end_;
  const std::optional<Position> first_anchor_;
  const std::optional<Position> last_anchor_;
  const std::optional<Position> last_user_;  // where its message ends, if a point is wanted there
  std::vector<Candidate> all_;
  bool cold_skipped_ = false;
};

}  // namespace

std::string_view to_string(CutReason reason) {
  switch (reason) {
    case CutReason::kAnchor: return "anchor";
    case CutReason::kCold: return "cold";
    case CutReason::kMessage: return "message";
    case CutReason::kTurn: return "turn";
    case CutReason::kBranch: return "branch";
    case CutReason::kContinued: return "continued";
    case CutReason::kLikely: return "likely";
    case CutReason::kStreamed: return "streamed";
    case CutReason::kEvict: return "evict";
    case CutReason::kShutdown: return "shutdown";
  }
  return "unknown";
}

std::size_t store_len(const CutOptions& options, std::size_t n) {
  if (n <= options.min_tokens || n - options.min_tokens <= options.boundary_trim_tokens) return n;
  std::size_t length = n - options.boundary_trim_tokens;
  if (options.boundary_align_tokens > 0) length -= length % options.boundary_align_tokens;
  return length >= options.min_tokens && length > 0 ? length : n;
}

std::optional<Position> anchor_pos(const CutOptions& options, const PromptMarkers& markers, Anchor which) {
  if (!options.anchor_user || markers.user_turns.empty()) return std::nullopt;
  const auto& answers = markers.assistant_turns;
  std::optional<Position> anchor;
  for (const Position turn : markers.user_turns) {
    const bool first = which == Anchor::kFirst && !anchor;
    const bool last = which == Anchor::kLast && (answers.empty() || turn < answers.front());
    if (first || last) anchor = turn;
  }
  if (anchor && anchor->value() < options.min_tokens) return std::nullopt;
  return anchor;
}

std::optional<Position> cold_store_target(const CutOptions& options, Position cached, std::size_t n,
                                          std::optional<Position> anchor) {
  if (n < options.min_tokens || n > options.cold_max_tokens) return std::nullopt;
  if (cached == Position{}) return anchor ? *anchor : Position{} + store_len(options, n);
  return anchor && cached < *anchor ? anchor : std::nullopt;
}

std::optional<Position> continued_store_target(const CutOptions& options, Position live) {
  if (options.continued_interval_tokens == 0) return std::nullopt;
  const std::size_t align = std::max<std::size_t>(options.boundary_align_tokens, 1);
  const std::size_t interval = std::min<std::size_t>(options.continued_interval_tokens, UINT32_MAX);
  const std::size_t step = ((interval - 1) / align + 1) * align;
  const std::size_t least = std::max<std::size_t>(live.value() + std::size_t{1}, options.min_tokens);
  const std::size_t target = ((least - 1) / step + 1) * step;
  if (target > UINT32_MAX) return std::nullopt;
  return Position{static_cast<std::uint32_t>(target)};
}

bool continued_store_due(const CutOptions& options, Position live, Position last_point) {
  if (options.most_points == 0) return false;
  const auto target = continued_store_target(options, last_point);
  return target && live >= *target;
}

bool end_point_wanted(const CutOptions& options, Position end, Position last_point) {
  return options.most_points > 0 && end.value() >= options.min_tokens && end > last_point;
}

std::vector<Position> fine_steps(TokenRange range, std::size_t least, std::size_t most) {
  std::vector<Position> steps;
  if (most == 0 || range.end <= range.begin) return steps;
  const std::size_t step = std::max({least, range.size() / (most + 1) + 1, std::size_t{1}});
  for (Position at = range.begin + step; at < range.end; at = at + step) steps.push_back(at);
  return steps;
}

KnownPath known_path(const PlanView& view, bool windowed) {
  KnownPath known;
  if (!view.cached.empty()) known.end = view.cached.back().range.end;
  for (const Resident& resident : view.residents) known.end = std::max(known.end, resident.common);
  for (const Restorable& run : view.restorable) {
    const TokenRange here{run.first, run.last + 1};
    if (windowed && !known.runs.empty() && known.runs.back().end == here.begin) {
      known.runs.back().end = here.end;  // other windows, or from another tier
    } else {
      known.runs.push_back(here);
    }
  }
  // Neighbouring points are points all the same; a window counts only at its end, and only without neighbours.
  const auto points = [windowed](TokenRange run) { return !windowed || run.size() == 1; };
  for (const TokenRange run : known.runs) {
    for (Position at = run.begin; points(run) && at < run.end; at = at + 1) known.points.push_back(at);
  }
  std::erase_if(known.runs, points);
  return known;
}

CutPlan plan_cuts(const CutView& view) { return Cuts(view).plan(); }

// ---- along a reply ----

namespace {

constexpr std::size_t kKeptWhenLeft = 2;

// Multiples of 2^j are held for 2^(j+1) strides: the higher digits of a binary counter change the more rarely.
bool is_due(std::uint32_t ordinal, std::uint32_t newest) {
  const std::uint32_t low_bit = ordinal & (~ordinal + 1);
  return newest - ordinal < 2 * std::uint64_t{low_bit};
}

}  // namespace

std::vector<Position> StreamedPoints::add(Position at, std::size_t most) {
  held_.push_back(at);
  ordinals_.push_back(++taken_);
  std::vector<Position> leave;
  std::vector<Position> held;
  std::vector<std::uint32_t> ordinals;
  for (std::size_t i = 0; i < held_.size(); ++i) {
    if (is_due(ordinals_[i], taken_)) {
      held.push_back(held_[i]);
      ordinals.push_back(ordinals_[i]);
    } else {
      leave.push_back(held_[i]);
    }
  }
  const std::size_t over = held.size() - std::min(held.size(), std::max<std::size_t>(most, 1));
  leave.insert(leave.end(), held.begin(), held.begin() + static_cast<std::ptrdiff_t>(over));
  held.erase(held.begin(), held.begin() + static_cast<std::ptrdiff_t>(over));
  ordinals.erase(ordinals.begin(), ordinals.begin() + static_cast<std::ptrdiff_t>(over));
  held_ = std::move(held);
  ordinals_ = std::move(ordinals);
  std::ranges::sort(leave);
  return leave;
}

std::vector<Position> StreamedPoints::end(bool client_left) {
  std::vector<Position> leave = std::exchange(held_, {});
  ordinals_.clear();
  taken_ = 0;
  if (client_left) leave.resize(leave.size() - std::min(leave.size(), kKeptWhenLeft));
  return leave;
}

std::size_t points_that_fit(ByteCount ram_budget, std::size_t share, ByteCount point, std::size_t most) {
  if (point == ByteCount{}) return most;
  return std::min<std::uint64_t>(most, ram_budget.value() / share / point.value());
}

}  // namespace kvkeep::policy
