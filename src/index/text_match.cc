#include "index/text_match.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <utility>

#include "base/assert.h"

namespace kvkeep::index {

namespace {

// Ids looked at in all: a multiple of the prompt, so that no set of look-alikes makes a lookup slow, and something for
// short prompts.
constexpr std::size_t kStepsPerToken = 4;
constexpr std::size_t kStepsAtLeast = 16384;

constexpr Position kNever{std::numeric_limits<std::uint32_t>::max()};

// How far a path of known ids has come in the prompt: `token` whole ids, and `byte` bytes of the next.
struct Place {
  std::size_t token = 0;
  std::size_t byte = 0;
  bool aligned() const { return byte == 0; }
};

// Follows a prompt id by id, by bytes where that is allowed.
class Follower {
 public:
  Follower(TokenSpan prompt, const TokenTexts& texts) : prompt_(prompt), texts_(texts) {}

  TokenSpan prompt() const { return prompt_; }
  bool is_next(const Place& place, TokenId id) const {
    return place.aligned() && place.token < prompt_.size() && prompt_[place.token] == id;
  }
  // Moves over a known id. Returns false if the prompt does not go on like that; the place is lost then.
  bool follow(Place& place, TokenId id, bool sampled) const {
    if (is_next(place, id)) {
      ++place.token;
      return true;
    }
    return sampled && follow_text(place, texts_.text(id));
  }

 private:
  bool follow_text(Place& place, std::string_view piece) const {
    if (piece.empty()) return false;
    while (!piece.empty()) {
      if (place.token == prompt_.size()) return false;
      const std::string_view whole = texts_.text(prompt_[place.token]);
      const std::string_view left = whole.substr(place.byte);
      const std::size_t count = std::min(left.size(), piece.size());
      if (count == 0 || left.substr(0, count) != piece.substr(0, count)) return false;
      piece.remove_prefix(count);
      place.byte += count;
      if (place.byte == whole.size()) place = {place.token + 1, 0};
    }
    return true;
  }

  TokenSpan prompt_;
  const TokenTexts& texts_;
};

void append_range(std::vector<TokenRange>& ranges, TokenRange range) {
  if (range.empty()) return;
  if (!ranges.empty() && ranges.back().end == range.begin) {
    ranges.back().end = range.end;
  } else {
    ranges.push_back(range);
  }
}

// Walks every path of the trie whose text the prompt goes on with. A path leads to each place of the trie, so none is
// visited twice.
class Search {
 public:
  Search(const PrefixIndex& index, const Follower& follower, const std::function<bool(SegmentId)>& usable,
         const Tenant& tenant)
      : index_(index),
        follower_(follower),
        usable_(usable),
        root_{kRootSegment, {}, tenant},
        steps_left_(kStepsPerToken * follower.prompt().size() + kStepsAtLeast) {}

  TextMatch run() {
    follow_ids();
    if (best_tokens_ < follower_.prompt().size()) {
      std::vector<SegmentId> own = index_.sampled_children(kRootSegment);
      std::erase_if(own, [&](SegmentId first) { return index_.tenant(first) != root_.tenant; });
      push_branches(root_, {}, std::nullopt, own);
      while (!open_.empty() && steps_left_ > 0) {
        const Branch branch = open_.back();
        open_.pop_back();
        explore(branch);
      }
    }
    return result();
  }

 private:
  // A segment and how far the path before it has come.
  struct Branch {
    SegmentId segment;
    Place place;
  };

  // The ids themselves first: they win over other ids that reach no further.
  void follow_ids() {
    for (const Step& step : index_.match(follower_.prompt(), root_.tenant)) {
      if (!usable_(step.segment)) return;
      best_ = {step.segment, step.range.end};
      best_tokens_ = step.range.end.value();
    }
  }

  void explore(const Branch& branch) {
    if (!usable_(branch.segment)) return;
    const TokenSpan tokens = index_.tokens(branch.segment);
    const SegmentInfo& info = index_.info(branch.segment);
    const std::vector<TokenRange> sampled = index_.sampled_ranges(branch.segment);
    RangeSide side = side_of(sampled, info.range.begin);
    const std::vector<SegmentId> children = index_.sampled_children(branch.segment);
    auto next_child = children.begin();
    Place place = branch.place;
    for (std::size_t i = 0; i < tokens.size(); ++i) {
      if (info.range.begin + i == side.until) side = side_of(sampled, side.until);
      if (steps_left_ == 0 || !follower_.follow(place, tokens[i], side.inside)) return;
      --steps_left_;
      const Cursor at{branch.segment, info.range.begin + (i + 1)};
      if (place.aligned() && place.token > best_tokens_) {
        best_ = at;
        best_tokens_ = place.token;
      }
      const auto here = next_child;
      while (next_child != children.end() && index_.info(*next_child).range.begin == at.at) ++next_child;
      const bool goes_on = i + 1 < tokens.size();
      push_branches(at, place, goes_on ? std::optional(tokens[i + 1]) : std::nullopt, {here, next_child});
    }
  }

