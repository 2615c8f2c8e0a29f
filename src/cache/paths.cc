#include "cache/paths.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "base/assert.h"
#include "base/media_ids.h"
#include "explain/comparison.h"

namespace kvkeep::cache {

// ---- leases ----

namespace {

Tier tier_of(const Entry& known, bool in_ram) {
  if (in_ram) return Tier::kRam;
  return known.on_disk() ? Tier::kDisk : Tier::kShared;
}

}  // namespace

std::vector<LeasedStep> steps_of(const SegmentTable& table, const RamTier& ram, TokenSpan prompt,
                                 const Tenant& tenant) {
  static const std::shared_ptr<const store::Payload> kNoBytes = store::PayloadBuffer::allocate(0).freeze();
  std::vector<LeasedStep> steps;
  for (const index::Step& step : table.index().match(prompt, tenant)) {
    const Entry& known = table.entry(step.segment);
    if (!known.available()) break;
    const auto payload = known.part.size_bytes == 0 ? kNoBytes : ram.find(step.segment);
    const Tier tier = tier_of(known, payload != nullptr);
    const TokenRange stored{known.stored_begin, table.info(step.segment).range.end};
    steps.push_back({step.segment, step.range, stored, tier, ByteCount{known.part.size_bytes}, payload});
  }
  return steps;
}

std::vector<LeasedPoint> points_of(const SegmentTable& table, const RamTier& ram, const StateChains& chains,
                                   const std::vector<LeasedStep>& steps) {
  std::vector<LeasedPoint> points;
  if (!table.shape().needs_points()) return points;
  const format::PartKind kind = point_kind(table.shape());
  for (const LeasedStep& step : steps) {
    for (const SegmentId leaf : table.index().leaves_of(step.segment)) {
      const Entry& known = table.entry(leaf);
      const TokenRange stored = table.info(leaf).range;
      if (known.part.kind != kind || !known.available()) continue;
      // The prompt shares window rows up to where it leaves the segment, a state as a whole or not at all.
      const bool shared =
          kind == format::PartKind::kWindowRows ? stored.begin < step.range.end : stored.end <= step.range.end;
      if (!shared) continue;
      const TokenRange range{stored.begin, std::min(stored.end, step.range.end)};
      const Tier tier = tier_of(known, chains.in_ram(leaf));
      const bool built = known.base != kRootSegment;
      const ByteCount bytes{built ? known.part.state_bytes : known.part.size_bytes};
      points.push_back({leaf, kind, range, stored, tier, bytes, built ? ram.decoded(leaf) : ram.find(leaf)});
    }
  }
  return points;
}

void name_media(const SegmentTable& table, TokenSpan prompt, std::vector<LeasedStep>& steps,
                std::vector<LeasedPoint>& points) {
  if (steps.empty()) return;
  const TokenSpan path = prompt.first(steps.back().range.end.value());
  const auto first_media = std::ranges::find_if(path, is_media_id) - path.begin();
  LeasedIds of_path;
  if (std::cmp_less(first_media, path.size()))
    of_path = std::make_shared<const std::vector<TokenId>>(path.begin(), path.end());
  for (LeasedStep& step : steps) {
    // The prompt, or the step after this one, leaves a segment in its middle: what it stores there is another prompt's.
    const TokenSpan before = path.first(step.range.end.value());
    const TokenSpan rest =
        table.index().tokens(step.segment).subspan(step.range.end - table.info(step.segment).range.begin);
    if (rest.empty()) {
      step.ids = of_path;
    } else if (std::cmp_less(first_media, before.size()) || std::ranges::any_of(rest, is_media_id)) {
      std::vector<TokenId> ids(before.begin(), before.end());
      ids.insert(ids.end(), rest.begin(), rest.end());
      step.ids = std::make_shared<const std::vector<TokenId>>(std::move(ids));
    }
  }
  for (LeasedPoint& point : points) {
    const auto step =
        std::ranges::find_if(steps, [&](const LeasedStep& each) { return each.range.end >= point.range.end; });
    if (step != steps.end()) point.ids = step->ids;
  }
}

// ---- where a prompt leaves the known text ----

namespace {

void append(std::vector<TokenId>& to, TokenSpan tokens, std::size_t limit) {
  const TokenSpan wanted = tokens.first(std::min(tokens.size(), limit - to.size()));
  to.insert(to.end(), wanted.begin(), wanted.end());
}

// Where known text may go on after a place: from a position in a segment to the segment's end.
struct Way {
  SegmentId segment;
  Position from;
  std::size_t after;  // the way that it leaves at `from`; kNoWay: it begins at the place
  std::size_t turns;  // how often it and those before it left the newest way
  std::int64_t used_ns;
};
constexpr std::size_t kNoWay = SIZE_MAX;

// The known texts that go on after a place, from which the nearest one is chosen.
//
// Each fork has one newest way on. Candidates are first the newest text of each fork at the place itself, then those
// that leave these at a later fork, and so on; of equal ones the newest first. So an old text that differs early is
// looked at before many that differ late, which are nearly the same.
class KnownTexts {
 public:
  KnownTexts(const SegmentTable& table, const index::Cursor& place) REQUIRES(kCacheLock)
      : table_(table), place_(place.at) {
    if (place.segment != kRootSegment && place.at < table.info(place.segment).range.end) {
      add({place.segment, place.at, kNoWay, 0, used_ns(place.segment)});
    }
    for (const SegmentId child : rows_below(place.segment)) {
      if (table.info(child).range.begin != place.at) continue;
      if (place.segment == kRootSegment && table.index().tenant(child) != place.tenant) continue;
      add({child, place.at, kNoWay, 0, used_ns(child)});
    }
    find_ends();
  }

