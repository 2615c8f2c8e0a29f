#include "cache/lost_memory.h"

#include <algorithm>
#include <utility>

namespace kvkeep::cache {
namespace {

// Hashing a long prompt takes a tenth of a millisecond: so many leaves are looked at.
constexpr std::size_t kMostHashed = 4;

std::uint64_t key_of(Position begin, TokenId first) {
  return (std::uint64_t{begin.value()} << 32) | static_cast<std::uint32_t>(first);
}

// FNV-1a over ids; what it says is only how far two runs agree.
std::vector<std::uint32_t> checks_of(TokenSpan tokens) {
  std::vector<std::uint32_t> checks;
  std::uint32_t sum = 2166136261U;
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    sum = (sum ^ static_cast<std::uint32_t>(tokens[i])) * 16777619U;
    if ((i + 1) % LostMemory::kCheckedTokens == 0) checks.push_back(sum);
  }
  return checks;
}

// Tokens of the prompt's rest that agree with a lost segment's, to the nearest check.
std::size_t agreeing(TokenSpan rest, const std::vector<std::uint32_t>& checks) {
  const std::vector<std::uint32_t> own =
      checks_of(rest.first(std::min(rest.size(), checks.size() * LostMemory::kCheckedTokens)));
  const auto differ = std::ranges::mismatch(own, checks).in1;
  return static_cast<std::size_t>(differ - own.begin()) * LostMemory::kCheckedTokens;
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
  const std::uint64_t key = key_of(info.range.begin, tokens.front());
  rows_.emplace(key, Rows{info.range, info.begin_hash, info.end_hash, checks_of(tokens), ++losses_, cause, now_ns});
  oldest_rows_.emplace_back(key, losses_);
  if (rows_.size() <= most_rows_) return;
  const auto [old_key, number] = oldest_rows_.front();
  oldest_rows_.pop_front();
  const auto [first, last] = rows_.equal_range(old_key);
  const auto old = std::find_if(first, last, [&](const auto& entry) { return entry.second.number == number; });
  if (old != last) rows_.erase(old);
}

const LostMemory::Rows* LostMemory::newest(Position at, TokenId first, const PrefixHash& begin_hash) const {
  const Rows* found = nullptr;
  const auto [begin, end] = rows_.equal_range(key_of(at, first));
  for (auto entry = begin; entry != end; ++entry) {
    const Rows& rows = entry->second;
    if (rows.begin_hash == begin_hash && (found == nullptr || rows.number > found->number)) found = &rows;
  }
  return found;
}

std::optional<explain::LostState> LostMemory::find_rows(TokenSpan prompt, Position known,
                                                        const FingerprintHash& key) const {
  if (known.value() >= prompt.size() || !rows_.contains(key_of(known, prompt[known.value()]))) return std::nullopt;
  PrefixHasher hasher(key);
  hasher.append(prompt.first(known.value()));
  std::optional<explain::LostState> lost;
  while (hasher.position().value() < prompt.size()) {
    const Position at = hasher.position();
    const Rows* rows = newest(at, prompt[at.value()], hasher.current());
    if (rows == nullptr) break;
    const TokenSpan rest = prompt.subspan(at.value());
    if (!lost) lost = {.cause = rows->cause, .when_ns = rows->when_ns};
    const bool fits = rows->range.size() <= rest.size();
    if (fits) hasher.append(rest.first(rows->range.size()));
    if (!fits || hasher.current() != rows->end_hash) {
      lost->tokens += agreeing(rest, rows->checks);
      break;
    }
    lost->tokens += rows->range.size();
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
