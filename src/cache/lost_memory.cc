#include "cache/lost_memory.h"

#include <algorithm>
#include <functional>
#include <iterator>
#include <numeric>
#include <tuple>
#include <utility>

namespace kvkeep::cache {
namespace {

// Hashes up to so many leaves are compared.
constexpr std::size_t kMostHashed = 4;
// Most losses of other prompts differ within so many tokens.
constexpr std::size_t kHeadTokens = 16;

// FNV-1a over ids; a sum says only that two runs probably agree.
constexpr std::uint32_t kNoSum = 2166136261U;
std::uint32_t add_to_sum(std::uint32_t sum, TokenId token) {
  return (sum ^ static_cast<std::uint32_t>(token)) * 16777619U;
}
std::uint32_t sum_of(TokenSpan tokens) { return std::accumulate(tokens.begin(), tokens.end(), kNoSum, add_to_sum); }

// The sums up to each token, no further than anybody asks.
class Sums {
 public:
  // Of other tokens; the memory is used again.
  void begin(TokenSpan tokens) {
    tokens_ = tokens;
    sums_.clear();
  }
  // Returns true if the tokens begin with a run of this length and sum. Precondition: size > 0.
  bool begin_with(std::size_t size, std::uint32_t sum) {
    if (size > tokens_.size()) return false;
    while (sums_.size() < size) {
      sums_.push_back(add_to_sum(sums_.empty() ? kNoSum : sums_.back(), tokens_[sums_.size()]));
    }
    return sums_[size - 1] == sum;
  }
  // Returns the sums up to each token.
  const std::vector<std::uint32_t>& all() {
    begin_with(tokens_.size(), 0);
    return sums_;
  }

