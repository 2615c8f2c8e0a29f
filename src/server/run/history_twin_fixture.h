#pragma once

// The naive twin of a server: it keeps every prompt and reply ever decoded with cache_prompt, and where policy promised
// a point. Reuse is never longer than what a kept text shares with a prompt, and, while nothing was lost, never shorter
// than the last promise within that. With text matching, known ids of the same text make the prompt that is reused.

#include <algorithm>
#include <string>
#include <vector>

#include "server/run/history_text_fixture.h"

namespace kvkeep::server {

inline std::size_t shared_tokens(const Tokens& a, const Tokens& b) {
  return static_cast<std::size_t>(std::ranges::mismatch(a, b).in1 - a.begin());
}

// Whether one request continues another's reply: how much of the reply it finds depends on how far the other had come.
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
  // The promises of a model of this shape under these cuts.
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
    // Slices are no longer than this, and the window at the end of each slice is kept.
    const std::size_t slice = std::max<std::size_t>(shape_.window_tokens, 512);
    const std::size_t known = std::min(shared(kept_, prompt), prompt.size() - 1);
    return std::max(least, known > slice ? known - slice : 0);
  }

  // The prompts that may be evaluated in place of this one for the longest text that is known: of everything computed,
  // `more` included, those that match no less than what is kept. Those longer than the context are left out.
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

  // Keeps a request and its reply. `promised`: nothing disturbed the request, so that all points that policy cuts are
  // kept. `exact`: the twin knows all points of the model, so that it can say which lesser cuts lie near one.
  // `sampled`: which ids of the prompt this server sampled.
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

  // Keeps a request that failed: any prompt of its text may have been decoded.
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
    std::vector<bool> surely = {};  // which of the ids that may count as sampled do, whatever was lost
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
  // Forgets promises of state that is not written or too short for a file. Ids that were also a prompt's may be written
  // as such.
  void forget_unwritten() {
    constexpr std::size_t kLeastOnDisk = 32;
    const auto lost = [](const Kept& kept) { return !kept.written || kept.tokens.size() < kLeastOnDisk; };
    std::erase_if(kept_, lost);
    std::erase_if(points_, lost);
    for (Kept& text : kept_) {
      for (const Kept& other : decoded_) forget_sampled(text, other);
    }
  }
  // State may be gone: forget the promises for all of it.
  void forget_promises() {
    kept_.clear();
    points_.clear();
  }
  // Forgets all points that may leave because of a limit on this path.
  void forget_points_on(const Tokens& path) {
    std::erase_if(points_, [&](const Kept& point) { return shared_tokens(point.tokens, path) == point.tokens.size(); });
  }
  // The server may have forgotten everything.
  void forget_everything() {
    forget_promises();
    decoded_.clear();
  }

 private:
  // Forgets that ids were sampled, where the other text has them as a prompt's.
  static void forget_sampled(Kept& text, const Kept& other) {
    const std::size_t same = shared_tokens(text.tokens, other.tokens);
    for (std::size_t i = 0; i < same; ++i)
      text.sampled[i] = text.sampled[i] && i < other.surely.size() && other.surely[i];
  }
  // Marks ids of the prompt that were sampled earlier, if their text is kept, and the reply.
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

  // Under a limit, points leave: the turn last, the anchors before it. Where the twin knows all points, it can say
  // which. It never does for whole states, since those that others are built on stay, nor for windows, which do not
  // count where they lie side by side.
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
  // Forgets anchors whose place a branch a little later may have taken.
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
  std::vector<Kept> decoded_;  // everything that was ever decoded
  std::vector<Kept> kept_;     // the promised part of it
  std::vector<Kept> points_;
};

}  // namespace kvkeep::server
