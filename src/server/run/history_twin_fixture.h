#pragma once

// The naive twin of a server: it keeps every prompt and reply ever decoded with cache_prompt, and where policy promised
// a point. Reuse is never longer than what a text shares with a prompt, and, while nothing was lost, never shorter than
// the last promise within that.

#include <algorithm>
#include <string>
#include <vector>

#include "server/run/history_world_fixture.h"

namespace kvkeep::server {

inline std::size_t shared_tokens(const Tokens& a, const Tokens& b) {
  return static_cast<std::size_t>(std::ranges::mismatch(a, b).in1 - a.begin());
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
    if (shape_.window_tokens == 0) return least;
    // Slices are no longer than this, and the window at the end of each is kept.
    const std::size_t slice = std::max<std::size_t>(shape_.window_tokens, 512);
    const std::size_t known = std::min(shared(kept_, prompt), prompt.size() - 1);
    return std::max(least, known > slice ? known - slice : 0);
  }

  // What was asked and decoded. `promised`: nothing disturbed it, so what policy cuts is kept. `exact`: the twin knows
  // all points of the model, so that it can say which lesser cuts are near to one.
  void note(const Ask& asked, const Reply& reply, bool promised, bool exact) {
    if (!asked.cache_prompt) return;
    Tokens all = asked.prompt + reply.tokens;
    if (!reply.tokens.empty()) all.pop_back();  // never decoded
    promised = promised && reply.finish == Finish::kLength;
    if (promised && shape_.needs_points()) promise_points(asked, reply, all, exact);
    if (promised) kept_.push_back({all, false});
    decoded_.push_back({std::move(all), false});
  }

  void everything_is_written() {
    for (Kept& text : kept_) text.written = true;
    for (Kept& point : points_) point.written = true;
  }
  // Of what was promised, what is not written or too short for a file.
  void forget_unwritten() {
    constexpr std::size_t kLeastOnDisk = 32;
    const auto lost = [](const Kept& kept) { return !kept.written || kept.tokens.size() < kLeastOnDisk; };
    std::erase_if(kept_, lost);
    std::erase_if(points_, lost);
  }
  // Something may be gone: nothing is promised of what was.
  void forget_promises() {
    kept_.clear();
    points_.clear();
  }
  // Nobody may know of it any more.
  void forget_everything() {
    forget_promises();
    decoded_.clear();
  }

 private:
  struct Kept {
    Tokens tokens;
    bool written = false;
  };

  static std::size_t shared(const std::vector<Kept>& texts, const Tokens& prompt) {
    std::size_t most = 0;
    for (const Kept& text : texts) most = std::max(most, shared_tokens(text.tokens, prompt));
    return most;
  }

  void promise_points(const Ask& asked, const Reply& reply, const Tokens& all, bool exact) {
    policy::CutView view;
    view.options = cuts_;
    view.prompt_tokens = asked.prompt.size();
    view.markers = asked.markers;
    view.cached = Position{} + reply.stats.cached_tokens;
    view.known = Position{} + shared(kept_, asked.prompt);
    if (exact) view.points = points_on(asked.prompt);
    for (const policy::Cut& cut : policy::plan_cuts(view).cuts) {
      const bool sure = cut.reason == policy::CutReason::kTurn || cut.reason == policy::CutReason::kAnchor;
      if (sure || exact) add_point(all, cut.at.value());
    }
    if (policy::end_point_wanted(cuts_, Position{} + all.size(), Position{})) add_point(all, all.size());
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
    points_.push_back({Tokens(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(at)), false});
  }

  const cache::StateShape shape_;
  const policy::CutOptions cuts_;
  std::vector<Kept> decoded_;  // all there ever was
  std::vector<Kept> kept_;     // what is promised of it
  std::vector<Kept> points_;
};

}  // namespace kvkeep::server
