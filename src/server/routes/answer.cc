#include "server/routes/answer.h"

#include <utility>

#include "base/assert.h"
#include "server/api/errors.h"
#include "server/routes/generation.h"

namespace kvkeep::server {
namespace {

using chat::tools::ReplyDelta;

// Silence after which a stream sends a comment: proxies and clients take a longer silence for a dead connection.
constexpr std::int64_t kKeepAliveMs = 5'000;

api::Timings timings_of(const JobStats& stats) {
  api::Timings timings;
  timings.cache_n = stats.cached_tokens;
  timings.prompt_n = stats.prompt_tokens - stats.cached_tokens;
  timings.prompt_ms = stats.prompt_ms;
  timings.predicted_n = stats.predicted_tokens;
  timings.predicted_ms = stats.predicted_ms;
  timings.cache_source = to_string(stats.source);
  timings.memory_tokens = stats.memory_tokens;
  timings.ram_tokens = stats.ram_tokens;
  timings.disk_tokens = stats.disk_tokens;
  timings.cache_point = to_string(stats.point);
  timings.cache_miss_reason = to_string(stats.miss);
  return timings;
}

// A reply cut by max_tokens may have incomplete tool calls: it says `length`, so that no client runs a partial call.
api::FinishReason finish_reason(const DoneEvent& done) {
  if (done.finish == Finish::kLength) return api::FinishReason::kLength;
  return done.whole_calls > 0 ? api::FinishReason::kToolCalls : api::FinishReason::kStop;
}

api::Delta view_of(const ReplyDelta& delta) {
  return {.kind = delta.kind,
          .text = delta.text,
          .call_index = delta.call_index,
          .call_id = delta.call_id,
          .call_name = delta.call_name,
          .call_is_whole = delta.is_whole};
}

}  // namespace

Answer::Answer(const Service& service, AnswerForm form, std::shared_ptr<ResponseWriter> writer,
               std::unique_ptr<api::ReplyWriter> reply, NextRequest next)
    : service_(service),
      form_(std::move(form)),
      writer_(std::move(writer)),
      reply_(std::move(reply)),
      next_(std::move(next)) {}

std::shared_ptr<JobSink> Answer::open(std::vector<std::string> stop_strings, std::optional<Reading> reading) {
  // The scheduler's sink keeps this alive, and with it the callbacks that the queue calls.
  queue_.emplace(service_.vocabulary, std::move(stop_strings), std::move(reading),
                 EventQueue::Reader{
                     .wake = [this] { writer_->post([self = shared_from_this()] { self->drain(); }); },
                     .gone = [this] { return writer_->client_gone(); },
                 });
  if (form_.stream) {
    writer_->on_silence(kKeepAliveMs, [weak = weak_from_this()] {
      if (const auto self = weak.lock()) self->keep_alive();
    });
  }
  return {shared_from_this(), &*queue_};
}

void Answer::drain() {
  queue_->take(events_);
  for (const Event& event : events_) {
    std::visit([this](const auto& known) { handle(known); }, event);
  }
}

bool Answer::begin() {
  if (writer_->started()) return !writer_->client_gone();
  HeaderList headers{{"Cache-Control", "no-cache"}};
  headers.insert(headers.end(), form_.told.begin(), form_.told.end());
  return writer_->begin_stream(200, api::kSseContentType, headers);
}

void Answer::write(std::string_view bytes) {
  if (!bytes.empty() && begin()) writer_->write(bytes);
}

// Before any bytes of the reply are made: the writer learns here how long the prompt is.
void Answer::open_reply() {
  if (!std::exchange(opened_, true)) write(reply_->first(start_));
}

void Answer::send(const std::string& bytes) {
  KVKEEP_ASSERT(opened_, "a reply is opened before it goes on");
  write(bytes);
}

void Answer::keep_alive() {
  if (!done_) write(reply_->keep_alive());
}

void Answer::handle(const PrefillEvent& event) {
  if (!opened_) start_ = {event.stats.prompt_tokens, event.stats.cached_tokens};
  if (!form_.stream || !form_.progress) return;
  open_reply();
  send(reply_->progress({event.stats.prompt_tokens, event.stats.cached_tokens, event.processed, event.elapsed_ms}));
}

void Answer::handle(const TokenEvent& event) {
  next_.add_token(event.token);
  count_reasoning(event.deltas, 1);
  for (const ReplyDelta& delta : event.deltas) next_.add(delta);
  if (form_.stream) return send_deltas(event);
  append(event.deltas);
  tokens_.push_back(event.token);
  if (auto score = shown(event)) scores_.push_back(*std::move(score));
}

std::optional<api::TokenScore> Answer::shown(const TokenEvent& event) const {
  if (!event.scores) return std::nullopt;
  const auto one = [this](const ScoredToken& token) {
    return api::TokenScore{token.id, service_.vocabulary->piece(token.id, /*with_special=*/true), token.logprob};
  };
  api::TokenScore score = one(event.scores->chosen);
  for (const ScoredToken& token : event.scores->likeliest) score.likeliest.push_back(one(token));
  return score;
}

void Answer::send_deltas(const TokenEvent& event) {
  const std::optional<api::TokenScore> score = shown(event);
  if (event.deltas.empty() && !form_.tokens && !score) return;
  open_reply();
  std::optional<api::Timings> timings;
  if (form_.timings_per_token) timings = timings_of(event.stats);
  const api::Timings* timed = timings ? &*timings : nullptr;
  std::span<const TokenId> tokens{&event.token, form_.tokens ? 1U : 0U};
  const api::TokenScore* scored = score ? &*score : nullptr;
  if (event.deltas.empty()) return send(reply_->delta({.tokens = tokens, .timings = timed, .score = scored}));
  for (const ReplyDelta& delta : event.deltas) {
    api::Delta one = view_of(delta);
    one.tokens = std::exchange(tokens, {});  // a token goes with the first of the deltas that it released
    one.score = std::exchange(scored, nullptr);
    one.timings = timed;
    send(reply_->delta(one));
  }
}

// A token that releases nothing, such as a tag, belongs to the delta after it.
void Answer::count_reasoning(const std::vector<ReplyDelta>& deltas, std::size_t tokens) {
  unplaced_tokens_ += tokens;
  if (deltas.empty()) return;
  if (deltas.front().kind == chat::tools::DeltaKind::kReasoning) reasoning_tokens_ += unplaced_tokens_;
  unplaced_tokens_ = 0;
}

void Answer::append(const std::vector<ReplyDelta>& deltas) {
  for (const ReplyDelta& delta : deltas) api::append_delta(content_, view_of(delta));
}

void Answer::handle(const DoneEvent& done) {
  done_ = true;
  if (done.finish == Finish::kError) return fail(done.error.value_or(io_error("generation failed")));
  if (done.stats.predicted_tokens <= kLongReplyTokens) return finish(done);
  writer_->post_work([self = shared_from_this(), done] { self->finish(done); });
}

void Answer::finish(const DoneEvent& done) {
  api::GenerationResult result = result_of(done);
  if (form_.stream) return finish_stream(done, result);
  finish_whole(done, std::move(result));
}

api::GenerationResult Answer::result_of(const DoneEvent& done) {
  api::GenerationResult result;
  result.finish = finish_reason(done);
  result.stop_string = done.stop_string;
  result.prompt_tokens = done.stats.prompt_tokens;
  result.timings = timings_of(done.stats);
  count_reasoning(done.deltas, 0);
  result.reasoning_tokens = reasoning_tokens_;
  return result;
}

// Remembers the turn before the client gets its end: the next request may come a moment later.
void Answer::finish_stream(const DoneEvent& done, const api::GenerationResult& result) {
  open_reply();
  for (const ReplyDelta& delta : done.deltas) send(reply_->delta(view_of(delta)));
  remember(done);
  send(reply_->finish(result));
  if (!writer_->started()) return;  // the client was gone from the beginning
  writer_->end();
  look_ahead(done);
}

void Answer::finish_whole(const DoneEvent& done, api::GenerationResult result) {
  if (writer_->client_gone()) return;
  append(done.deltas);
  result.content = std::move(content_);
  if (form_.tokens) result.tokens = std::move(tokens_);
  result.scores = std::move(scores_);
  remember(done);
  writer_->send(200, api::kJsonContentType, reply_->whole(result), form_.told);
  look_ahead(done);
}

// A reply that its client did not get does not come back: it is not remembered. Leaving at this very moment goes
// unnoticed.
void Answer::remember(const DoneEvent& done) {
  if (writer_->client_gone()) return;
  for (const ReplyDelta& delta : done.deltas) next_.add(delta);
  next_.remember(done.stop_string);
}

void Answer::look_ahead(const DoneEvent& done) {
  if (writer_->client_gone() || !next_.may_prefill_ahead(/*calls=*/done.whole_calls > 0)) return;
  writer_->post_work([self = shared_from_this()] { self->next_.prefill_ahead(); });
}

void Answer::fail(const Error& error) {
  const api::ErrorReply reply = reply_->error(error);
  if (!writer_->started()) return send_error(*writer_, reply);
  write(reply_->stream_error(reply));
  writer_->end();
}

}  // namespace kvkeep::server
