#pragma once

// The reply to one generating request, made from the events of its job: as a stream or as one body.
//
// No thread waits for a job. The engine thread pushes events and posts, the HTTP server's thread formats and writes,
// and bytes that a client does not read yet queue up there. A worker makes the end of a long reply, because remembering
// it, and writing a whole body, take time that grows with its length. The scheduler's sink owns the answer, and the
// answer its HTTP writer: when the job has ended, all of them are destroyed.

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

// A worker thread makes the end of a reply of more tokens than this. Shorter ones do not wait for other requests'
// prompts, which may keep all workers busy.
inline constexpr std::size_t kLongReplyTokens = 1'024;

// The optional parts of a reply that a request asks for.
struct AnswerForm {
  bool stream = false;
  bool progress = false;           // of the prefill
  bool tokens = false;             // the ids of the tokens
  bool timings_per_token = false;  // in each chunk
  HeaderList told = {};            // header that names ignored fields
};

// Made on a handler's thread; once its sink gets events it belongs to the HTTP server's thread, and with the last event
// perhaps to a worker.
class Answer final : public std::enable_shared_from_this<Answer> {
 public:
  Answer(const Service& service, AnswerForm form, std::shared_ptr<ResponseWriter> writer,
         std::unique_ptr<api::ReplyWriter> reply, NextRequest next);

  // Returns the sink with which the job is to be submitted; it keeps this alive. Call it once. If the scheduler refuses
  // the job, nothing was sent.
  std::shared_ptr<JobSink> open(std::vector<std::string> stop_strings, std::optional<Reading> reading);
  // Returns the error in the dialect's shape.
  api::ErrorReply error(const Error& error) const { return reply_->error(error); }

 private:
  void drain();
  void keep_alive();
  bool begin();  // returns false if the client is gone
  void write(std::string_view bytes);
  void open_reply();
  void send(const std::string& bytes);
  void handle(const PrefillEvent& event);
  void handle(const TokenEvent& event);
  std::optional<api::TokenScore> shown(const TokenEvent& event) const;
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
  std::vector<Event> events_;  // taken from the queue
  NextRequest next_;
  bool opened_ = false;  // reply_->first() was sent
  bool done_ = false;    // a silence that ended just before may still ask for a comment
  api::ReplyStart start_;
  std::vector<api::ReplyPart> content_;
  std::vector<TokenId> tokens_;
  std::vector<api::TokenScore> scores_;
  std::size_t reasoning_tokens_ = 0;
  std::size_t unplaced_tokens_ = 0;
};

}  // namespace kvkeep::server
