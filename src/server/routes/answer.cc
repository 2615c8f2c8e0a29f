#include "server/routes/answer.h"

#include <utility>

#include "base/assert.h"
#include "server/api/errors.h"
#include "server/routes/generation.h"
#include "server/routes/reply_room.h"
#include "server/trace/explanations.h"

namespace kvkeep::server {
namespace {

using chat::tools::ReplyDelta;

}  // namespace

struct Answer::Line {
  explicit Line(Choice made) : choice(std::move(made)) {}
  Choice choice;
  std::optional<EventQueue> queue;
  bool opened = false;  // reply_->first() was sent
};

Answer::Answer(const Service& service, AnswerForm form, std::shared_ptr<ResponseWriter> writer,
               std::unique_ptr<api::ReplyWriter> reply)
    : service_(service), form_(std::move(form)), writer_(std::move(writer)), reply_(std::move(reply)) {}

Answer::~Answer() = default;

std::shared_ptr<JobSink> Answer::open(NextRequest next, ReplyEndings endings, std::optional<Reading> reading) {
  const Delivery delivery = form_.stream ? Delivery::kStreamed : Delivery::kWhole;
  lines_.push_back(std::make_unique<Line>(Choice(lines_.size(), delivery, std::move(next))));
  ++running_;
  Line* const line = lines_.back().get();
  // The scheduler's sink keeps this alive, and with it the callbacks that the queue calls.
  line->queue.emplace(
      service_.vocabulary, std::move(endings), std::move(reading),
      EventQueue::Reader{
          .wake = [this, line] { writer_->post([self = shared_from_this(), line] { self->drain(*line); }); },
          .gone = [this] { return failed_ || writer_->client_gone(); },
      });
  if (form_.stream && lines_.size() == 1) {
    writer_->on_silence(service_.keep_alive_ms, [weak = weak_from_this()] {
      if (const auto self = weak.lock()) self->keep_alive();
    });
  }
  return {shared_from_this(), &*line->queue};
}

void Answer::drain(Line& line) {
  line.queue->take(events_);
  for (Event& event : events_) {
    if (failed_) return;
    std::visit([&](auto& known) { handle(line, known); }, event);
  }
}

bool Answer::begin() {
  if (writer_->started()) return !writer_->client_gone();
  // A proxy that gathers output (nginx does) would hold tokens back.
  HeaderList headers{{"Cache-Control", "no-cache"}, {"X-Accel-Buffering", "no"}};
  const HeaderList more = this->headers();
  headers.insert(headers.end(), more.begin(), more.end());
  return writer_->begin_stream(200, api::kSseContentType, headers);
}

// A stream that began with a comment, before its prompt was looked up, has no times.
HeaderList Answer::headers() const {
  HeaderList headers = form_.told;
  const FoundBreak* found = lines_.front()->choice.found_break();
  if (found != nullptr) headers.emplace_back("Server-Timing", server_timing(*found, seen_));
  return headers;
}

void Answer::write(std::string_view bytes) {
  if (!bytes.empty() && begin()) writer_->write(bytes);
}

// Before any bytes of the choice are made: the writer learns here how long its prompt is.
void Answer::open_reply(Line& line) {
  if (std::exchange(line.opened, true)) return;
  api::ReplyStart start = line.choice.start();
  start.prompt_scores = prompt_scores(line);
  write(reply_->first(start));
}

// They come with the first choice of the prompt, before any of its choices has a token.
api::ScoreList Answer::prompt_scores(const Line& line) const {
  const std::size_t index = line.choice.index();
  return lines_[index - index % form_.choices_per_prompt]->choice.prompt_scores(service_.vocabulary);
}

void Answer::keep_alive() {
  if (!done_) write(reply_->keep_alive());
}

void Answer::handle(Line& line, const BreakEvent& event) { line.choice.add(event); }

void Answer::handle(Line& line, const PrefillEvent& event) {
  if (line.choice.index() == 0) seen_ = event.stats;
  line.choice.note_prompt(event.stats);
  if (!form_.stream || !form_.progress) return;
  if (!form_.prompt_scores) open_reply(line);
  write(reply_->progress({.total = event.stats.prompt_tokens,
                          .cached = event.stats.cached_tokens,
                          .processed = event.processed,
                          .time_ms = event.elapsed_ms,
                          .choice = line.choice.index(),
                          .slot = line.choice.slot()}));
}

void Answer::handle(Line& line, PromptScoresEvent& event) {
  for (const TokenScores& scores : event.scores) writer_->note_kept(kept_bytes(scores.likeliest.size()));
  line.choice.add(std::move(event));
}

void Answer::handle(Line& line, const TokenEvent& event) {
  if (line.choice.index() == 0 && !writer_->started()) seen_ = event.stats;
  line.choice.add(event);
  if (form_.stream) return send_deltas(line, event);
  if (event.scores) writer_->note_kept(kept_bytes(event.scores->likeliest.size()));
}

void Answer::send(const Line& line, api::Delta delta) {
  KVKEEP_ASSERT(line.opened, "a choice is opened before it goes on");
  delta.choice = line.choice.index();
  delta.slot = line.choice.slot();
  write(reply_->delta(delta));
}

void Answer::send_deltas(Line& line, const TokenEvent& event) {
  std::optional<api::TokenScore> score;
  if (event.scores) score = shown(*event.scores, *service_.vocabulary);
  if (event.deltas.empty() && !form_.tokens && !score) return;
  open_reply(line);
  std::optional<api::Timings> timings;
  if (form_.timings_per_token) timings = timings_of(event.stats);
  const api::Timings* timed = timings ? &*timings : nullptr;
  std::span<const TokenId> tokens{&event.token, form_.tokens ? 1U : 0U};
  const api::TokenScore* scored = score ? &*score : nullptr;
  if (event.deltas.empty()) return send(line, {.tokens = tokens, .timings = timed, .score = scored});
  for (const ReplyDelta& delta : event.deltas) {
    api::Delta one = view_of(delta);
    one.tokens = std::exchange(tokens, {});  // a token goes with the first of the deltas that it released
    one.score = std::exchange(scored, nullptr);
    one.timings = timed;
    send(line, one);
  }
}

// Text that was held back until the end.
void Answer::send_rest(Line& line) {
  open_reply(line);
  for (const ReplyDelta& delta : line.choice.done().deltas) send(line, view_of(delta));
}

void Answer::handle(Line& line, const DoneEvent& done) {
  if (done.finish == Finish::kError) return fail(done.error.value_or(io_error("generation failed")));
  line.choice.end(done);
  if (--running_ > 0) {
    if (!form_.stream) return;
    send_rest(line);
    return write(reply_->end_choice(line.choice.take_result(service_.vocabulary)));
  }
  done_ = true;
  std::size_t tokens = 0;
  for (const auto& each : lines_) tokens += each->choice.done().stats.predicted_tokens;
  if (tokens <= kLongReplyTokens && !form_.scores) return finish(line);
  writer_->post_work([self = shared_from_this(), &line] { self->finish(line); });
}

void Answer::finish(Line& last) { form_.stream ? finish_stream(last) : finish_whole(); }

// Remembers the turn before the client gets its end: the next request may come a moment later.
void Answer::finish_stream(Line& last) {
  send_rest(last);
  remember();
  api::GenerationResult result = last.choice.take_result(service_.vocabulary);
  result.usage_of_all = usage();
  write(reply_->finish(result));
  if (!writer_->started()) return;  // the client was gone from the beginning
  writer_->end();
  look_ahead();
}

void Answer::finish_whole() {
  if (writer_->client_gone()) return;
  std::vector<api::GenerationResult> results;
  for (const auto& line : lines_) {
    results.push_back(line->choice.take_result(service_.vocabulary));
    if (!form_.tokens) results.back().tokens.clear();
    results.back().prompt_scores = prompt_scores(*line);
  }
  results.front().usage_of_all = usage();
  remember();
  auto body = std::make_shared<api::JsonPieces>(reply_->whole_of_all(std::move(results)));
  writer_->send_pieces(
      200, api::kJsonContentType, [self = shared_from_this(), body] { return body->next(); }, headers());
  look_ahead();
}

// The choices of a prompt share it: it counts once.
api::Usage Answer::usage() const {
  api::Usage sum;
  for (const auto& line : lines_) {
    const JobStats& stats = line->choice.done().stats;
    sum.completion_tokens += stats.predicted_tokens;
    sum.reasoning_tokens += line->choice.reasoning_tokens();
    if (line->choice.index() % form_.choices_per_prompt != 0) continue;
    sum.prompt_tokens += stats.prompt_tokens;
    sum.cached_tokens += stats.cached_tokens;
  }
  return sum;
}

// A reply that its client did not get does not come back: it is not remembered. Leaving at this very moment goes
// unnoticed.
void Answer::remember() {
  if (writer_->client_gone()) return;
  for (const auto& line : lines_) line->choice.remember();
}

// Of several choices nobody knows which one goes on.
void Answer::look_ahead() {
  if (lines_.size() > 1 || writer_->client_gone() || !lines_.front()->choice.may_prefill_ahead()) return;
  writer_->post_work([self = shared_from_this()] { self->lines_.front()->choice.prefill_ahead(); });
}

void Answer::fail(const Error& error) {
  failed_ = done_ = true;
  const api::ErrorReply reply = reply_->error(error);
  if (!writer_->started()) return send_refusal(service_, *writer_, reply);
  write(reply_->stream_error(reply));
  writer_->end();
}

}  // namespace kvkeep::server
