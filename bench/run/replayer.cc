#include "bench/run/replayer.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <map>
#include <utility>

#include "bench/run/replay_counts.h"
#include "bench/sessions/session.h"
#include "os/clock.h"

namespace kvkeep::bench {
namespace {

// While play() waits, it looks at the interrupt and shows progress this often.
constexpr std::chrono::milliseconds kLook{100};

}  // namespace

ReplayRun::ReplayRun(const Session& session, const ReplayRunOptions& options, Interrupt& interrupt)
    : session_(session),
      options_(options),
      interrupt_(interrupt),
      ended_before_(ended_before(session)),
      exchanges_(session.requests.size()),
      ended_(session.requests.size()) {}

ReplayRun::~ReplayRun() = default;

void ReplayRun::play() {
  begin_ns_ = os::real_clock().monotonic_ns();
  for (std::size_t place = 0; place < session_.requests.size() && wait_for_turn(place); ++place) {
    Worker* worker = take_worker();
    if (worker == nullptr) break;
    worker->thread->post([this, worker, place, body = take_body(place)] { exchange(*worker, place, body); });
  }
  wait_for_all();
}

bool ReplayRun::may_send(std::size_t place) const {
  if (in_flight_ >= options_.in_flight_max) return false;
  for (const std::size_t earlier : ended_before_[place]) {
    if (!ended_[earlier]) return false;
  }
  return true;
}

bool ReplayRun::wait_for_turn(std::size_t place) {
  const double due_s = options_.fast ? 0 : session_.requests[place].sent_s;
  const std::int64_t due_ns = begin_ns_ + static_cast<std::int64_t>(due_s * 1e9);
  const MutexLock lock(mutex_);
  while (!is_over()) {
    const std::int64_t early_ns = due_ns - os::real_clock().monotonic_ns();
    if (early_ns <= 0 && may_send(place)) {
      ++in_flight_;
      return true;
    }
    options_.on_progress(session_, ended_count_);
    const std::chrono::nanoseconds wait = early_ns > 0 ? std::chrono::nanoseconds(early_ns) : kLook;
    changed_.wait_for(mutex_, std::min<std::chrono::nanoseconds>(wait, kLook));
  }
  return false;
}

ReplayRun::Worker* ReplayRun::take_worker() {
  const MutexLock lock(mutex_);
  if (!idle_.empty()) {
    Worker* worker = idle_.back();
    idle_.pop_back();
    return worker;
  }
  auto client = ServerClient::make(options_.target, interrupt_);
  if (!client) {  // the URL was checked before
    --in_flight_;
    return nullptr;
  }
  workers_.push_back(std::make_unique<Worker>(std::move(client).value(), os::make_thread_executor("replay")));
  return workers_.back().get();
}

Json ReplayRun::take_body(std::size_t place) {
  const RecordedRequest& request = session_.requests[place];
  if (!options_.echo_generated) return request.body;
  const MutexLock lock(mutex_);
  return echo_.body_for(request);
}

void ReplayRun::exchange(Worker& worker, std::size_t place, const Json& body) {
  const RecordedRequest& request = session_.requests[place];
  Exchange exchange = worker.client->send(request, body);
  const bool gone = !exchange.broken.empty() && !interrupt_.raised() && !worker.client->health();
  const MutexLock lock(mutex_);
  if (gone && !is_over()) killed_by_ = request.label;
  if (options_.echo_generated && exchange.answered()) echo_.remember(request, exchange.facts.message);
  exchanges_[place] = std::move(exchange);
  ended_[place] = true;
  ++ended_count_;
  --in_flight_;
  idle_.push_back(&worker);
  changed_.notify_all();  // under the lock: after it play() may return and destroy this
}

void ReplayRun::wait_for_all() {
  const MutexLock lock(mutex_);
  while (in_flight_ > 0) {
    options_.on_progress(session_, ended_count_);
    changed_.wait_for(mutex_, kLook);
  }
  options_.on_progress(session_, ended_count_);
}

namespace {

// The rate that the server reports, if it does. Otherwise the measured one, unless the text came in one piece: the time
// between its first and last token then means nothing.
double decode_rate(const Exchange& exchange, double total_ms) {
  constexpr double kMostPerSecond = 10'000;
  const std::uint64_t tokens = exchange.facts.reply_tokens.value_or(0);
  const double decode_ms = total_ms - exchange.ttft_ms;
  if (tokens < 2) return 0;
  if (const auto claimed = exchange.facts.tokens_per_second) return std::isfinite(*claimed) ? *claimed : 0;
  if (exchange.ttft_ms == 0 || decode_ms <= 0) return 0;
  const double rate = 1e3 * static_cast<double>(tokens - 1) / decode_ms;
  return rate > kMostPerSecond ? 0 : rate;
}

// If a reply does not say how much was computed, the whole prompt counts as computed.
RequestFigures figures_of(const RecordedRequest& request, const Exchange& exchange) {
  const ReplyFacts& facts = exchange.facts;
  RequestFigures figures;
  figures.label = request.label;
  figures.status = exchange.status;
  figures.error = exchange.sent ? exchange.error() : "not sent";
  figures.prompt_tokens = facts.prompt_tokens.value_or(0);
  figures.cached_tokens = facts.cached_tokens.value_or(0);
  figures.prefilled_tokens = facts.prefilled_tokens.value_or(figures.prompt_tokens);
  figures.reply_tokens = facts.reply_tokens.value_or(0);
  figures.claimed_prefill = facts.prefilled_tokens;
  figures.cache_source = facts.cache_source;
  figures.ttft_ms = exchange.ttft_ms;
  figures.total_ms = exchange.total_ms();
  figures.decode_tokens_per_second = decode_rate(exchange, figures.total_ms);
  return figures;
}

std::string title_of(const Session& session, const ReplayIdeal::Certainty& certainty, bool any_ideal) {
  const std::string ideal = certainty.off_by == 0 ? "exact" : fmt::format("within {} tokens", certainty.off_by);
  return fmt::format("{}, {} {} recorded{}", session.name, session.requests.size(),
                     session.requests.size() == 1 ? "request" : "requests", any_ideal ? ", ideal " + ideal : "");
}

std::string variant_of(const ReplayRunOptions& options) {
  std::string variant = options.fast ? "no pauses" : "";
  if (options.echo_generated) variant += variant.empty() ? "generated turns echoed" : ", generated turns echoed";
  return variant;
}

// Refusals with the same text are one problem.
void add_refusals(const Session& session, const std::vector<Exchange>& exchanges, std::vector<std::string>& problems) {
  struct Refused {
    std::size_t count = 0;
    std::string first;
  };
  std::vector<std::pair<std::string, Refused>> kinds;
  for (std::size_t i = 0; i < exchanges.size(); ++i) {
    const Exchange& exchange = exchanges[i];
    if (!exchange.sent || exchange.answered()) continue;
    const std::string words =
        exchange.status == 0 ? exchange.error() : fmt::format("status {}: {}", exchange.status, exchange.error());
    auto kind = std::ranges::find(kinds, words, [](const auto& known) { return known.first; });
    if (kind == kinds.end()) kind = kinds.insert(kind, {words, {0, session.requests[i].label}});
    ++kind->second.count;
  }
  for (const auto& [words, refused] : kinds) {
    problems.push_back(refused.count == 1 ? fmt::format("\"{}\" failed: {}", refused.first, words)
                                          : fmt::format("{} requests failed, the first of them \"{}\": {}",
                                                        refused.count, refused.first, words));
  }
}

}  // namespace

Result<std::unique_ptr<Replayer>> Replayer::make(ReplayOptions options, Interrupt& interrupt) {
  TRY_ASSIGN(auto client, ServerClient::make(options.run.target, interrupt));
  if (const auto reached = client->health(); !reached) {
    const std::string& url = options.run.target.base_url;
    return Error{reached.error().kind, fmt::format("no server at {}: {}", url, reached.error().message)};
  }
  return std::unique_ptr<Replayer>(new Replayer(std::move(options), std::move(client), interrupt));
}

Replayer::Replayer(ReplayOptions options, std::unique_ptr<ServerClient> client, Interrupt& interrupt)
    : options_(std::move(options)),
      client_(std::move(client)),
      interrupt_(interrupt),
      model_name_(client_->model_name()),
      server_version_(client_->server_version()),
      server_field_(client_->server_field()),
      ideal_(*client_) {}

RunFigures Replayer::play(const Session& session) {
  ReplayRun run(session, options_.run, interrupt_);
  const std::optional<double> begin_s = options_.cpu_seconds();
  run.play();
  const std::optional<double> end_s = options_.cpu_seconds();
  gone_ = !run.killed_by().empty();

  RunFigures figures;
  figures.workload = session.name;
  figures.server = options_.server_name;
  figures.variant = variant_of(options_.run);
  figures.counted_by = CountedBy::kReply;
  if (begin_s && end_s && *end_s > *begin_s) figures.server_cpu_s = *end_s - *begin_s;  // a script computes nothing
  for (std::size_t i = 0; i < session.requests.size(); ++i) {
    figures.requests.push_back(figures_of(session.requests[i], run.exchanges()[i]));
  }
  add_problems(session, run, figures);
  add_ideals(session, run.exchanges(), figures);
  return figures;
}

// Compares the server with the ideal, and the replies' claims with the count of the engine, if there is one.
void Replayer::add_ideals(const Session& session, const std::vector<Exchange>& exchanges, RunFigures& figures) {
  auto& problems = figures.problems;
  if (options_.decoded_ids) {
    const std::uint64_t decoded = options_.decoded_ids();
    const ClaimsCheck check = check_claims(exchanges, decoded - std::exchange(decoded_ids_, decoded));
    figures.sum_was_counted = check.verdict == ClaimsCheck::Verdict::kHold;
    contradicted_ = contradicted_ || check.verdict == ClaimsCheck::Verdict::kDiffer;
    if (!check.problem.empty()) problems.push_back(check.problem);
  }
  const ReplayIdeal::Certainty certainty = ideal_.fill(exchanges, figures);
  figures.title = title_of(session, certainty, std::ranges::any_of(exchanges, &Exchange::answered));
  // Less than a server that began with nothing could have computed.
  const std::uint64_t most_computed = figures.prefilled_tokens() + certainty.off_by;
  if (most_computed < figures.ideal_tokens()) {
    figures.known_before = figures.ideal_tokens() - most_computed;
    problems.push_back(
        fmt::format("the server knew at least {} tokens before this replay began, so there is no ratio: start it with "
                    "an empty cache "
                    "(kvkeep: --kv-disk-dir with a new directory) to measure one",
                    figures.known_before));
  }
  if (!ideal_.no_tokens().empty() && !std::exchange(said_no_tokens_, true)) {
    problems.push_back(fmt::format("the ideal is estimated, four bytes a token: {}", ideal_.no_tokens()));
  }
}

void Replayer::add_problems(const Session& session, const ReplayRun& run, RunFigures& figures) {
  auto& problems = figures.problems;
  const auto& exchanges = run.exchanges();
  const auto unsent = std::ranges::count_if(exchanges, [](const Exchange& one) { return !one.sent; });
  if (gone_) {
    std::string death = options_.death();
    if (death.empty()) death = "does not answer any more";
    problems.push_back(fmt::format("the server {}, killed by the request \"{}\"; {} requests were not sent", death,
                                   run.killed_by(), unsent));
  } else if (unsent > 0) {
    problems.push_back(fmt::format("interrupted; {} requests were not sent", unsent));
  }
  add_refusals(session, exchanges, problems);
  if (session.stand_ins > 0) {
    problems.push_back(
        fmt::format("the recording has hashes in place of {} pictures and sounds (--trace-media): noise "
                    "stood in for them, which may have other numbers of tokens",
                    session.stand_ins));
  }
  const bool silent = std::ranges::any_of(exchanges, [](const Exchange& one) {
    return one.answered() && one.facts.prompt_tokens && !one.facts.prefilled_tokens;
  });
  if (silent) problems.emplace_back("the server does not report cached tokens: whole prompts count as prefilled");
  if (options_.run.echo_generated && run.echo().kept() > 0) {
    problems.push_back(fmt::format("{} of {} assistant turns were echoed as recorded: the server's replies do not fit",
                                   run.echo().kept(), run.echo().kept() + run.echo().replaced()));
  }
}

}  // namespace kvkeep::bench
