#include "cache/lost_memory.h"

#include <algorithm>
#include <utility>

namespace kvkeep::cache {
namespace {

// Hashing a long prompt takes a tenth of a millisecond: so many leaves are looked at.
constexpr std::size_t kMostHashed = 4;
// Most losses of other prompts differ within so many tokens.
constexpr std::size_t kHeadTokens = 16;

// FNV-1a over ids, up to each of them; a sum says only that two runs probably agree.
std::vector<std::uint32_t> sums_of(TokenSpan tokens) {
  std::vector<std::uint32_t> sums;
  std::uint32_t sum = 2166136261U;
  for (const TokenId token : tokens) sums.push_back(sum = (sum ^ static_cast<std::uint32_t>(token)) * 16777619U);
  return sums;
}

PrefixHash hash_of(TokenSpan prompt, Position end, const FingerprintHash& key) {
  PrefixHasher hasher(key);
  hasher.append(prompt.first(end.value()));
  return hasher.current();
}

}  // namespace

void LostMemory::note(const index::PrefixIndex& index, SegmentId segment, explain::LossCause cause,
                      std::int64_t now_ns) {
  const index::SegmentInfo& info = index.info(segment);
  if (info.kind == format::PartKind::kRows) return note_rows(index, segment, cause, now_ns);
  const index::SegmentInfo& within = index.info(info.parent);
  const std::size_t before = info.range.end - within.range.begin;
  if (before == 0) return;
  leaves_.push_back({info.range.end, index.tokens(info.parent)[before - 1], info.end_hash, cause, now_ns});
  if (leaves_.size() > most_leaves_) leaves_.pop_front();
}

void LostMemory::note_rows(const index::PrefixIndex& index, SegmentId segment, explain::LossCause cause,
                           std::int64_t now_ns) {
  const index::SegmentInfo& info = index.info(segment);
  const TokenSpan tokens = index.tokens(segment);
  const std::vector<std::uint32_t> sums = sums_of(tokens);
  Rows& lost = rows_.emplace_back(Rows{.range = info.range,
                                       .first = tokens.front(),
                                       .head = sums[std::min(sums.size(), kHeadTokens) - 1],
                                       .whole = sums.back(),
                                       .cause = cause,
                                       .when_ns = now_ns,
                                       .begin_hash = info.begin_hash,
                                       .checks = {}});
  for (std::size_t end = kCheckedTokens; end <= sums.size(); end += kCheckedTokens)
    lost.checks.push_back(sums[end - 1]);
  if (rows_.size() > most_rows_) rows_.pop_front();
}

// Those that reach beyond `known` if the prefixes that they continued are the prompt's, the first ones first; of equal
// ones the newest.
std::vector<LostMemory::Held> LostMemory::held_of(TokenSpan prompt, Position known) const {
  std::vector<Held> held;
  for (auto rows = rows_.rbegin(); rows != rows_.rend(); ++rows) {
    const std::size_t begin = rows->range.begin.value();
    if (rows->range.end <= known || begin >= prompt.size() || prompt[begin] != rows->first) continue;
    const std::size_t size = rows->range.size();
    const TokenSpan rest = prompt.subspan(begin, std::min(size, prompt.size() - begin));
    const std::size_t head = std::min(size, kHeadTokens);
    if (rest.size() < head || sums_of(rest.first(head)).back() != rows->head) continue;
    const std::vector<std::uint32_t> sums = sums_of(rest);
    std::size_t agreed = 0;
    for (const std::uint32_t check : rows->checks) {
      if (agreed + kCheckedTokens > sums.size() || sums[agreed + kCheckedTokens - 1] != check) break;
      agreed += kCheckedTokens;
    }
    if (rest.size() == size && sums.back() == rows->whole) agreed = size;
    if (const Position end = rows->range.begin + agreed; end > known) held.push_back({&*rows, end});
  }
  const auto order = [](const Held& one) { return std::pair(one.rows->range.begin, ~one.end.value()); };
  std::ranges::sort(held, [&](const Held& a, const Held& b) { return order(a) < order(b); });
  return held;
}

std::optional<explain::LostState> LostMemory::find_rows(TokenSpan prompt, Position known,
                                                        const FingerprintHash& key) const {
  if (rows_.empty() || known.value() >= prompt.size()) return std::nullopt;
  PrefixHasher hasher(key);
  std::optional<explain::LostState> lost;
  Position reached = known;
  for (const Held& held : held_of(prompt, known)) {
    const Position begin = held.rows->range.begin;
    if (held.end <= reached) continue;
    hasher.append(prompt.subspan(hasher.position().value(), begin - hasher.position()));
    if (hasher.current() != held.rows->begin_hash) continue;
    if (!lost) lost = {.cause = held.rows->cause, .when_ns = held.rows->when_ns};
    lost->tokens += held.end - reached;
    reached = held.end;
  }
  return lost;
}

std::optional<explain::LostState> LostMemory::find_leaf(TokenSpan prompt, TokenRange within,
                                                        const FingerprintHash& key) const {
  std::vector<const Leaf*> candidates;
  for (const Leaf& leaf : leaves_) {
    const bool inside = within.begin < leaf.at && leaf.at <= within.end && leaf.at.value() <= prompt.size();
    if (inside && prompt[leaf.at.value() - 1] == leaf.last) candidates.push_back(&leaf);
  }
  std::ranges::sort(candidates, [](const Leaf* a, const Leaf* b) {
    return std::pair(a->at, a->when_ns) > std::pair(b->at, b->when_ns);
  });
  if (candidates.size() > kMostHashed) candidates.resize(kMostHashed);
  for (const Leaf* leaf : candidates) {
    if (hash_of(prompt, leaf->at, key) == leaf->end_hash) return explain::LostState{leaf->cause, leaf->when_ns, 0};
  }
  return std::nullopt;
}

}  // namespace kvkeep::cache
