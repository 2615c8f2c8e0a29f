#pragma once

// The naive twin of a server: it keeps every prompt and reply ever decoded with cache_prompt, and where policy promised
// a point. Reuse is never longer than what a text shares with a prompt, and, while nothing was lost, never shorter than
// the last promise within that. With text matching, what is reused is of a prompt of the same text that known ids make.

#include <algorithm>
#include <string>
#include <vector>

#include "server/run/history_text_fixture.h"

namespace kvkeep::server {

inline std::size_t shared_tokens(const Tokens& a, const Tokens& b) {
  return static_cast<std::size_t>(std::ranges::mismatch(a, b).in1 - a.begin());
}

// Whether one of several goes on where another was answered: how much of that it meets depends on how far it had come.
inline bool any_meets_a_reply(const std::vector<Ask>& asked, const std::vector<Reply>& replies) {
  for (const Ask& one : asked) {
    for (std::size_t i = 0; i < asked.size(); ++i) {
      const Tokens& other = asked[i].prompt;
      if (&one != &asked[i] && shared_tokens(one.prompt, other + replies[i].tokens) > other.size()) return true;
    }
  }
  return false;
}

class Twin {
 public:
  // What a model of this shape promises under these cuts.
  Twin(cache::StateShape shape, policy::CutOptions cuts) : shape_(shape), cuts_(cuts) {}

  std::size_t most(const Tokens& prompt) const { return std::min(shared(decoded_, prompt), prompt.size() - 1); }
  std::size_t least(const Tokens& prompt) const {
    if (!shape_.needs_points()) return std::min(shared(kept_, prompt), prompt.size() - 1);
    std::size_t least = 0;
    for (const Kept& point : points_) {
      const std::size_t at = point.tokens.size();
      if (at < prompt.size() && shared_tokens(point.tokens, prompt) == at) least = std::max(least, at);
    }
    if (shape_.window_tokens == 0 || is_limited()) return least;
    // Slices are no longer than this, and the window at the end of each is kept.
    const std::size_t slice = std::max<std::size_t>(shape_.window_tokens, 512);
    const std::size_t known = std::min(shared(kept_, prompt), prompt.size() - 1);
    return std::max(least, known > slice ? known - slice : 0);
  }

  // The prompts that may be evaluated in place of this one, for the longest text that is known: of all that was
  // computed, `more` included, those that match no less than what is kept. Some are longer than the context: they are
  // not taken.
  std::vector<Effective> effective(const Tokens& prompt, const std::vector<Computed>& more) const {
    std::vector<Effective> all;
    std::size_t promised = 0;
    const auto walk = [&](const Computed& known) {
      std::vector<Effective> found = TextWalk(known, prompt).all();
      const std::size_t longest = found.back().matched;
      all.insert(all.end(), std::move_iterator(found.begin()), std::move_iterator(found.end()));
      return longest;
    };
    for (const Kept& text : kept_) promised = std::max(promised, walk(text));
    for (const Kept& text : decoded_) walk(text);
    for (const Computed& text : more) walk(text);
    all.push_back({{prompt, std::vector<bool>(prompt.size(), false)}, 0});
    std::erase_if(all, [promised](const Effective& each) { return each.matched < promised; });
    return all;
  }

  // What was asked and decoded. `promised`: nothing disturbed it, so what policy cuts is kept. `exact`: the twin knows
  // all points of the model, so that it can say which lesser cuts are near to one. `sampled`: which of the prompt was.
  void note(const Ask& asked, const Reply& reply, bool promised, bool exact, const std::vector<bool>& sampled) {
    if (!asked.cache_prompt) return;
    Kept all = computed(asked, reply, sampled);
    promised = promised && reply.finish == Finish::kLength;
    if (promised && shape_.needs_points()) promise_points(asked, reply, all.tokens, exact);
    all.surely = surely_sampled(all, asked.prompt.size());
    if (promised) {
      kept_.push_back(all);
      kept_.back().sampled = all.surely;
    }
    decoded_.push_back(std::move(all));
  }

  // A request that failed: what was decoded may have been any prompt of its text.
  void note_failed(const Ask& asked, const Reply& reply) {
    if (!asked.cache_prompt) return;
    for (Effective& each : effective(asked.prompt, {})) {
      Ask as = asked;
      as.prompt = std::move(each.all.tokens);
      decoded_.push_back(computed(as, reply, each.all.sampled));
    }
  }

  struct Kept : Computed {
    bool written = false;
    std::vector<bool> surely = {};  // which of what may count as sampled does, whatever was lost
  };
  static Kept computed(const Ask& asked, const Reply& reply, const std::vector<bool>& sampled) {
    Kept all{{asked.prompt + reply.tokens, sampled}};
    if (!reply.tokens.empty()) all.tokens.pop_back();  // never decoded
    all.sampled.resize(asked.prompt.size(), false);
    all.sampled.resize(all.tokens.size(), true);
    return all;
  }

