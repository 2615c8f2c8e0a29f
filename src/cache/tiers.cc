#include "cache/tiers.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <utility>

#include "base/assert.h"
#include "policy/share.h"

namespace kvkeep::cache {

// ---- the port ----

Status RamTier::put(const TierItem& item, const Bytes& bytes) {
  CacheLock lock(mutex_);
  if (find(item.segment) == nullptr) hold(item.segment, bytes);
  return {};
}

Result<TierPort::Bytes> RamTier::get(const TierItem& item) {
  CacheLock lock(mutex_);
  Bytes found = find(item.segment);
  if (found == nullptr) return not_found("not in memory");
  return found;
}

Status RamTier::drop(const TierItem& item) {
  CacheLock lock(mutex_);
  let_go(item.segment);
  return {};
}

// ---- payloads ----

TierPort::Bytes RamTier::find(SegmentId segment) const {
  return segment.value() < payloads_.size() ? payloads_[segment.value()] : nullptr;
}

void RamTier::hold(SegmentId segment, Bytes bytes) {
  if (segment.value() >= payloads_.size()) payloads_.resize(segment.value() + 1);
  KVKEEP_ASSERT(payloads_[segment.value()] == nullptr, "a payload in the place of another");
  const std::size_t ids_bytes = table_.info(segment).range.size() * sizeof(TokenId);
  const ByteCount charged{bytes->size() > 0 ? bytes->size() : ids_bytes};
  payloads_[segment.value()] = std::move(bytes);
  used_bytes_ += charged.value();
  table_.set_in_ram(segment, charged);
}

void RamTier::replace(SegmentId segment, Bytes equal) {
  KVKEEP_ASSERT(find(segment) != nullptr && find(segment)->size() == equal->size(), "another payload");
  payloads_[segment.value()] = std::move(equal);
}

void RamTier::let_go(SegmentId segment) {
  forget_decoded(segment);
  if (find(segment) == nullptr) return;
  used_bytes_ -= table_.entry(segment).charged.value();
  payloads_[segment.value()].reset();
  table_.set_copy(segment, kRamTier, CopyState::kAbsent);
}

// ---- decoded states ----

TierPort::Bytes RamTier::decoded(SegmentId leaf) const {
  const auto found = decoded_.find(leaf);
  return found != decoded_.end() ? found->second : nullptr;
}

void RamTier::hold_decoded(SegmentId leaf, Bytes state) {
  KVKEEP_ASSERT(find(leaf) != nullptr, "a decoded state without what it came from");
  const ByteCount size{state->size()};
  if (!decoded_.try_emplace(leaf, std::move(state)).second) return;
  used_bytes_ += size.value();
  decoded_bytes_ += size;
}

void RamTier::forget_decoded(SegmentId leaf) {
  const auto found = decoded_.find(leaf);
  if (found == decoded_.end()) return;
  const ByteCount size{found->second->size()};
  used_bytes_ -= size.value();
  decoded_bytes_ -= size;
  decoded_.erase(found);
}

void RamTier::drop_decoded(ByteCount limit) {
  const auto used_ns = [this](const auto& held) REQUIRES(kCacheLock) { return table_.entry(held.first).last_used_ns; };
  while (used() > limit && !decoded_.empty()) forget_decoded(std::ranges::min_element(decoded_, {}, used_ns)->first);
}

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

// ---- the shared tier ----

namespace {

// A point saves prefilling all that lies before it.
std::size_t saved_tokens(const format::SegmentName& name) {
  return name.kind == format::PartKind::kRows ? name.end - name.begin : name.end.value();
}

}  // namespace

Status SharedTier::put(const TierItem& /*item*/, const Bytes& /*bytes*/) {
  return no_space("the shared tier takes only what is published");
}

share::PatientRead SharedTier::patient(const TierItem& item) const {
  const policy::Rates rates{.prefill_tokens_per_s = prefill_tokens_per_s_};
  return {item.header, policy::read_patience_ms(saved_tokens(item.header.name), rates)};
}

Result<TierPort::Bytes> SharedTier::get(const TierItem& item) {
  LoadTime alone;
  return get_in_time(item, alone);
}

Result<TierPort::Bytes> SharedTier::get_in_time(const TierItem& item, LoadTime& time) {
  const share::PatientRead read = patient(item);
  time.asked_ms += read.patience_ms;
  const double left_ms = std::max(time.allowed_ms, time.asked_ms) - time.spent_ms;
  if (left_ms <= 0) return io_error("others load as well: prefilling would be faster by now");
  return reads_.get(read, left_ms);
}

void SharedTier::expect(const std::vector<TierItem>& items) {
  std::vector<share::PatientRead> reads;
  for (const TierItem& item : items) reads.push_back(patient(item));
  reads_.expect(std::move(reads));
}

double SharedTier::least_read_ms(ByteCount bytes) const {
  const double rate = store_.read_bytes_per_s();
  return reads_ahead_ && rate > 0 ? 1e3 * static_cast<double>(bytes.value()) / rate : 0;
}

Status SharedTier::drop(const TierItem& /*item*/) { return {}; }

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
    spdlog::error(
        "kv disk: cannot write the note that stored state is wrong, and later starts would use it; trying again: {}",
        noted.error().message);
}

void Distrust::heed() {
  if (found_) return;
  const Result<std::optional<std::string>> why = store_->distrusted();
  if (!why || !*why) return;
  found_ = true;
  spdlog::error(
      "kv disk: another server found the stored state of this model WRONG ({}): this server uses it no longer and "
      "stores nothing. See docs/audit.md",
      **why);
}

}  // namespace kvkeep::cache