  // Returns at most `count` tokens of the text that has most in common with `rest`.
  std::vector<TokenId> nearest(TokenSpan rest, std::size_t count) const REQUIRES(kCacheLock) {
    if (ends_.empty()) return {};
    std::size_t chosen = 0;
    if (ends_.size() > 1) {
      std::vector<std::vector<TokenId>> texts;
      for (const std::size_t end : ends_) texts.push_back(text(end, explain::alike_tokens(ends_.size())));
      chosen = explain::most_alike(rest, std::vector<TokenSpan>(texts.begin(), texts.end()));
    }
    std::vector<TokenId> found = text(ends_[chosen], count);
    SegmentId last = ways_[ends_[chosen]].segment;
    while (found.size() < count) {
      const std::optional<SegmentId> next = newest_at_end(last);
      if (!next) break;
      append(found, table_.index().tokens(*next), count);
      last = *next;
    }
    return found;
  }

 private:
  // Forks beyond the tokens that are compared make no difference. Many short segments cost time each.
  static constexpr std::size_t kMostWays = 256;

  std::int64_t used_ns(SegmentId segment) const REQUIRES(kCacheLock) { return table_.entry(segment).last_used_ns; }
  std::vector<SegmentId> rows_below(SegmentId segment) const REQUIRES(kCacheLock) {
    std::vector<SegmentId> children = table_.index().children(segment);
    std::erase_if(children, [this](SegmentId child)
                                REQUIRES(kCacheLock) { return table_.info(child).kind != format::PartKind::kRows; });
    return children;
  }
  std::optional<SegmentId> newest_at_end(SegmentId segment) const REQUIRES(kCacheLock) {
    return newest_at_end(segment, rows_below(segment));
  }
  std::optional<SegmentId> newest_at_end(SegmentId segment, const std::vector<SegmentId>& children) const
      REQUIRES(kCacheLock) {
    const Position end = table_.info(segment).range.end;
    std::optional<SegmentId> newest;
    for (const SegmentId child : children) {
      if (table_.info(child).range.begin == end && (!newest || used_ns(child) > used_ns(*newest))) newest = child;
    }
    return newest;
  }

  // A heap's first is the one that comes last in this order.
  auto later() const {
    return [this](std::size_t a, std::size_t b) {
      const Way& one = ways_[a];
      const Way& other = ways_[b];
      if (one.turns != other.turns) return one.turns > other.turns;
      return one.used_ns != other.used_ns ? one.used_ns < other.used_ns : a > b;
    };
  }