  void everything_is_written() {
    for (Kept& text : kept_) text.written = true;
    for (Kept& point : points_) point.written = true;
  }
  // Of what was promised, what is not written or too short for a file. Ids that were a prompt's, too, may be written as
  // such.
  void forget_unwritten() {
    constexpr std::size_t kLeastOnDisk = 32;
    const auto lost = [](const Kept& kept) { return !kept.written || kept.tokens.size() < kLeastOnDisk; };
    std::erase_if(kept_, lost);
    std::erase_if(points_, lost);
    for (Kept& text : kept_) {
      for (const Kept& other : decoded_) forget_sampled(text, other);
    }
  }
  // Something may be gone: nothing is promised of what was.
  void forget_promises() {
    kept_.clear();
    points_.clear();
  }
  // All that may leave where a limit holds on this path.
  void forget_points_on(const Tokens& path) {
    std::erase_if(points_, [&](const Kept& point) { return shared_tokens(point.tokens, path) == point.tokens.size(); });
  }
  // Nobody may know of it any more.
  void forget_everything() {
    forget_promises();
    decoded_.clear();
  }

 private:
  // What the other has as a prompt's.
  static void forget_sampled(Kept& text, const Kept& other) {
    const std::size_t same = shared_tokens(text.tokens, other.tokens);
    for (std::size_t i = 0; i < same; ++i)
      text.sampled[i] = text.sampled[i] && i < other.surely.size() && other.surely[i];
  }
  // Ids of the prompt that were sampled earlier, if that is kept, and the reply.
  std::vector<bool> surely_sampled(const Kept& all, std::size_t prompt_tokens) const {
    std::vector<bool> surely(all.tokens.size(), true);
    std::fill_n(surely.begin(), std::min(prompt_tokens, surely.size()), false);
    for (const Kept& text : kept_) {
      const std::size_t same = std::min(shared_tokens(text.tokens, all.tokens), prompt_tokens);
      for (std::size_t i = 0; i < same; ++i) surely[i] = surely[i] || text.sampled[i];
    }
    return surely;
  }

  bool is_limited() const { return cuts_.most_points != SIZE_MAX; }

  static std::size_t shared(const std::vector<Kept>& texts, const Tokens& prompt) {
    std::size_t most = 0;
    for (const Kept& text : texts) most = std::max(most, shared_tokens(text.tokens, prompt));
    return most;
  }

  // Under a limit points leave, the turn last and the anchors before it. Which ones, the twin can say where it knows
  // all. It never does of whole states, for those that others are built on stay, nor of windows, which count as none
  // where they lie side by side.
  void promise_points(const Ask& asked, const Reply& reply, const Tokens& all, bool exact) {
    exact = exact && !(is_limited() && (shape_.whole_points || shape_.window_tokens > 0));
    policy::CutView view;
    view.options = cuts_;
    view.prompt_tokens = asked.prompt.size();
    view.markers = asked.markers;
    view.cached = Position{} + reply.stats.cached_tokens;
    view.known = Position{} + shared(kept_, asked.prompt);
    if (exact) view.points = points_on(asked.prompt);
    const policy::CutPlan plan = policy::plan_cuts(view);
    if (exact) {
      forget_points(asked.prompt, plan.leave);
    } else if (is_limited()) {
      forget_points_on(asked.prompt);
    } else {
      forget_replaced_anchors(view, asked.prompt);
    }
    constexpr std::size_t kTurnAndAnchors = 3;
    for (const policy::Cut& cut : plan.cuts) {
      const bool sure = cut.reason == policy::CutReason::kTurn ||
                        (cut.reason == policy::CutReason::kAnchor && cuts_.most_points >= kTurnAndAnchors);
      if (sure || exact) add_point(all, cut.at.value());
    }
    if (policy::end_point_wanted(cuts_, Position{} + all.size(), Position{})) add_point(all, all.size());
  }
  // Anchors whose place a branch a little later may have taken.
  void forget_replaced_anchors(const policy::CutView& view, const Tokens& path) {
    constexpr std::size_t kOpeningTokens = 32;
    std::vector<Position> anchors;
    for (const policy::Anchor which : {policy::Anchor::kFirst, policy::Anchor::kLast}) {
      const auto anchor = policy::anchor_pos(view.options, view.markers, which);
      if (anchor && *anchor < view.cached && view.cached - *anchor < kOpeningTokens) anchors.push_back(*anchor);
    }
    std::ranges::sort(anchors);
    forget_points(path, anchors);
  }
  void forget_points(const Tokens& path, const std::vector<Position>& places) {
    std::erase_if(points_, [&](const Kept& point) {
      return std::ranges::binary_search(places, Position{} + point.tokens.size()) &&
             shared_tokens(point.tokens, path) == point.tokens.size();
    });
  }
  std::vector<Position> points_on(const Tokens& prompt) const {
    std::vector<Position> found;
    for (const Kept& point : points_) {
      if (shared_tokens(point.tokens, prompt) == point.tokens.size()) found.push_back(Position{} + point.tokens.size());
    }
    std::ranges::sort(found);
    const auto twice = std::ranges::unique(found);
    found.erase(twice.begin(), twice.end());
    return found;
  }
  void add_point(const Tokens& all, std::size_t at) {
    points_.push_back({{Tokens(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(at)), {}}, false});
  }

  const cache::StateShape shape_;
  const policy::CutOptions cuts_;
  std::vector<Kept> decoded_;  // all there ever was
  std::vector<Kept> kept_;     // what is promised of it
  std::vector<Kept> points_;
};

}  // namespace kvkeep::server
