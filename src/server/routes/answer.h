#pragma once

// The reply to one generating request, made from the events of its jobs: as a stream or as one body.
//
// No thread waits for a job. The engine thread pushes events and posts, the HTTP server's thread formats and writes,
// and bytes that a client does not read yet queue up there. A worker makes the end of a long reply, because remembering
// it, and writing a whole body, take time that grows with its length. A body is made while it leaves, because the
// probabilities of tokens take much more memory as text than as the numbers that are kept. The scheduler's sinks own
// the answer, and the answer its HTTP writer: when all jobs have ended, all of them are destroyed.

#include <atomic>
#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "server/api/reply.h"
#include "server/http/http_message.h"
#include "server/routes/choice.h"
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
  bool progress = false;               // of the prefill
  bool tokens = false;                 // the ids of the tokens
  bool timings_per_token = false;      // in each chunk
  HeaderList told = {};                // header that names ignored fields
  bool prompt_scores = false;          // of each token of the prompts
  bool scores = false;                 // of each token: a worker makes the end of the reply, however short it is
  std::size_t choices_per_prompt = 1;  // the answer has so many choices for each of its prompts, side by side
};

// Made on a handler's thread; once its sinks get events it belongs to the HTTP server's thread, and with the last event
// perhaps to a worker. The first error ends it, and with it its other jobs.
class Answer final : public std::enable_shared_from_this<Answer> {
 public:
  Answer(const Service& service, AnswerForm form, std::shared_ptr<ResponseWriter> writer,
         std::unique_ptr<api::ReplyWriter> reply);
  ~Answer();

  // Adds a choice, and returns the sink of its job, which keeps this alive. Call it for each before any job is
  // submitted. If the scheduler refuses the jobs, nothing was sent.
  std::shared_ptr<JobSink> open(NextRequest next, ReplyEndings endings, std::optional<Reading> reading);
  // Returns the error in the dialect's shape.
  api::ErrorReply error(const Error& error) const { return reply_->error(error); }

 private:
  struct Line;  // a choice and its events

  void drain(Line& line);
  void keep_alive();
  bool begin();  // returns false if the client is gone
  void write(std::string_view bytes);
  void open_reply(Line& line);
  api::ScoreList prompt_scores(const Line& line) const;
  HeaderList headers() const;
  void handle(Line& line, const BreakEvent& event);
  void handle(Line& line, const PrefillEvent& event);
  void handle(Line& line, PromptScoresEvent& event);
  void handle(Line& line, const TokenEvent& event);
  void handle(Line& line, const DoneEvent& done);
  void send(const Line& line, api::Delta delta);
  void send_deltas(Line& line, const TokenEvent& event);
  void send_rest(Line& line);
  void finish(Line& last);
  void finish_stream(Line& last);
  void finish_whole();
  api::Usage usage() const;
  void remember();
  void look_ahead();
  void fail(const Error& error);

  const Service& service_;
  const AnswerForm form_;
  const std::shared_ptr<ResponseWriter> writer_;
  const std::unique_ptr<api::ReplyWriter> reply_;
  std::vector<std::unique_ptr<Line>> lines_;
  std::vector<Event> events_;        // taken from a queue
  JobStats seen_;                    // of the first prompt, as far as events have come
  std::size_t running_ = 0;          // lines whose jobs have not ended
  bool done_ = false;                // a silence that ended just before may still ask for a comment
  std::atomic<bool> failed_{false};  // an error was sent; the other jobs' clients count as gone
};

}  // namespace kvkeep::server