  void add(const Way& way) {
    ways_.push_back(way);
    open_.push_back(ways_.size() - 1);
    std::ranges::push_heap(open_, later());
  }
  void find_ends() REQUIRES(kCacheLock) {
    for (std::size_t looked_at = 0; !open_.empty() && ends_.size() < explain::kMostAlike; ++looked_at) {
      std::ranges::pop_heap(open_, later());
      const std::size_t number = open_.back();
      open_.pop_back();
      const bool goes_on = looked_at < kMostWays && follow(number);
      if (!goes_on) ends_.push_back(number);
    }
  }
  // Opens the ways that leave this one; returns true if one does at its end.
  bool follow(std::size_t number) REQUIRES(kCacheLock) {
    const Way way = ways_[number];
    const std::vector<SegmentId> children = rows_below(way.segment);
    const std::optional<SegmentId> newest = newest_at_end(way.segment, children);
    bool goes_on = false;
    for (const SegmentId child : children) {
      const Position at = table_.info(child).range.begin;
      if (at <= way.from || at - place_ >= explain::kCompared) continue;
      add({child, at, number, way.turns + (child == newest ? 0 : 1), used_ns(child)});
      goes_on |= child == newest;
    }
    return goes_on;
  }

  // The first tokens of the text that ends with this way.
  std::vector<TokenId> text(std::size_t end, std::size_t most) const REQUIRES(kCacheLock) {
    std::vector<std::size_t> numbers;
    for (std::size_t number = end; number != kNoWay; number = ways_[number].after) numbers.push_back(number);
    std::vector<TokenId> found;
    for (auto number = numbers.rbegin(); number != numbers.rend() && found.size() < most; ++number) {
      const Way& way = ways_[*number];
      const TokenRange range = table_.info(way.segment).range;
      const Position until = std::next(number) == numbers.rend() ? range.end : ways_[*std::next(number)].from;
      append(found, table_.index().tokens(way.segment).subspan(way.from - range.begin, until - way.from), most);
    }
    return found;
  }

