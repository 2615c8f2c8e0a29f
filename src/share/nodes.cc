#include "share/nodes.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <utility>

#include "policy/restore.h"

namespace kvkeep::share {
namespace {

// Transfers of fewer bytes say more about the cost of every call than about the rate.
constexpr double kLeastMeasuredBytes = 256 << 10;
// A publication that takes longer is given up: it holds up all later ones.
constexpr double kLongestWriteMs = 30'000;
// A server that has all bytes may need this long to keep them before it answers.
constexpr std::int64_t kWriteSilenceNs = 3'000'000'000;
constexpr std::int64_t kQuietNs = 60'000'000'000;
constexpr std::int64_t kMeasureEveryNs = 10'000'000'000;

std::int64_t to_ns(double ms) { return static_cast<std::int64_t>(ms * 1e6); }

}  // namespace

Nodes::Nodes(const ObjectEngine& engine, os::Clock& clock, ShareCounting& counting)
    : engine_(engine),
      clock_(clock),
      counting_(counting),
      range_{engine.pace().least_deadline_ms, engine.pace().most_deadline_ms} {}

Nodes::Node& Nodes::at(NodeId node) {
  while (nodes_.size() <= node.value()) nodes_.emplace_back(range_);
  return nodes_[node.value()];
}

bool Nodes::may_ask(NodeId node) {
  const MutexLock lock(mutex_);
  return at(node).breaker.closed();
}

bool Nodes::may_ask_any() {
  const std::size_t count = engine_.nodes();
  const MutexLock lock(mutex_);
  for (std::uint32_t i = 0; i < count; ++i) {
    if (at(NodeId{i}).breaker.closed() && engine_.has_names(NodeId{i})) return true;
  }
  return false;
}

bool Nodes::suspects(NodeId node) {
  const MutexLock lock(mutex_);
  return at(node).breaker.suspected();
}

bool Nodes::may_ask_soon() {
  const std::size_t count = engine_.nodes();
  const MutexLock lock(mutex_);
  for (std::uint32_t i = 0; i < count; ++i) {
    const policy::ShareBreaker& breaker = at(NodeId{i}).breaker;
    if ((breaker.closed() || breaker.suspected()) && engine_.has_names(NodeId{i})) return true;
  }
  return false;
}

double Nodes::most_deadline_ms() {
  double most = range_.least_ms;
  for (const Node& node : nodes_) {
    if (node.breaker.closed()) most = std::max(most, node.latency.deadline_ms());
  }
  return nodes_.empty() ? range_.most_ms : most;
}

std::int64_t Nodes::longest_lookup_ns() {
  const MutexLock lock(mutex_);
  return to_ns(most_deadline_ms());
}

std::int64_t Nodes::background_deadline_ns() const { return std::min(clock_.monotonic_ns() + kBackgroundNs, end_ns()); }

TransferLimits Nodes::read_limits(ByteCount bytes, std::size_t side_by_side) {
  const MutexLock lock(mutex_);
  const double silence_ms = range_.most_ms;
  const ByteCount all{bytes.value() * side_by_side};
  const double ms = policy::transfer_deadline_ms(silence_ms, all, read_bytes_per_s_);
  return {clock_.monotonic_ns() + to_ns(ms), to_ns(silence_ms * static_cast<double>(side_by_side)), end_ns_};
}

TransferLimits Nodes::write_limits(ByteCount bytes) {
  const MutexLock lock(mutex_);
  const double ms = policy::transfer_deadline_ms(kBackgroundNs / 1e6, bytes, write_bytes_per_s_);
  return {clock_.monotonic_ns() + to_ns(std::min(ms, kLongestWriteMs)), kWriteSilenceNs, end_ns_};
}

void Nodes::note_answer(NodeId node, policy::ShareCall call) {
  const MutexLock lock(mutex_);
  at(node).breaker.note_answer(call);
}

void Nodes::note_lookup_ms(NodeId node, double ms) {
  const std::int64_t now_ns = clock_.monotonic_ns();
  const MutexLock lock(mutex_);
  at(node).latency.note(ms);
  at(node).measured_ns = now_ns;
}

void Nodes::note_trouble(NodeId node, policy::ShareCall call, const Error& error) {
  counting_.add(&ShareCounters::failures);
  const MutexLock lock(mutex_);
  complain(node, error);
  if (error.kind == ErrorKind::kBusy || error.kind == ErrorKind::kInvalid) at(node).in_doubt = true;
  if (!counts_for_breaker(error.kind)) return;
  if (call == policy::ShareCall::kLookup) at(node).latency.note_late();
  if (at(node).breaker.note_failure(call, clock_.monotonic_ns())) note_opening(node, error, policy::kFailuresToOpen);
}

void Nodes::note_refused_write(NodeId node, const Error& error) {
  counting_.add(&ShareCounters::failures);
  const MutexLock lock(mutex_);
  if (error.kind == ErrorKind::kInvalid) at(node).in_doubt = true;
}

void Nodes::note_silence(NodeId node, const Error& error) {
  counting_.add(&ShareCounters::failures);
  const MutexLock lock(mutex_);
  complain(node, error);
  if (at(node).breaker.note_silence(clock_.monotonic_ns())) note_opening(node, error, 1);
}

bool Nodes::note_heads(const std::vector<ObjectName>& names, const std::vector<HeadBytes>& answers, double ms) {
  struct Outcome {
    bool answered = false;
    const Error* trouble = nullptr;
  };
  std::map<NodeId, Outcome> outcomes;
  for (std::size_t i = 0; i < names.size(); ++i) {
    const HeadBytes& answer = answers[i];
    Outcome& outcome = outcomes[engine_.node_of(names[i])];
    const bool answered = answer.ok() || answer.error().kind == ErrorKind::kNotFound;
    if (answered) outcome.answered = true;
    if (!answered) outcome.trouble = &answer.error();
  }
  bool failed = false;
  for (const auto& [node, outcome] : outcomes) {
    const Error* trouble = outcome.trouble;
    if (trouble != nullptr && !(outcome.answered && trouble->kind == ErrorKind::kIo)) {
      note_trouble(node, policy::ShareCall::kLookup, *trouble);
      failed |= counts_for_breaker(trouble->kind);
      continue;
    }
    note_answer(node, policy::ShareCall::kLookup);
    // A call for one name says little of one for many, which may need more connections than are open.
    if (names.size() > 1) note_lookup_ms(node, ms);
  }
  return failed;
}

std::int64_t Nodes::begin_read() {
  const std::int64_t now_ns = clock_.monotonic_ns();
  const MutexLock lock(mutex_);
  return reads_.begin(now_ns);
}

void Nodes::end_read(std::int64_t begun, ByteCount bytes) {
  const std::int64_t now_ns = clock_.monotonic_ns();
  const MutexLock lock(mutex_);
  const auto seconds = static_cast<double>(reads_.end(begun, now_ns)) / 1e9;
  read_bytes_per_s_ =
      policy::update_rate(read_bytes_per_s_, static_cast<double>(bytes.value()), seconds, kLeastMeasuredBytes);
}

void Nodes::note_written(ByteCount bytes, double ms) {
  const MutexLock lock(mutex_);
  write_bytes_per_s_ =
      policy::update_rate(write_bytes_per_s_, static_cast<double>(bytes.value()), ms / 1000, kLeastMeasuredBytes);
}

std::vector<NodeId> Nodes::to_probe() {
  const std::size_t count = engine_.nodes();
  const std::int64_t now_ns = clock_.monotonic_ns();
  const MutexLock lock(mutex_);
  std::vector<NodeId> wanting;
  for (std::uint32_t i = 0; i < count; ++i) {
    const Node& node = at(NodeId{i});
    const bool doubted = node.in_doubt && now_ns >= node.probed_ns + policy::kProbeEveryNs;
    const bool slow = node.latency.usual_ms() > 0 && node.latency.deadline_ms() > range_.least_ms &&
                      now_ns >= node.measured_ns + kMeasureEveryNs;
    const bool wanted = !node.probed || doubted || slow || node.breaker.wants_probe(now_ns);
    if (wanted && engine_.has_names(NodeId{i})) wanting.push_back(NodeId{i});
  }
  return wanting;
}

void Nodes::note_hang_up(NodeId node) {
  const MutexLock lock(mutex_);
  at(node).probed = false;
}

void Nodes::note_probe(NodeId node, const Status& status, double ms) {
  const std::int64_t now_ns = clock_.monotonic_ns();
  const MutexLock lock(mutex_);
  Node& probed = at(node);
  policy::ShareBreaker& breaker = probed.breaker;
  probed.probed = true;
  probed.in_doubt = false;
  probed.probed_ns = probed.measured_ns = now_ns;
  if (status.ok()) {
    probed.latency.note_probe(ms);
    breaker.note_probe(true, now_ns);
    if (std::exchange(probed.opened, false)) spdlog::info("shared tier: {} is asked again", engine_.node_address(node));
    return;
  }
  counting_.add(&ShareCounters::failures);  // or else a wrong password were one only where something is asked
  complain(node, status.error());
  const bool opened =
      breaker.closed() ? breaker.note_failure(policy::ShareCall::kLookup, now_ns) : breaker.note_probe(false, now_ns);
  if (opened) note_opening(node, status.error(), policy::kFailuresToOpen);
}

void Nodes::complain(NodeId node, const Error& error) {
  const std::int64_t now_ns = clock_.monotonic_ns();
  if (now_ns < at(node).quiet_until_ns || now_ns >= end_ns()) return;
  at(node).quiet_until_ns = now_ns + kQuietNs;
  spdlog::warn("shared tier: {} is in trouble ({}); requests go on without it", engine_.node_address(node),
               error.message);
}

void Nodes::note_damaged(const ObjectName& name, const Error& error) {
  counting_.add(&ShareCounters::damaged);
  const std::int64_t now_ns = clock_.monotonic_ns();
  const MutexLock lock(mutex_);
  if (now_ns < quiet_of_damage_until_ns_) return;
  quiet_of_damage_until_ns_ = now_ns + kQuietNs;
  spdlog::warn(
      "shared tier: {} has other bytes under {} than a server with this share key published ({}); that is a miss",
      engine_.node_address(engine_.node_of(name)), name.text(), error.message);
}

void Nodes::note_opening(NodeId node, const Error& error, std::uint32_t times) {
  counting_.add(&ShareCounters::breaker_openings);
  if (clock_.monotonic_ns() >= end_ns()) return;
  if (std::exchange(at(node).opened, true)) return;
  spdlog::warn("shared tier: {} failed {} ({}); it is not asked for some time, then tried again",
               engine_.node_address(node), times == 1 ? "in the middle of a read" : std::to_string(times) + " times",
               error.message);
}

Nodes::Count Nodes::count() {
  const std::size_t nodes = engine_.nodes();
  Count count;
  const MutexLock lock(mutex_);
  for (std::uint32_t i = 0; i < nodes; ++i) {
    if (!engine_.has_names(NodeId{i})) continue;
    ++count.all;
    if (!at(NodeId{i}).breaker.closed()) ++count.left_alone;
  }
  return count;
}

double Nodes::latency_ms() const {
  const MutexLock lock(mutex_);
  double most = 0;
  for (const Node& node : nodes_) most = std::max(most, node.latency.usual_ms());
  return most;
}

double Nodes::read_bytes_per_s() const {
  const MutexLock lock(mutex_);
  return read_bytes_per_s_;
}

double Nodes::write_bytes_per_s() const {
  const MutexLock lock(mutex_);
  return write_bytes_per_s_;
}

}  // namespace kvkeep::share
