#include "server/routes/turn_keeper.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <iterator>
#include <utility>

#include "base/media_ids.h"

namespace kvkeep::server {
namespace {

constexpr std::size_t kMostWaiting = 256;
// After an error on disk, this many turns pass until the next try.
constexpr std::size_t kTurnsBetweenTries = 16;

// A look-up has a deadline of its own, which is shorter if the tier is fast.
constexpr std::int64_t kMostWaitNs = 300'000'000;
constexpr std::int64_t kAskAgainNs = 3'000'000'000;  // as for segments
constexpr std::int64_t kLongestAbsentNs = 60'000'000'000;
constexpr std::size_t kMostAbsent = 4'096;  // places that are remembered
constexpr std::size_t kMostPlaces = 256;    // of one prompt: the last ones

using Records = std::vector<format::SampledTurnRecord>;

std::vector<std::byte> record_of(const PrefixHash& before, const chat::SampledTurn& turn) {
  return format::encode_sampled_turn({before, turn.ids, turn.call_ids});
}

// Returns false if no model with such a vocabulary can have sampled the turn.
bool is_possible(const format::SampledTurnRecord& turn, std::size_t vocabulary_size) {
  return are_tokens(turn.ids, vocabulary_size);
}

// The turns of a shared record that are possible.
Result<Records> read_shared(ByteSpan record, std::size_t vocabulary_size) {
  TRY_ASSIGN(Records turns, format::decode_shared_turns(record));
  std::erase_if(turns, [&](const auto& turn) { return !is_possible(turn, vocabulary_size); });
  return turns;
}

// The offered turns are the newest.
std::vector<std::byte> merge_shared(ByteSpan there, ByteSpan offered, std::size_t vocabulary_size) {
  Records turns;
  if (auto known = read_shared(there, vocabulary_size); known.ok()) turns = std::move(*known);
  Records newest = format::decode_shared_turns(offered).value();
  std::erase_if(turns, [&](const auto& turn) { return turn.before != newest.front().before; });
  std::ranges::move(newest, std::back_inserter(turns));
  return format::encode_shared_turns(std::move(turns), format::kMostRecordBytes);
}

}  // namespace

TurnKeeper::TurnKeeper(TurnKeeperOptions options, os::FileSystem& files, os::Executor& executor)
    : options_(std::move(options)), files_(files), executor_(executor), memory_(options_.memory) {
  if (options_.path.empty()) return;
  load();
  executor_.post([this] { rewrite(); });
}

TurnKeeper::~TurnKeeper() {
  if (!options_.path.empty()) executor_.drain();
}

void TurnKeeper::load() {
  // The file may be twice the limit, plus the record that made it so.
  const ByteCount most = options_.memory + options_.memory + options_.memory;
  const auto records = store::read_records(files_, options_.path, format::kSampledTurnRecords, most);
  if (!records) return spdlog::warn("sampled turns cannot be read: {}; starting without any", records.error().message);
  bool damaged = records->damaged;
  MutexLock lock(mutex_);
  for (const auto& payload : records->payloads) {
    auto turn = read(payload);
    damaged |= !turn;
    if (turn) memory_.remember(turn->before, {std::move(turn->ids), std::move(turn->call_ids)});
  }
  if (damaged)
    spdlog::warn("sampled turns: {} is damaged; using the {} turns that could be read", options_.path, memory_.size());
}

Result<format::SampledTurnRecord> TurnKeeper::read(ByteSpan record) const {
  TRY_ASSIGN(format::SampledTurnRecord turn, format::decode_sampled_turn(record));
  if (!is_possible(turn, options_.vocabulary_size)) return damaged("sampled turn: ids of another vocabulary");
  return turn;
}

std::vector<chat::TurnMemory::Turn> TurnKeeper::find(const PrefixHash& before) {
  MutexLock lock(mutex_);
  return memory_.find(before);
}

void TurnKeeper::remember(const PrefixHash& before, chat::SampledTurn turn) {
  if (shares()) offer(before, turn);
  keep(before, std::move(turn));
}

// Other servers may have published other replies to the same prompt, and what this one published may be gone.
void TurnKeeper::offer(const PrefixHash& before, const chat::SampledTurn& turn) {
  Records turns{{before, turn.ids, turn.call_ids}};
  {
    MutexLock lock(mutex_);
    for (const auto& known : memory_.find(before)) turns.insert(turns.begin(), {before, known->ids, known->call_ids});
  }
  (void)options_.shared->offer_record(before, format::encode_shared_turns(std::move(turns), format::kMostRecordBytes),
                                      [size = options_.vocabulary_size](ByteSpan there, ByteSpan offered) {
                                        return merge_shared(there, offered, size);
                                      });
}

void TurnKeeper::keep(const PrefixHash& before, chat::SampledTurn turn) {
  std::vector<std::byte> record;
  if (!options_.path.empty()) record = record_of(before, turn);
  MutexLock lock(mutex_);
  if (!memory_.remember(before, std::move(turn)) || options_.path.empty()) return;
  if (waiting_ >= kMostWaiting) {
    ++unwritten_;
    return;
  }
  ++waiting_;
  executor_.post([this, held = std::move(record)] {
    write(held);
    MutexLock written(mutex_);
    --waiting_;
  });
}

std::vector<PrefixHash> TurnKeeper::unknown_places(const std::vector<PrefixHash>& places,
                                                   std::vector<PrefixHash>& known) {
  std::vector<PrefixHash> unknown;
  const std::int64_t now_ns = options_.clock->monotonic_ns();
  MutexLock lock(mutex_);
  for (const PrefixHash& place : places) {
    const auto absent = absent_.find(place);
    if (!memory_.find(place).empty()) {
      known.push_back(place);
    } else if (absent == absent_.end() || now_ns >= absent->second.until_ns) {
      unknown.push_back(place);
    }
  }
  if (unknown.size() > kMostPlaces) unknown.erase(unknown.begin(), unknown.end() - kMostPlaces);
  return unknown;
}

void TurnKeeper::note_absent(const std::vector<PrefixHash>& places) {
  const std::int64_t now_ns = options_.clock->monotonic_ns();
  MutexLock lock(mutex_);
  if (absent_.size() + places.size() > kMostAbsent) absent_.clear();
  for (const PrefixHash& place : places) {
    Absent& absent = absent_[place];
    absent.for_ns = std::clamp(2 * absent.for_ns, kAskAgainNs, kLongestAbsentNs);
    absent.until_ns = now_ns + absent.for_ns;
  }
}

bool TurnKeeper::learn(const std::vector<PrefixHash>& places) {
  if (!shares()) return false;
  std::vector<PrefixHash> known;
  const std::vector<PrefixHash> unknown = unknown_places(places, known);
  options_.shared->touch_records(known);
  if (unknown.empty() || !options_.shared->readable()) return false;
  bool learnt = false;
  std::vector<PrefixHash> absent;
  auto records = options_.shared->records(unknown, options_.clock->monotonic_ns() + kMostWaitNs);
  for (std::size_t i = 0; i < unknown.size(); ++i) {
    auto turns =
        records[i].ok() ? read_shared(*records[i], options_.vocabulary_size) : Result<Records>(records[i].error());
    if (turns.ok() && !turns->empty() && turns->front().before == unknown[i]) {
      for (auto& turn : *turns) keep(turn.before, {std::move(turn.ids), std::move(turn.call_ids)});
      learnt = true;
    } else if (turns.ok() || turns.error().kind == ErrorKind::kNotFound || turns.error().kind == ErrorKind::kDamaged) {
      absent.push_back(unknown[i]);  // other errors say nothing of the place
    }
  }
  note_absent(absent);
  return learnt;
}

void TurnKeeper::write(const std::vector<std::byte>& record) {
  if (!log_ && until_next_try_ > 0) {
    --until_next_try_;
    MutexLock lock(mutex_);
    ++unwritten_;
    return;
  }
  if (log_ && !may_write()) log_.reset();
  // rewrite() writes all turns in memory, this one included.
  if (!log_ || log_->size() > options_.memory + options_.memory) return rewrite();
  if (const Status appended = log_->append(record); !appended) {
    log_.reset();
    note_unwritten(appended.error());
  }
}

void TurnKeeper::rewrite() {
  if (!may_write()) {
    waits_for_file_ = true;
    until_next_try_ = kTurnsBetweenTries;
    return;
  }
  if (std::exchange(waits_for_file_, false)) load();  // keeps the turns that the other server wrote
  std::vector<std::vector<std::byte>> records;
  {
    MutexLock lock(mutex_);
    for (const auto& [before, turn] : memory_.entries()) records.push_back(record_of(before, *turn));
  }
  auto log = store::RecordLog::rewrite(files_, options_.path, format::kSampledTurnRecords, records);
  if (!log) return note_unwritten(log.error());
  log_.emplace(std::move(*log));
}

void TurnKeeper::note_unwritten(const Error& error) {
  until_next_try_ = kTurnsBetweenTries;
  MutexLock lock(mutex_);
  if (unwritten_++ == 0) spdlog::warn("sampled turns: {}; a restart will forget the newest", error.message);
}

std::size_t TurnKeeper::size() const {
  MutexLock lock(mutex_);
  return memory_.size();
}

ByteCount TurnKeeper::bytes() const {
  MutexLock lock(mutex_);
  return memory_.bytes();
}

std::uint64_t TurnKeeper::unwritten() const {
  MutexLock lock(mutex_);
  return unwritten_;
}

}  // namespace kvkeep::server
