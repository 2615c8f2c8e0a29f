#include "server/run/request.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <cstdint>
#include <utility>

#include "base/assert.h"
#include "base/media_ids.h"
#include "os/clock.h"
#include "policy/next_call.h"
#include "policy/share.h"
#include "server/run/branches.h"

namespace kvkeep::server {

namespace {

// Penalties look back this far at most; feeding the sampler more of a long prompt would cost time and change nothing.
std::size_t sampler_window(const engine::SamplingParams& params) {
  const auto tokens = [](std::int32_t last_n) { return last_n < 0 ? SIZE_MAX : static_cast<std::size_t>(last_n); };
  const std::size_t sequences = params.dry_multiplier != 0.0F ? tokens(params.dry_penalty_last_n) : 0;
  return std::max({std::size_t{64}, tokens(params.repeat_last_n), sequences});
}

// Of the tokens that were prefilled, those that were computed before, as at_end() will have them.
std::size_t lost_so_far(const Request& request) {
  if (request.found_break == nullptr || explain::bypasses_cache(request.found_break->found.kind)) return 0;
  return std::min(request.found_break->found.lost_tokens, request.stats.prefilled_tokens);
}

// The ids of the next picture or sound from `at` on.
std::optional<TokenRange> next_chunk(const Request& request, Position at) {
  const auto next = std::ranges::lower_bound(request.effective.media, at, {}, &TokenRange::begin);
  return next == request.effective.media.end() ? std::nullopt : std::optional(*next);
}

}  // namespace

std::unique_ptr<Request> make_request(Submission submission) {
  Job& job = submission.job;
  KVKEEP_ASSERT(!job.prompt.empty(), "a job without a prompt");
  KVKEEP_ASSERT(!submission.replies.empty(), "a job without a sink");
  auto request = std::make_unique<Request>();
  request->effective = as_sent(job);
  request->stats.sent_tokens = request->stats.prompt_tokens = job.prompt.size();
  request->sink = std::move(submission.replies.front());
  for (std::size_t i = 1; i < submission.replies.size(); ++i) {
    request->branches.push_back(make_branch(job, i, std::move(submission.replies[i])));
  }
  request->job = std::move(job);
  return request;
}

void match_text(Request& request, const PromptLookup& lookup) {
  if (request.reported || request.restore.gave_up()) return;
  EffectiveTokens matched = lookup.match_text(request.job);
  if (matched.tokens != request.effective.tokens) request.sampler.reset();  // penalties look at the ids
  request.effective = std::move(matched);
  request.stats.prompt_tokens = request.effective.tokens.size();
}

void note_search(Request& request, policy::RateMeter& rates) {
  if (request.search == nullptr) return;
  const std::shared_ptr<Search> search = std::exchange(request.search, nullptr);
  search->abandon();
  const auto found = search->result();
  request.stats.search_ms = found ? found->ms : search->ms();
  if (found && found->asked) rates.note_shared_answer(found->ms);
}

void note_loaded(Request& request, const cache::LoadResult& result, std::int64_t now_ns, policy::RateMeter& rates) {
  request.phase = Request::Phase::kWaiting;
  request.stats.load_ms += static_cast<double>(now_ns - request.load_started_ns) / 1e6;
  if (request.seq) request.stats.waits.end(now_ns);  // else it waits for cells
  request.stats.read.add(result.bytes_read, result.read_ms);
  request.stats.shared_read.add(result.shared_bytes, result.shared_ms);
  rates.note_read(result.bytes_read, result.read_ms);
  rates.note_shared_read(result.shared_bytes, result.shared_reads, result.shared_ms);
  if (result.status) return;
  log_failed_read(request.job, result.status.error());
  request.restore.note_failed_read(request.stats);
}

void erase_ended(std::vector<std::unique_ptr<Request>>& active, std::vector<std::unique_ptr<Request>>& reading) {
  for (auto& request : active) {
    if (request->sink == nullptr && request->phase == Request::Phase::kLoading) reading.push_back(std::move(request));
  }
  std::erase_if(active, [](const auto& request) { return request == nullptr || request->sink == nullptr; });
}

void forget(std::vector<std::unique_ptr<Request>>& reading, const Request& request) {
  std::erase_if(reading, [&](const auto& each) { return each.get() == &request; });
}

Occupant occupant(const Request& request, bool cached) {
  return {.id = request.job.id, .tenant = request.job.tenant, .cached = cached, .sampled = request.effective.sampled};
}

Result<std::unique_ptr<engine::Sampler>> make_sampler(const engine::SamplingParams& sampling, TokenSpan tokens,
                                                      engine::Engine& engine) {
  TRY_ASSIGN(std::unique_ptr<engine::Sampler> sampler, engine.make_sampler(sampling));
  for (const TokenId token : tokens.last(std::min(sampler_window(sampling), tokens.size()))) {
    if (!is_media_id(token)) sampler->accept(token);
  }
  return sampler;
}

Status prepare_sampler(Request& request, engine::Engine& engine) {
  if (request.sampler == nullptr) {
    TRY_ASSIGN(request.sampler, make_sampler(request.job.sampling, request.effective.tokens, engine));
  }
  return {};
}

std::vector<std::vector<Request*>> by_adapters(const std::vector<Request*>& requests) {
  std::vector<std::vector<Request*>> groups;
  for (Request* request : requests) {
    const auto same = std::ranges::find_if(
        groups, [&](const auto& group) { return group.front()->job.adapters == request->job.adapters; });
    same == groups.end() ? groups.push_back({request}) : same->push_back(request);
  }
  return groups;
}

std::optional<MissReason> Request::restore_failure() const {
  const std::optional<MissReason> failed = restore.miss();
  return !failed && load_too_slow ? MissReason::kLoadTooSlow : failed;
}

void Request::note_known(const policy::KnownPath& path) {
  known = path;
  if (!reported) stats.known_tokens = std::max<std::size_t>(stats.known_tokens, path.end.value());
}

void note_reused(Request& request, Position held, const PromptLookup& lookup, BreakFinder& breaks) {
  JobStats& stats = request.stats;
  stats.cached_tokens = request.told_tokens = held.value();
  stats.known_tokens = std::min(stats.known_tokens, request.effective.tokens.size());
  const auto& text_from = request.effective.text_from;
  if (text_from && *text_from < held) stats.source = as_text(stats.source);
  stats.miss = lookup.miss_reason(request.job, request.effective.tokens.size(), request.known.end, held.value(),
                                  request.restore_failure());
  request.found_break = breaks.find({.job = request.job,
                                     .stats = stats,
                                     .tokens = request.effective.tokens,
                                     .asker = request.effective.asker.get(),
                                     .difference = request.difference ? &*request.difference : nullptr,
                                     .known_rest = request.known_rest});
  request.known_rest = {};
}

void note_started(Request& request, std::int64_t now_ns) {
  request.stats.waits.end(now_ns);
  if (request.started_ns != 0) return;
  request.started_ns = now_ns;
  request.stats.queue_ms = os::elapsed_ms(request.submitted_ns, now_ns);
}

void note_overtaken(std::span<const std::unique_ptr<Request>> admitted) {
  for (const auto& request : admitted) request->overtaken += request->must_wait ? 1 : 0;
}

void claim_files(Request& request, const Sequence& held) {
  if (!held.track) return;
  const std::vector<TokenRange>& chunks = request.effective.media;
  // A saved slot names its pictures, and has no files of them.
  const std::size_t count = std::min(chunks.size(), request.job.media.size());
  for (std::size_t i = 0; i < count; ++i) {
    std::shared_ptr<const PromptFile>& file = request.job.media[i].file;
    const bool needed = chunks[i].end > held.track->position();
    if (needed == (file->bytes != nullptr)) continue;
    PromptFile other = *file;
    other.bytes = needed && file->take ? file->take() : nullptr;
    file = std::make_shared<const PromptFile>(std::move(other));
  }
}

bool is_prefill_too_long(Request& request, std::int64_t now_ns) {
  const double ms = os::elapsed_ms(request.started_ns, now_ns);
  const bool is_first = request.first_token_ns == 0;  // a request that goes on has had its time
  if (!is_first || request.job.longest_prefill_ms <= 0 || ms <= request.job.longest_prefill_ms) return false;
  request.stats.prompt_ms = ms;
  return true;
}

void note_prompt_done(Request& request, std::int64_t now_ns) {
  const bool is_first = request.first_token_ns == 0;
  if (is_first) request.first_token_ns = now_ns;
  if (!is_first && !std::exchange(request.is_late, false)) return;
  request.stats.prompt_ms = os::elapsed_ms(request.started_ns, now_ns);
  log_prompt_done(request.job, request.stats);
}

void note_ended(Request& request, std::int64_t now_ns) {
  request.stats.waits.end(now_ns);
  if (request.first_token_ns != 0) return;
  if (request.started_ns == 0) request.stats.queue_ms = os::elapsed_ms(request.submitted_ns, now_ns);
  if (request.started_ns != 0) request.stats.prompt_ms = os::elapsed_ms(request.started_ns, now_ns);
}

std::optional<Overdue> overdue(const Request& request, std::int64_t now_ns) {
  const double most_ms = request.job.longest_ms;
  if (most_ms <= 0 || os::elapsed_ms(request.submitted_ns, now_ns) <= most_ms) return std::nullopt;
  if (request.stats.predicted_tokens > 0) return Overdue{};
  if (request.started_ns == 0) return Overdue{Finish::kError, busy("t_max_total_ms passed in the queue: try again")};
  return Overdue{Finish::kError, busy("no token came within t_max_total_ms; the computed state is kept: try again")};
}

void note_set_aside(Request& request, std::int64_t now_ns) {
  request.stats.waits.begin(WaitCause::kCells, now_ns);
  if (request.stats.predicted_tokens > 0 && request.paused_ns == 0) request.paused_ns = now_ns;
  if (request.trace != nullptr) ++request.trace->set_aside;
}

void note_late(Request& branch, std::int64_t now_ns) {
  branch.is_late = true;
  branch.start_counted = false;
  branch.started_ns = 0;
  branch.paused_ns = now_ns;
  branch.stats.waits.begin(WaitCause::kPlace, now_ns);
}

void note_decodes(Request& request, std::int64_t now_ns) {
  request.phase = Request::Phase::kDecode;
  request.stats.waits.end(now_ns);
  if (request.paused_ns != 0) request.first_token_ns += now_ns - std::exchange(request.paused_ns, 0);
}

std::vector<engine::BatchToken> decode_batch(const std::vector<Request*>& requests, const Sequences& sequences) {
  std::vector<engine::BatchToken> batch;
  for (const Request* request : requests) {
    batch.push_back({*request->seq, request->effective.tokens.back(), sequences[*request->seq].end(), true});
  }
  return batch;
}

void tell_prefilled(Request& request, std::size_t held, double ms_since_start) {
  const std::size_t processed = std::min(held, request.stats.prompt_tokens);
  if (request.stats.predicted_tokens > 0 || processed <= request.told_tokens) return;
  request.told_tokens = processed;
  request.sink->on_prefill(request.stats, processed, ms_since_start);
}

void tell_encoded(Request& request, std::size_t held, std::int64_t now_ns) {
  if (!request.encodes()) return;
  const auto chunk = next_chunk(request, Position{} + held);
  if (!chunk) return;
  const auto done = static_cast<std::size_t>(request.encoding->share() * static_cast<double>(chunk->size()));
  tell_prefilled(request, held + done, os::elapsed_ms(request.started_ns, now_ns));
}

Error stopped() { return aborted("the server is shutting down"); }

Error bad_logits() {
  return io_error("the model's logits for this request are NaN or infinite: its weights are damaged, or it overflows");
}

Error failure_of(engine::DecodeStatus status) {
  if (status == engine::DecodeStatus::kAborted) return stopped();
  return io_error("the model failed to process this request");
}

std::vector<engine::BatchToken> slice_batch(const Request& request, TokenRange range) {
  const TokenSpan tokens = request.effective.tokens;
  std::vector<engine::BatchToken> batch;
  for (std::size_t i = range.begin.value(); i < range.end.value(); ++i) {
    batch.push_back({*request.seq, tokens[i], Position{} + i, request.wants_scores() || i + 1 == range.end.value()});
  }
  return batch;
}

bool take_less(Request& request, Position from) {
  if (!request.restore.shorten(from)) return false;
  const Position to = request.restore.to();
  return outside_media(request.effective.media, to) == to;
}

std::size_t branches_of(std::span<const std::unique_ptr<Request>> requests) {
  std::size_t replies = 0;
  for (const auto& request : requests) replies += request->branches.size();
  return replies;
}

std::uint32_t cells_promised(std::span<const std::unique_ptr<Request>> requests, const Sequences& sequences) {
  std::size_t promised = 0;
  for (const auto& request : requests) {
    const bool waits = request->phase == Request::Phase::kWaiting;
    if (waits || request->phase == Request::Phase::kDecode || !request->seq) continue;
    promised += request->effective.tokens.size() - sequences[*request->seq].computed();
  }
  return static_cast<std::uint32_t>(promised);
}

double capture_slice(Request& request, Sequences& sequences, const CaptureStride& stride, std::size_t tokens,
                     os::Clock& clock) {
  if (sequences[*request.seq].part > 0) return 0;
  const std::optional<policy::Cut> cut = request.cuts.take(sequences[*request.seq].end());
  const Position end = sequences[*request.seq].end();
  const bool complete = end.value() >= request.effective.tokens.size();
  if (!cut && !complete && end - request.captured_to < stride.tokens) return 0;
  const std::int64_t begin_ns = clock.monotonic_ns();
  const std::size_t captured = end - std::exchange(request.captured_to, end);
  const policy::Cut at = cut.value_or(policy::Cut{});
  sequences.capture(*request.seq, at.reason);
  if (cut || stride.bounds) {
    const cache::Keeping keeping = at.in_ram ? cache::Keeping::kInRamUntilUsed : cache::Keeping::kOnDisk;
    sequences.capture_point(*request.seq, at.reason, keeping);
  }
  if (complete) claim_files(request, sequences[*request.seq]);
  const double share = static_cast<double>(tokens) / static_cast<double>(std::max(tokens, captured));
  return os::elapsed_ms(begin_ns, clock.monotonic_ns()) * share;
}

EndedRequest as_ended(const Request& request, Finish how, const std::optional<Error>& error) {
  return {.stats = request.stats,
          .started = request.reported,
          .difference = request.difference ? &*request.difference : nullptr,
          .markers = request.effective.markers,
          .how = how,
          .error = error,
          .found = at_end(request.found_break, request.stats)};
}

PrefilledTokens count_prefilled(Request& request, std::size_t held, std::size_t tokens) {
  JobStats& stats = request.stats;
  // A request that resumes computes some tokens once more, and sampled ones as if they were of the prompt.
  const std::size_t seen = std::max({stats.known_tokens, stats.cached_tokens, request.counted_to, held - tokens});
  const std::size_t end = std::min(held, stats.prompt_tokens);
  const std::size_t unseen = end - std::min(end, seen);
  request.counted_to = std::max(request.counted_to, end);
  const std::size_t lost_before = lost_so_far(request);
  stats.prefilled_tokens += tokens;
  return {.why = stats.miss,
          .all = tokens,
          .unseen = unseen,
          .again = std::max(tokens - unseen, lost_so_far(request) - lost_before)};
}

double note_sampled(Request& request, TokenId token, double ms) {
  request.effective.tokens.own().push_back(token);
  ++request.stats.predicted_tokens;
  return ms - std::exchange(request.stats.predicted_ms, ms);
}

bool is_enough(const Request& request, std::size_t context_tokens, bool shifts) {
  const std::optional<std::int64_t> most = request.job.max_tokens;
  if (most && static_cast<std::int64_t>(request.stats.predicted_tokens) >= *most) return true;
  const std::size_t tokens = request.effective.tokens.size();
  if (shifts) return !request.effective.media.empty() && tokens >= context_tokens;
  // The sampled token needs a cell to be decoded in; the context's last cell ends the reply.
  return tokens > context_tokens;
}

bool any_in(std::span<const std::unique_ptr<Request>> requests, Request::Phase phase) {
  return std::ranges::any_of(requests, [=](const auto& request) { return request->phase == phase; });
}

RequestTrace* trace_of(std::span<const std::unique_ptr<Request>> requests, SeqId seq) {
  const auto found = std::ranges::find_if(requests, [&](const auto& each) { return each->seq == seq; });
  return found == requests.end() ? nullptr : (*found)->trace.get();
}

// Logits are large, and scoring a token takes as long as its vocabulary: running requests wait for a slice.
constexpr std::size_t kScoredSlice = 32;

policy::ScheduledRequest as_scheduled(const Request& request, std::size_t held, std::size_t part,
                                      const CaptureStride& capture) {
  std::optional<Position> end = request.cuts.next();
  const Position scored = Position{} + held + kScoredSlice;
  if (request.wants_scores()) end = std::min(end.value_or(scored), scored);
  const Position capture_at = request.captured_to + capture.tokens;
  if (capture.grid > 0) {
    const Position on_grid = policy::next_on_grid(Position{} + held, capture.grid);
    end = std::min(end.value_or(on_grid), on_grid);
  }
  if (capture.bounds && capture_at > Position{} + held) end = std::min(end.value_or(capture_at), capture_at);
  const auto chunk = next_chunk(request, Position{} + held);
  if (chunk && chunk->begin.value() > held) end = std::min(end.value_or(chunk->begin), chunk->begin);
  if (chunk && chunk->begin.value() == held) end = chunk->end;  // nothing is captured within it
  return {.phase = request.phase,
          .ended = request.sink == nullptr,
          .must_wait = request.must_wait,
          .overtaken = request.overtaken,
          .awaits = request.awaits.has_value(),
          .ahead = request.job.ahead,
          .key = request.job.key,
          .session = request.job.session,
          .priority = request.job.priority,
          .tokens = request.effective.tokens.size(),
          .held = held + part,
          .restores = request.phase == Request::Phase::kRestoring ? request.restore.to() - (Position{} + held) : 0,
          .next_cut = end,
          .encodes = request.encodes(),
          .passed = request.passed};
}

}  // namespace kvkeep::server
