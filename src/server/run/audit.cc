#include "server/run/audit.h"

#include <spdlog/fmt/fmt.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <limits>
#include <utility>

#include "base/media_ids.h"
#include "cache/cache.h"
#include "engine/engine.h"

namespace kvkeep::server {

namespace {

// The second time, a piece is computed in at least this many steps: nearly token by token, as replies are.
constexpr std::size_t kSmallSteps = 256;

// How many paths one audit tries before it finds no piece to look at.
constexpr int kTries = 8;

// A segment may end within a picture, at whose end alone a sequence can be continued. Returns false if nothing is left.
bool cut_last_chunk(cache::StoredPath& path) {
  const auto runs = media_runs(path.tokens);
  if (!runs) return false;
  const bool at_end = !runs->empty() && runs->back().range.end == Position{} + path.tokens.size();
  if (at_end) path.tokens.resize(runs->back().range.begin.value());
  return !path.tokens.empty();
}

TokenSpan ids_in(TokenRange piece, const cache::StoredPath& path) {
  return TokenSpan(path.tokens).subspan(piece.begin.value(), piece.size());
}

}  // namespace

std::string_view to_string(AuditOutcome outcome) {
  switch (outcome) {
    case AuditOutcome::kAgreed: return "agreed";
    case AuditOutcome::kWrong: return "wrong";
    case AuditOutcome::kUnclear: return "unclear";
    case AuditOutcome::kAbandoned: return "abandoned";
    case AuditOutcome::kNoRoom: return "no-room";
    case AuditOutcome::kNothing: return "nothing";
    case AuditOutcome::kFailed: return "failed";
  }
  return "failed";
}

Audit::Audit(AuditOptions options, engine::Engine& engine, cache::Cache& cache, os::Clock& clock, ByteCount load_bytes,
             std::function<void(cache::LoadResult)> on_loaded)
    : options_(options),
      engine_(engine),
      memory_(engine.memory()),
      cache_(cache),
      clock_(clock),
      load_bytes_(load_bytes),
      on_loaded_(std::move(on_loaded)),
      random_(options.seed) {
  if (enabled()) busy_ns_ = begun_ns_ = clock_.monotonic_ns();
}

// ---- when ----

// The states of opaque models differ widely with the size of the steps, though none is wrong: docs/audit.md.
bool Audit::enabled() const {
  return options_.every_ms > 0 && memory_.shape().cacheable && !memory_.shape().whole_points;
}

std::optional<AuditReport> Audit::disturb() {
  if (!enabled()) return std::nullopt;
  busy_ns_ = clock_.monotonic_ns();
  return abandon();
}

bool Audit::due() const {
  if (!enabled() || loading_ || cache_.distrusted()) return false;
  if (work_) return true;
  const std::int64_t now_ns = clock_.monotonic_ns();
  if (os::elapsed_ms(busy_ns_, now_ns) < options_.idle_ms) return false;
  // A suspicion is followed up at the next occasion, but not without a pause while there is no room for it.
  const double pause_ms = suspect_ ? std::min(options_.idle_ms, options_.every_ms) : options_.every_ms;
  return os::elapsed_ms(begun_ns_, now_ns) >= pause_ms;
}

std::optional<AuditReport> Audit::step(std::optional<SeqId> free, std::size_t slice_tokens) {
  if (!due()) return std::nullopt;
  const Ended ended = work_ ? go_on(slice_tokens) : begin(free);
  return ended ? std::optional(end(*ended)) : std::nullopt;
}

std::optional<AuditReport> Audit::abandon() {
  if (!work_) return std::nullopt;
  return end(AuditOutcome::kAbandoned);
}

AuditReport Audit::end(AuditOutcome outcome) {
  AuditReport report = work_ ? work_->report : AuditReport{};
  if (work_) {
    memory_.clear(work_->seq);
    // A suspected piece that was not compared to the end stays suspected.
    const bool suspected = work_->suspected || work_->answer > Answer::kComputed;
    const bool open = outcome == AuditOutcome::kAbandoned || outcome == AuditOutcome::kNoRoom;
    if (suspected && open) suspect_ = std::move(work_->subject);
  }
  work_.reset();
  report.outcome = outcome;
  report.ended_ns = clock_.wall_ns();
  report.ms = os::elapsed_ms(begun_ns_, clock_.monotonic_ns());
  return report;
}

// ---- what ----

Audit::Ended Audit::begin(std::optional<SeqId> free) {
  begun_ns_ = clock_.monotonic_ns();
  if (!free) return AuditOutcome::kNoRoom;
  std::optional<Subject> suspect = std::exchange(suspect_, std::nullopt);
  const bool suspected = suspect.has_value();
  const bool found = suspect ? look_at(*free, std::move(*suspect)) : find_subject(*free);
  if (!found) {
    const bool too_long = work_ && !work_->subject.piece.empty() && !fits();
    work_.reset();
    return too_long ? AuditOutcome::kNoRoom : AuditOutcome::kNothing;
  }
  work_->suspected = suspected;
  work_->report.piece = work_->subject.piece;
  if (!fits()) return AuditOutcome::kNoRoom;
  return std::nullopt;
}

// With points, a path that ends early may have no piece; next to a long conversation that lies idle in the model's
// memory there may be room for short paths only.
bool Audit::find_subject(SeqId seq) {
  for (int i = 0; i < kTries; ++i) {
    std::optional<cache::StoredPath> path = cache_.random_path(random());
    if (!path) return false;
    if (has_adapters(path->tenant)) continue;  // other scales than now computed it
    if (!cut_last_chunk(*path)) continue;
    if (look_at(seq, {std::move(*path), {}}) && fits()) return true;
  }
  return false;
}

bool Audit::fits() const { return memory_.cells_total() - memory_.cells_used() > work_->subject.piece.end.value(); }

bool Audit::look_at(SeqId seq, Subject subject) {
  work_.emplace(Work{.seq = seq, .subject = std::move(subject), .lease = nullptr});
  if (take_lease()) return false;
  if (!work_->subject.piece.empty()) return true;
  const auto piece = choose_text();
  work_->subject.piece = piece.value_or(TokenRange{});
  return piece.has_value();
}

std::optional<TokenRange> Audit::choose_text() {
  const cache::StoredPath& path = work_->subject.path;
  const std::vector<policy::Restorable> restorable = work_->lease->restorable();
  for (int i = 0; i < kTries; ++i) {
    const auto piece = policy::choose_piece(restorable, path.begin, random(), options_.limits);
    if (!piece || std::ranges::none_of(ids_in(*piece, path), is_media_id)) return piece;
  }
  return std::nullopt;
}

Audit::Ended Audit::take_lease() {
  const cache::StoredPath& path = work_->subject.path;
  work_->lease = cache_.lease(path.tokens, path.tenant);
  if (work_->lease->end() < work_->subject.piece.end) return AuditOutcome::kNothing;  // the path left meanwhile
  return std::nullopt;
}

// The generator splitmix64.
std::uint64_t Audit::random() {
  std::uint64_t x = random_ += 0x9e37'79b9'7f4a'7c15ULL;
  x = (x ^ (x >> 30)) * 0xbf58'476d'1ce4'e5b9ULL;
  x = (x ^ (x >> 27)) * 0x94d0'49bb'1331'11ebULL;
  return x ^ (x >> 31);
}

// ---- one unit of work ----

Audit::Ended Audit::go_on(std::size_t slice_tokens) {
  if (work_->load_failed) return AuditOutcome::kFailed;
  const bool computes = work_->answer == Answer::kComputed || work_->answer == Answer::kComputedAgain;
  const TokenRange piece = work_->subject.piece;
  if (!work_->ready) return approach(computes ? piece.begin : piece.end);
  if (memory_.length(work_->seq) < piece.end) return compute(slice_tokens);
  return ask();
}

// Restores the sequence to `goal` as a request would. A request that comes waits for one unit at most.
Audit::Ended Audit::approach(Position goal) {
  if (!std::exchange(work_->restores, true)) {
    go_back(goal);
    work_->restore.begin(work_->lease, goal, goal > Position{} && memory_.shape().needs_points());
  }
  const RestoreUnit unit =
      work_->restore.next(memory_.length(work_->seq),
                          {.most_read = load_bytes_, .most_put = load_bytes_, .rows_at_once = memory_.own_cells()});
  switch (unit.kind) {
    case RestoreUnit::Kind::kNone: work_->ready = true; return std::nullopt;
    case RestoreUnit::Kind::kRead:
      loading_ = true;
      cache_.load(work_->lease, unit.range, on_loaded_, unit.point);
      return std::nullopt;
    case RestoreUnit::Kind::kRows:
    case RestoreUnit::Kind::kPoint: return put(unit);
  }
  return std::nullopt;
}

// Reports bytes that the model's memory refused, so that nothing restores them again.
Audit::Ended Audit::put(const RestoreUnit& unit) {
  const std::vector<cache::RowPiece> pieces = work_->restore.pieces(unit);
  const bool point = unit.kind == RestoreUnit::Kind::kPoint;
  const Status put = point ? memory_.restore_point(work_->seq, pieces) : memory_.restore_rows(work_->seq, pieces);
  if (!put) {
    JobStats of_no_request;
    work_->restore.give_up(unit, put.error(), cache_, of_no_request);
    if (put.error().kind == ErrorKind::kNoSpace) return AuditOutcome::kNoRoom;
    spdlog::warn("kv cache audit: cannot restore stored state, so this audit ends: {}", put.error().message);
    return AuditOutcome::kFailed;
  }
  work_->restore.note_done(unit);
  work_->ready = point;
  return std::nullopt;
}

void Audit::go_back(Position goal) {
  if (memory_.length(work_->seq) <= goal) return;
  if (goal == Position{} || !memory_.truncate(work_->seq, goal)) memory_.clear(work_->seq);
}

void Audit::loaded(const cache::LoadResult& result) {
  loading_ = false;
  if (!work_) return;
  if (!result.status)
    spdlog::warn("kv cache audit: cannot read stored state, so this audit ends: {}", result.status.error().message);
  work_->load_failed = !result.status;
  if (result.bytes_read > ByteCount{}) work_->report.from_disk = true;
}

Audit::Ended Audit::compute(std::size_t slice_tokens) {
  const Subject& subject = work_->subject;
  const Position from = memory_.length(work_->seq);
  std::size_t count =
      std::min({slice_tokens, subject.piece.end - from, std::size_t{engine_.description().batch_tokens}});
  if (work_->answer == Answer::kComputedAgain) {
    count = std::min(count, std::max<std::size_t>(1, subject.piece.size() / kSmallSteps));
  }
  std::vector<engine::BatchToken> batch;
  for (Position at = from; at < from + count; at = at + 1) {
    batch.push_back({work_->seq, subject.path.tokens[at.value()], at, false});
  }
  return decode(batch);
}

Audit::Ended Audit::decode(const std::vector<engine::BatchToken>& batch) {
  const engine::DecodeStatus status = engine_.decode(batch);
  if (status == engine::DecodeStatus::kOk) return std::nullopt;
  return status == engine::DecodeStatus::kNoCells ? AuditOutcome::kNoRoom : AuditOutcome::kFailed;
}

// Decodes the token after the piece, or any other if none is there, and keeps the answer.
Audit::Ended Audit::ask() {
  const auto& [path, piece] = work_->subject;
  const std::size_t at = piece.end.value();
  const bool is_text = at < path.tokens.size() && !is_media_id(path.tokens[at]);
  const TokenId next = is_text ? path.tokens[at] : path.tokens[piece.end.value() - 1];
  if (const Ended failed = decode({{work_->seq, next, piece.end, true}})) return failed;
  const std::span<const float> said = engine_.logits(0);
  work_->logits[static_cast<std::size_t>(work_->answer)].assign(said.begin(), said.end());
  return next_answer();
}

// ---- the comparison ----

Audit::Ended Audit::next_answer() {
  work_->ready = work_->restores = false;
  switch (work_->answer) {
    case Answer::kRestored: work_->answer = Answer::kComputed; return std::nullopt;
    case Answer::kComputed: {
      const double apart = policy::difference(logits(Answer::kRestored), logits(Answer::kComputed));
      work_->report.difference = apart;
      if (policy::agrees(apart)) return AuditOutcome::kAgreed;
      spdlog::warn(
          "kv cache audit: an answer after restoring differs by {:.3f} from the one after computing; repeating both",
          apart);
      memory_.clear(work_->seq);
      work_->answer = Answer::kRestoredAgain;
      return take_lease();
    }
    case Answer::kRestoredAgain: work_->answer = Answer::kComputedAgain; return std::nullopt;
    case Answer::kComputedAgain: return verdict();
  }
  return AuditOutcome::kFailed;
}

AuditOutcome Audit::verdict() {
  policy::AuditDifferences found;
  found.computed = policy::difference(logits(Answer::kComputed), logits(Answer::kComputedAgain));
  found.restored = policy::difference(logits(Answer::kRestored), logits(Answer::kRestoredAgain));
  found.least_between = std::numeric_limits<double>::infinity();
  for (const Answer restored : {Answer::kRestored, Answer::kRestoredAgain}) {
    for (const Answer computed : {Answer::kComputed, Answer::kComputedAgain}) {
      found.least_between = std::min(found.least_between, policy::difference(logits(restored), logits(computed)));
    }
  }
  AuditReport& report = work_->report;
  report.difference = found.least_between;
  report.noise = std::max(found.computed, found.restored);
  const std::string what = fmt::format(
      "tokens {} to {} of a stored prefix of {}: the model's answer after restoring them differs by {:.3f} from its "
      "answer after computing them, and repeated answers differ by {:.3f}",
      report.piece.begin.value(), report.piece.end.value(), work_->subject.path.tokens.size(), found.least_between,
      *report.noise);
  if (!policy::is_wrong(found)) {
    spdlog::warn("kv cache audit: {}; that may be noise, so stored state is still used", what);
    return AuditOutcome::kUnclear;
  }
  cache_.distrust(what);
  spdlog::error(
      "kv cache audit: the stored state is WRONG: {}. Stored state of this model is no longer used, and nothing is "
      "stored: every prompt is prefilled. Find the cause (memory, driver, a program that writes to the directory); "
      "then remove the stored state with kvkeep cache rm --model {}{}, and start the server again. See docs/audit.md",
      what, engine_.description().fingerprint.hex().substr(0, 12),
      options_.directory.empty() ? "" : fmt::format(" --kv-disk-dir {}", options_.directory));
  return AuditOutcome::kWrong;
}

}  // namespace kvkeep::server