 private:
  TokenSpan tokens_;
  std::vector<std::uint32_t> sums_;
};

// Returns how many tokens of such a segment the sums begin with, as far as its checks tell.
std::size_t agreed_tokens(std::size_t size, const std::vector<std::uint32_t>& checks, std::uint32_t whole, Sums& sums) {
  std::size_t agreed = 0;
  for (const std::uint32_t check : checks) {
    if (!sums.begin_with(agreed + LostMemory::kCheckedTokens, check)) return agreed;
    agreed += LostMemory::kCheckedTokens;
  }
  return sums.begin_with(size, whole) ? size : agreed;
}

}  // namespace

// ---- remembering ----

void LostMemory::note(const index::PrefixIndex& index, SegmentId segment, explain::LossCause cause,
                      std::int64_t now_ns) {
  const index::SegmentInfo& info = index.info(segment);
  if (info.kind == format::PartKind::kRows) return note_rows(index, segment, cause, now_ns);
  const index::SegmentInfo& within = index.info(info.parent);
  const std::size_t before = info.range.end - within.range.begin;
  if (before == 0) return;
  if (const auto known = leaf_at_.find(info.end_hash); known != leaf_at_.end()) leaves_.erase(known->second);
  leaves_.push_back({info.range.end, index.tokens(info.parent)[before - 1], info.end_hash, cause, now_ns});
  leaf_at_[info.end_hash] = std::prev(leaves_.end());
  if (leaves_.size() <= most_leaves_) return;
  leaf_at_.erase(leaves_.front().end_hash);
  leaves_.pop_front();
}

void LostMemory::note_rows(const index::PrefixIndex& index, SegmentId segment, explain::LossCause cause,
                           std::int64_t now_ns) {
  const index::SegmentInfo& info = index.info(segment);
  if (Rows* const known = find(info.begin_hash, info.end_hash)) {
    known->cause = cause;
    known->when_ns = now_ns;
    ages_.splice(ages_.end(), ages_, known->age);
    return;
  }
  const TokenSpan tokens = index.tokens(segment);
  Sums counted;
  counted.begin(tokens);
  const std::vector<std::uint32_t>& sums = counted.all();
  const Slot slot = free_slot();
  Rows& lost = rows_[slot];
  lost = {.range = info.range,
          .head = sums[std::min(sums.size(), kHeadTokens) - 1],
          .whole = sums.back(),
          .cause = cause,
          .when_ns = now_ns,
          .begin_hash = info.begin_hash,
          .end_hash = info.end_hash,
          .checks = {},
          .age = std::prev(ages_.end())};
  for (std::size_t end = kCheckedTokens; end <= sums.size(); end += kCheckedTokens)
    lost.checks.push_back(sums[end - 1]);
  heads_[slot] = {.begin = info.range.begin, .first = tokens.front()};
  join(slot);
}

LostMemory::Rows* LostMemory::find(const PrefixHash& begin_hash, const PrefixHash& end_hash) {
  const auto alike = by_begin_.find(begin_hash);
  if (alike == by_begin_.end()) return nullptr;
  const auto same = std::ranges::find_if(alike->second, [&](Slot slot) { return rows_[slot].end_hash == end_hash; });
  return same == alike->second.end() ? nullptr : &rows_[*same];
}

// Returns a slot whose age is the newest.
LostMemory::Slot LostMemory::free_slot() {
  if (rows_.size() < most_rows_) {
    ages_.push_back(static_cast<Slot>(rows_.size()));
    rows_.emplace_back();
    heads_.emplace_back();
    return ages_.back();
  }
  leave(ages_.front());
  ages_.splice(ages_.end(), ages_, ages_.begin());
  return ages_.back();
}

void LostMemory::join(Slot slot) {
  const Rows& rows = rows_[slot];
  heads_[slot].continues = ends_.contains(rows.begin_hash);
  by_begin_[rows.begin_hash].push_back(slot);
  ends_.insert(rows.end_hash);
  mark(rows.end_hash, true);
}

void LostMemory::leave(Slot slot) {
  const Rows& rows = rows_[slot];
  const auto alike = by_begin_.find(rows.begin_hash);
  std::erase(alike->second, slot);
  if (alike->second.empty()) by_begin_.erase(alike);
  ends_.erase(ends_.find(rows.end_hash));
  if (!ends_.contains(rows.end_hash)) mark(rows.end_hash, false);
}

void LostMemory::mark(const PrefixHash& begin_hash, bool continues) {
  const auto after = by_begin_.find(begin_hash);
  if (after == by_begin_.end()) return;
  for (const Slot slot : after->second) heads_[slot].continues = continues;
}

// ---- searching ----

// Of losses that continue others only the first ones: those that go on from one are found by its end.
LostMemory::Begins LostMemory::begins_of(TokenSpan prompt) const {
  Begins begins;
  for (std::size_t slot = 0; slot < heads_.size(); ++slot) {
    const Head& head = heads_[slot];
    const std::size_t begin = head.begin.value();
    if (head.continues || begin >= prompt.size() || prompt[begin] != head.first || begins.contains(head.begin))
      continue;
    const std::size_t size = std::min(rows_[slot].range.size(), kHeadTokens);
    if (prompt.size() - begin < size || sum_of(prompt.subspan(begin, size)) != rows_[slot].head) continue;
    begins.emplace(head.begin, std::nullopt);
  }
  return begins;
}

std::optional<explain::LostState> LostMemory::find_rows(TokenSpan prompt, Position known,
                                                        const FingerprintHash& key) const {
  if (rows_.empty() || known.value() >= prompt.size()) return std::nullopt;
  PrefixHasher hasher(key);
  const Rows* first = nullptr;  // of those that reach beyond the known part; of equal ones the longest, then the newest
  Position first_end;
  Position reached = known;
  Sums sums;
  for (Begins begins = begins_of(prompt); !begins.empty(); begins.erase(begins.begin())) {
    const auto& [begin, hash] = *begins.begin();
    if (!hash) hasher.append(prompt.subspan(hasher.position().value(), begin - hasher.position()));
    const auto alike = by_begin_.find(hash ? *hash : hasher.current());
    if (alike == by_begin_.end()) continue;
    sums.begin(prompt.subspan(begin.value()));
    for (const Slot slot : alike->second) {
      const Rows& rows = rows_[slot];
      if (!sums.begin_with(std::min(rows.range.size(), kHeadTokens), rows.head)) continue;
      const std::size_t agreed = agreed_tokens(rows.range.size(), rows.checks, rows.whole, sums);
      const Position end = begin + agreed;
      if (agreed == rows.range.size()) begins[end] = rows.end_hash;
      if (end <= known) continue;
      const auto rank = [](const Rows& each, Position to) {
        return std::tuple(~each.range.begin.value(), to, each.when_ns);
      };
      if (first == nullptr || rank(rows, end) > rank(*first, first_end)) first = &rows, first_end = end;
      reached = std::max(reached, end);
    }
  }
  if (first == nullptr) return std::nullopt;
  return explain::LostState{.cause = first->cause, .when_ns = first->when_ns, .tokens = reached - known};
}

std::optional<explain::LostState> LostMemory::find_leaf(TokenSpan prompt, TokenRange within,
                                                        const FingerprintHash& key) const {
  std::vector<const Leaf*> candidates;
  for (const Leaf& leaf : leaves_) {
    const bool inside = within.begin < leaf.at && leaf.at <= within.end && leaf.at.value() <= prompt.size();
    if (inside && prompt[leaf.at.value() - 1] == leaf.last) candidates.push_back(&leaf);
  }
  std::ranges::sort(candidates, std::greater{}, [](const Leaf* leaf) { return std::pair(leaf->at, leaf->when_ns); });
  if (candidates.size() > kMostHashed) candidates.resize(kMostHashed);
  std::ranges::reverse(candidates);
  std::optional<explain::LostState> deepest;
  PrefixHasher hasher(key);
  for (const Leaf* leaf : candidates) {
    hasher.append(prompt.subspan(hasher.position().value(), leaf->at - hasher.position()));
    if (hasher.current() == leaf->end_hash) deepest = explain::LostState{leaf->cause, leaf->when_ns, 0};
  }
  return deepest;
}

}  // namespace kvkeep::cache
