#pragma once

// The reply to one generating request, made of the events of its job: as a stream or as one body.
//
// No thread waits for a job. The engine thread pushes events and posts, the HTTP server's thread formats and writes,
// and what a client does not read yet queues up there. The end of a long reply is made by a worker: what is remembered
// of it, and a whole body, take time that grows with its length. The scheduler's sink owns the answer, and the answer
// its HTTP writer: when the job has ended, all of them go.

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "server/api/reply.h"
#include "server/http/http_message.h"
#include "server/routes/event_queue.h"
#include "server/routes/next_request.h"
#include "server/routes/routes.h"
#include "server/run/job.h"

namespace kvkeep::server {

// A reply of more tokens is ended by a worker thread. Shorter ones do not wait for other requests' prompts, which may
// keep all workers busy.
inline constexpr std::size_t kLongReplyTokens = 1'024;

// What a request wants to see of its reply.
struct AnswerForm {
  bool stream = false;
  bool progress = false;           // of the prefill
  bool tokens = false;             // their ids
  bool timings_per_token = false;  // in each chunk
  HeaderList told = {};            // of fields that were ignored
};

// Made on a handler's thread; once its sink gets events it belongs to the HTTP server's thread, and with the last one
// perhaps to a worker.
class Answer final : public std::enable_shared_from_this<Answer> {
 public:
  Answer(const Service& service, AnswerForm form, std::shared_ptr<ResponseWriter> writer,
         std::unique_ptr<api::ReplyWriter> reply, NextRequest next);

  // What the job is to be submitted with; it keeps this alive. Once. If the scheduler refuses the job, nothing was
  // answered.
  std::shared_ptr<JobSink> open(std::vector<std::string> stop_strings, std::optional<Reading> reading);
  // In the dialect's shape.
  api::ErrorReply error(const Error& error) const { return reply_->error(error); }

 private:
  void drain();
  void keep_alive();
  bool begin();  // false: nobody is there any more
  void write(std::string_view bytes);
  void send(const std::string& bytes);
  void handle(const PrefillEvent& event);
  void handle(const TokenEvent& event);
  void handle(const DoneEvent& event);
  void finish(const DoneEvent& done);
  void send_deltas(const TokenEvent& event);
  void count_reasoning(const std::vector<chat::tools::ReplyDelta>& deltas, std::size_t tokens);
  void append(const std::vector<chat::tools::ReplyDelta>& deltas);
  api::GenerationResult result_of(const DoneEvent& done);
  void finish_stream(const DoneEvent& done, const api::GenerationResult& result);
  void finish_whole(const DoneEvent& done, api::GenerationResult result);
  void look_ahead(const DoneEvent& done);
  void remember(const DoneEvent& done);
  void fail(const Error& error);

  const Service& service_;
  const AnswerForm form_;
  const std::shared_ptr<ResponseWriter> writer_;
  const std::unique_ptr<api::ReplyWriter> reply_;
  std::optional<EventQueue> queue_;
  std::vector<Event> events_;  // taken
  NextRequest next_;
  bool opened_ = false;  // reply_->first() was sent
  bool done_ = false;    // a silence that ran out just before may still ask for a comment
  api::ReplyStart start_;
  std::vector<api::ReplyPart> content_;
  std::vector<TokenId> tokens_;
  std::size_t reasoning_tokens_ = 0;
  std::size_t unplaced_tokens_ = 0;
};

}  // namespace kvkeep::server