  const SegmentTable& table_;
  const Position place_;
  std::vector<Way> ways_;
  std::vector<std::size_t> open_;  // a heap of those that are not followed yet
  std::vector<std::size_t> ends_;  // the last ways of the candidates, the best first
};

}  // namespace

Branch branch_of(const SegmentTable& table, TokenSpan prompt, std::size_t count, const Tenant& tenant) {
  const index::Cursor cursor = table.index().advance({kRootSegment, {}, tenant}, prompt);
  const KnownTexts known(table, cursor);
  return {.at = cursor.at, .next = known.nearest(prompt.subspan(cursor.at.value()), count)};
}

// ---- anything that is stored ----

std::optional<StoredPath> random_path(const SegmentTable& table, const RamTier& ram, std::uint64_t random) {
  std::vector<SegmentId> to_read;
  std::vector<SegmentId> in_ram;
  for (SegmentId segment{1}; segment < table.end(); segment = SegmentId{segment.value() + 1}) {
    const Entry& known = table.entry(segment);
    // The state of other servers, which only the shared tier has, is theirs to audit.
    const bool own = known.in_ram() || known.on_disk() || known.in(kFirstFurtherTier) == CopyState::kHere;
    if (!known.available() || !own) continue;
    const bool read = ram.find(segment) == nullptr && ram.decoded(segment) == nullptr;
    (read ? to_read : in_ram).push_back(segment);
  }
  const std::vector<SegmentId>& among = to_read.empty() ? in_ram : to_read;
  if (among.empty()) return std::nullopt;
  const SegmentId chosen = among[random % among.size()];
  const index::SegmentInfo& info = table.info(chosen);
  const bool is_leaf = table.entry(chosen).is_leaf();
  const Position begin = is_leaf ? table.info(info.parent).range.begin : info.range.begin;
  const index::Cursor end{is_leaf ? info.parent : chosen, info.range.end};
  return StoredPath{table.index().path_tokens(end), table.index().tenant(chosen), begin};
}

// ---- leaves ----

namespace {

// The parts of [from, at.at) that lie in at.segment and have no window rows, descending.
void add_gaps(const SegmentTable& table, index::Cursor at, Position from, std::vector<TokenRange>& gaps)
    REQUIRES(kCacheLock) {
  const Position begin = std::max(from, table.info(at.segment).range.begin);
  Position open = at.at;  // tokens before it are still to be looked at
  const std::vector<SegmentId> leaves = table.index().leaves_of(at.segment);
  for (auto leaf = leaves.rbegin(); leaf != leaves.rend() && open > begin; ++leaf) {
    const index::SegmentInfo& info = table.info(*leaf);
    const bool counts = info.kind == format::PartKind::kWindowRows && table.entry(*leaf).available();
    if (!counts || info.range.begin >= open) continue;
    if (info.range.end <= begin) break;
    if (info.range.end < open) gaps.push_back({info.range.end, open});
    open = info.range.begin;
  }
  if (open > begin) gaps.push_back({begin, open});
}

// Returns true if the segment has window rows of the token at `at`.
bool window_over(const SegmentTable& table, SegmentId segment, Position at) REQUIRES(kCacheLock) {
  return std::ranges::any_of(table.index().leaves_of(segment), [&](SegmentId leaf) REQUIRES(kCacheLock) {
    const index::SegmentInfo& info = table.info(leaf);
    const bool is_over = info.kind == format::PartKind::kWindowRows && info.range.begin <= at && at < info.range.end;
    return is_over && !table.entry(leaf).forgotten;
  });
}

}  // namespace

// Goes from the path's end upwards, so that each segment counts up to where the path leaves it.
std::vector<TokenRange> window_gaps(const SegmentTable& table, index::Cursor end, Position from) {
  std::vector<TokenRange> gaps;
  for (index::Cursor at = end; at.at > from;) {
    add_gaps(table, at, from, gaps);
    const index::SegmentInfo& above = table.info(at.segment);
    at = {above.parent, above.range.begin};
  }
  std::ranges::reverse(gaps);
  return gaps;
}

index::Cursor cursor_of(const SegmentTable& table, index::Cursor end, TokenRange range) {
  index::Cursor at = end;
  while (table.info(at.segment).range.begin >= range.end) {
    const index::SegmentInfo& above = table.info(at.segment);
    at = {above.parent, above.range.begin};
  }
  KVKEEP_ASSERT(table.info(at.segment).range.begin <= range.begin, "window rows within one segment");
  return {at.segment, range.end};
}

bool others_need(const SegmentTable& table, SegmentId leaf) {
  const index::SegmentInfo& own = table.info(leaf);
  const auto lives = [&](SegmentId id) REQUIRES(kCacheLock) { return !table.entry(id).forgotten; };
  if (own.kind != format::PartKind::kWindowRows) return std::ranges::any_of(table.built_on(leaf), lives);
  if (window_over(table, own.parent, own.range.end)) return true;
  const auto goes_on = [&](SegmentId child) REQUIRES(kCacheLock) {
    const index::SegmentInfo& branch = table.info(child);
    const Position from = branch.range.begin;
    return branch.kind == format::PartKind::kRows && from > own.range.begin && from <= own.range.end &&
           window_over(table, child, from);
  };
  return std::ranges::any_of(table.index().children(own.parent), goes_on);
}

std::optional<SegmentId> own_part(const SegmentTable& table, const index::Cursor& end) {
  if (end.segment == kRootSegment || table.info(end.segment).range.end > end.at) return std::nullopt;
  std::optional<SegmentId> own;
  const auto is_other = [&](SegmentId child) REQUIRES(kCacheLock) {
    return child != own && table.info(child).kind == format::PartKind::kRows;
  };
  for (SegmentId at = end.segment; at != kRootSegment; at = table.info(at).parent) {
    if (table.entry(at).pins > 0 || std::ranges::any_of(table.index().children(at), is_other)) break;
    own = at;
  }
  return own;
}

policy::Outlook outlook_of(TokenRange range, std::optional<Position> awaited, Position end) {
  using policy::Outlook;
  if (!awaited) return Outlook::kOpen;
  const bool window_there = range.begin < *awaited && *awaited <= range.end;
  if (range.end == *awaited || window_there) return Outlook::kAwaited;
  return range.end > *awaited && range.end < end ? Outlook::kPassed : Outlook::kOpen;
}

}  // namespace kvkeep::cache
