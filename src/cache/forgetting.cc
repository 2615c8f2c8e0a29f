#include "cache/forgetting.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <utility>

namespace kvkeep::cache {

void Forgetting::release(std::span<const SegmentId> held) {
  CacheLock lock(mutex_);
  for (const SegmentId segment : held) table_.unpin(segment);
  if (!roots_.empty()) sweep();
}

// ---- dying ----

// At most kMaxBuiltStates deep.
void Forgetting::forget(SegmentId segment, std::optional<explain::LossCause> cause) {
  if (table_.entry(segment).forgotten) return;
  table_.set_forgotten(segment, cause);
  roots_.push_back(segment);
  for (const SegmentId built : table_.built_on(segment)) forget(built, cause);
}

void Forgetting::report_damaged(SegmentId segment, explain::LossCause cause) {
  CacheLock lock(mutex_);
  ++damaged_;
  if (!table_.entry(segment).forgotten) log_damaged(segment, cause);
  forget(segment, cause);
  sweep();
}

// Users who see long conversations prefilled again need to know why.
void Forgetting::log_damaged(SegmentId segment, explain::LossCause cause) const {
  const TokenRange range = table_.info(segment).range;
  const std::string file = format::file_name(table_.name_of(segment));
  const char* what = cause == explain::LossCause::kRefused ? "whole, but refused by the model's memory" : "damaged";
  if (table_.entry(segment).is_leaf()) {
    return spdlog::warn(
        "kv cache: dropped the state at token {} of a prompt, which is {} (file {}); it is computed anew",
        range.end.value(), what, file);
  }
  std::vector<SegmentId> lost = table_.subtree(segment);
  std::ranges::sort(lost);
  const auto twice = std::ranges::unique(lost);
  lost.erase(twice.begin(), twice.end());
  ByteCount bytes;
  for (const SegmentId each : lost) bytes += ByteCount{each == segment ? 0 : table_.entry(each).part.size_bytes};
  spdlog::warn(
      "kv cache: the rows of tokens {} to {} of a prompt are {} (file {}): dropped with {} segments and points "
      "({} MiB) that continue them; the next request computes them anew",
      range.begin.value(), range.end.value(), what, file, lost.size() - 1, bytes.value() >> 20);
}

void Forgetting::forget_copy(SegmentId segment, TierId tier) {
  table_.set_copy(segment, tier, CopyState::kAbsent);
  const Entry& left = table_.entry(segment);
  if (left.in_ram() || left.below_ram()) return;
  forget(segment, explain::LossCause::kElsewhere);
  sweep();
}

// ---- going ----

void Forgetting::sweep() {
  std::vector<SegmentId> waiting;
  for (const SegmentId root : std::exchange(roots_, {})) {
    if (!table_.index().contains(root)) continue;  // went with a forgotten ancestor
    if (table_.any_in_subtree(root, [](const Entry& entry) { return entry.in_use(); })) {
      waiting.push_back(root);
    } else {
      erase_subtree(root);
    }
  }
  roots_ = std::move(waiting);
}

void Forgetting::erase_subtree(SegmentId root) {
  const std::vector<SegmentId> all = table_.subtree(root);
  const std::optional<explain::LossCause> cause = table_.entry(root).loss;
  for (auto last = all.rbegin(); last != all.rend(); ++last) {
    if (table_.index().contains(*last)) erase(*last, cause);  // a state may come several times
  }
}

void Forgetting::erase(SegmentId segment, std::optional<explain::LossCause> cause) {
  if (cause) lost_.note(table_.index(), segment, *cause, clock_.wall_ns());
  for (const LowerTier& tier : lower_) {
    if (table_.entry(segment).in(tier.id) != CopyState::kHere) continue;
    tier.writer->post([port = tier.port, item = table_.named_item(segment)] { (void)port->drop(item).ok(); });
  }
  ram_.let_go(segment);
  table_.erase(segment);
}

std::optional<explain::LostState> Forgetting::lost(TokenSpan prompt, TokenRange unused, const Tenant& tenant,
                                                   const FingerprintHash& key) const {
  if (!roots_.empty()) {
    const index::Cursor end = table_.index().advance({kRootSegment, {}, tenant}, prompt);
    const std::size_t tokens = end.at - std::min(end.at, unused.end);
    for (const SegmentId on_path :
         end.segment == kRootSegment ? std::vector<SegmentId>() : table_.index().path(end.segment)) {
      const Entry& entry = table_.entry(on_path);
      if (entry.forgotten && entry.loss) return explain::LostState{*entry.loss, clock_.wall_ns(), tokens};
    }
  }
  const auto rows = lost_.find_rows(prompt, unused.end, key);
  return rows ? rows : lost_.find_leaf(prompt, unused, key);
}

std::optional<Position> Forgetting::forgotten_from(SegmentId segment) const {
  if (roots_.empty() || segment == kRootSegment) return std::nullopt;
  for (const SegmentId on_path : table_.index().path(segment)) {
    if (table_.entry(on_path).forgotten) return table_.info(on_path).range.begin;
  }
  return std::nullopt;
}

bool Forgetting::is_unwanted(SegmentId segment) const {
  if (roots_.empty() || segment == kRootSegment) return false;
  const std::vector<SegmentId> path = table_.index().path(segment);
  return std::ranges::any_of(path, [this](SegmentId on_path) REQUIRES(kCacheLock) {
    return table_.entry(on_path).loss == explain::LossCause::kForgotten;
  });
}

}  // namespace kvkeep::cache