  // Adds children that may go on at a cursor next to the segment's own next id: sampled ones, and on top of them the
  // one that begins with the prompt's own next id.
  void push_branches(Cursor at, Place place, std::optional<TokenId> own_next, std::span<const SegmentId> sampled) {
    if (place.token == follower_.prompt().size()) return;
    const TokenSpan next = follower_.prompt().subspan(place.token, 1);
    SegmentId same = kRootSegment;
    if (place.aligned() && own_next != next.front()) {
      const Cursor reached = index_.advance(at, next);
      if (reached.at != at.at) same = reached.segment;
    }
    for (const SegmentId child : sampled) {
      if (child != same) open_.push_back({child, place});
    }
    if (same != kRootSegment) open_.push_back({same, place});
  }

  TextMatch result() const {
    TextMatch match;
    match.head = index_.path_tokens(best_);
    match.prompt_tokens = best_tokens_;
    if (best_.segment == kRootSegment) return match;
    const std::vector<SegmentId> path = index_.path(best_.segment);
    for (std::size_t i = 0; i < path.size(); ++i) {
      // The path may leave a segment in its middle.
      const Position end = i + 1 < path.size() ? index_.info(path[i + 1]).range.begin : best_.at;
      for (const TokenRange run : index_.sampled_ranges(path[i])) {
        if (run.begin < end) append_range(match.sampled, {run.begin, std::min(run.end, end)});
      }
    }
    return match;
  }

  const PrefixIndex& index_;
  const Follower& follower_;
  const std::function<bool(SegmentId)>& usable_;
  const Cursor root_;
  std::size_t steps_left_;
  std::vector<Branch> open_;
  Cursor best_;
  std::size_t best_tokens_ = 0;
};

}  // namespace

TokenTexts::TokenTexts(const Vocabulary& vocabulary, const std::function<bool(TokenId)>& is_marker) {
  ends_.reserve(vocabulary.size());
  for (std::size_t i = 0; i < vocabulary.size(); ++i) {
    const auto id = static_cast<TokenId>(i);
    if (!is_marker(id)) bytes_ += vocabulary.piece(id, false);
    ends_.push_back(static_cast<std::uint32_t>(bytes_.size()));
  }
}

std::string_view TokenTexts::text(TokenId id) const {
  const auto i = static_cast<std::size_t>(id);
  if (id < 0 || i >= ends_.size()) return {};
  const std::uint32_t begin = i == 0 ? 0 : ends_[i - 1];
  return std::string_view(bytes_).substr(begin, ends_[i] - begin);
}

TextMatch match_text(const PrefixIndex& index, TokenSpan prompt, const TokenTexts& texts,
                     const std::function<bool(SegmentId)>& usable, const Tenant& tenant) {
  const Follower follower(prompt, texts);
  return Search(index, follower, usable, tenant).run();
}

TextMatch match_text(TokenSpan known, std::span<const TokenRange> sampled, TokenSpan prompt, const TokenTexts& texts) {
  const Follower follower(prompt, texts);
  const std::size_t same = common_prefix(known, prompt);
  Place place{same, 0};
  std::size_t head = same;
  std::size_t prompt_tokens = same;
  RangeSide side = side_of(sampled, Position{} + same);
  for (std::size_t i = same; i < known.size(); ++i) {
    if (Position{} + i == side.until) side = side_of(sampled, side.until);
    if (!follower.follow(place, known[i], side.inside)) break;
    if (!place.aligned()) continue;
    head = i + 1;
    prompt_tokens = place.token;
  }
  TextMatch match{{known.begin(), known.begin() + static_cast<std::ptrdiff_t>(head)}, prompt_tokens, {}};
  for (const TokenRange range : sampled) {
    if (range.begin.value() < head) match.sampled.push_back({range.begin, std::min(range.end, Position{} + head)});
  }
  return match;
}

Position EffectivePrompt::moved(Position at) const {
  const auto after =
      std::ranges::upper_bound(replacements, at, {}, [](const Replacement& one) { return one.prompt.begin; });
  if (after == replacements.begin()) return at;
  const Replacement& last = *std::prev(after);
  return at < last.prompt.end ? last.effective.begin : last.effective.end + (at - last.prompt.end);
}

EffectivePrompt effective_prompt(const TextMatch& match, TokenSpan prompt, const TokenTexts& texts) {
  const Follower follower(prompt, texts);
  EffectivePrompt effective;
  Place place;
  std::optional<Replacement> open;
  for (std::size_t i = 0; i < match.head.size(); ++i) {
    if (!open && !follower.is_next(place, match.head[i])) {
      open = Replacement{{Position{} + place.token, {}}, {Position{} + i, {}}};
    }
    const bool followed = follower.follow(place, match.head[i], true);
    KVKEEP_ASSERT(followed, "the head has the prompt's text");
    if (!open || !place.aligned()) continue;
    open->prompt.end = Position{} + place.token;
    open->effective.end = Position{} + (i + 1);
    effective.replacements.push_back(*std::exchange(open, std::nullopt));
  }
  KVKEEP_ASSERT(!open && place.token == match.prompt_tokens, "the head ends where a piece ends on both sides");
  effective.tokens = match.head;
  effective.tokens.insert(effective.tokens.end(), prompt.begin() + static_cast<std::ptrdiff_t>(match.prompt_tokens),
                          prompt.end());
  return effective;
}

RangeSide side_of(std::span<const TokenRange> ranges, Position at) {
  const auto next = std::ranges::upper_bound(ranges, at, {}, &TokenRange::end);  // the first that ends after `at`
  if (next == ranges.end()) return {false, kNever};
  if (at < next->begin) return {false, next->begin};
  return {true, next->end};
}

}  // namespace kvkeep::index
