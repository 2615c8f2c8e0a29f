#include "cache/disk_tier.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <utility>

namespace kvkeep::cache {

namespace {

// At most this share of all headers is missing in the saved index.
constexpr std::size_t kUnsavedShare = 8;

}  // namespace

DiskTier::DiskTier(std::unique_ptr<store::DiskStore> store, CacheMutex& mutex, SegmentTable& table, os::Clock& clock,
                   os::Executor& writer, std::size_t save_index_after)
    : store_(std::move(store)),
      mutex_(mutex),
      table_(table),
      clock_(clock),
      writer_(writer),
      save_index_after_(save_index_after),
      unsaved_(store_->counters().headers_read) {}

Status DiskTier::put(const TierItem& item, const Bytes& bytes) {
  return store_->put(item.header, {{item.header.name.kind, bytes->bytes()}});
}

Result<TierPort::Bytes> DiskTier::get(const TierItem& item) {
  const format::Part& part = item.header.parts.front();
  store::PayloadBuffer buffer = store::PayloadBuffer::allocate(part.size_bytes);
  TRY(store_->get(item.header, part.kind, buffer.span()));
  return std::move(buffer).freeze();
}

void DiskTier::post_touch(SegmentId segment) {
  const Entry& used = table_.entry(segment);
  if (!used.on_disk()) return;
  const std::int64_t time_ns = std::max(clock_.wall_ns(), used.kept_until_ns);
  writer_.post([this, name = table_.name_of(segment), time_ns] {
    store_->touch(name, time_ns);
    note_unsaved();
  });
}

void DiskTier::note_unsaved() {
  {
    CacheLock lock(mutex_);
    const std::size_t share = table_.index().segment_count() / kUnsavedShare;
    if (++unsaved_ < std::max(save_index_after_, share)) return;
    unsaved_ = 0;
  }
  store_->save_index();
}

// ---- distrust ----

void Distrust::find(const std::string& why) {
  if (found_.exchange(true) || store_ == nullptr) return;
  writer_.post([this, why] {
    unnoted_ = why;
    note();
  });
}

void Distrust::look() {
  if (store_ == nullptr) return;
  note();
  heed();
}

void Distrust::note() {
  if (unnoted_.empty()) return;
  const Status noted = store_->distrust(unnoted_);
  if (noted) return unnoted_.clear();
  if (!std::exchange(said_unnoted_, true))
    spdlog::error("kv disk: could not note that stored state is wrong, later starts would use it; trying again: {}",
                  noted.error().message);
}

void Distrust::heed() {
  if (found_) return;
  const Result<std::optional<std::string>> why = store_->distrusted();
  if (!why || !*why) return;
  found_ = true;
  spdlog::error(
      "kv disk: another server found that what is stored for this model is WRONG ({}): this server stops using it, and "
      "stores nothing. See docs/audit.md",
      **why);
}

}  // namespace kvkeep::cache
