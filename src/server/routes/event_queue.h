#pragma once

// Carries events from the engine thread to the thread that answers requests.
//
// The engine thread pushes and never waits; the other thread takes, formats and writes, however slowly the client
// reads. The queue is bounded by the size of one request, its context. Thread safe.

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "base/mutex.h"
#include "base/vocabulary.h"
#include "chat/marker_set.h"
#include "chat/tools/piece_stream.h"
#include "chat/tools/reply_parser.h"
#include "server/run/found_break.h"
#include "server/run/job.h"
#include "server/run/token_scores.h"

namespace kvkeep::server {

struct PrefillEvent {
  JobStats stats;
  std::size_t processed = 0;
  double elapsed_ms = 0;
};
// Why no more of the prompt is reused; comes before the first PrefillEvent.
struct BreakEvent {
  std::shared_ptr<const FoundBreak> found;
};
// One sampled token and the text that it released, perhaps none: whole code points, stop strings cut.
struct TokenEvent {
  TokenId token = 0;
  std::vector<chat::tools::ReplyDelta> deltas;
  JobStats stats;
  std::optional<TokenScores> scores = {};
};
// Of the next tokens of the prompt.
struct PromptScoresEvent {
  std::vector<TokenScores> scores;
};
struct DoneEvent {
  Finish finish = Finish::kStop;
  std::vector<chat::tools::ReplyDelta> deltas = {};  // text held back until the end
  std::size_t call_count = 0;                        // calls that were begun in the whole reply
  std::size_t whole_calls = 0;                       // those of them that are complete
  std::string stop_string = {};                      // the stop string that ended the reply; "": none did
  JobStats stats = {};
  std::optional<Error> error = {};
  bool by_line_limit = false;  // with kLength
};
using Event = std::variant<BreakEvent, PrefillEvent, PromptScoresEvent, TokenEvent, DoneEvent>;

// How to read a reply: see chat::tools::ReplyParser. `format` and `markers` live as long as the server.
struct Reading {
  const chat::tools::ReplyFormat* format = nullptr;
  const chat::MarkerSet* markers = nullptr;
  chat::tools::ToolSet tools = {};
  chat::tools::ReplyOptions options = {};
};

// The texts and limits that end a reply.
struct ReplyEndings {
  std::vector<std::string> stop_strings = {};
  chat::tools::LineLimitOptions lines = {};
};

// The sink of a request: turns sampled tokens into text and calls on the engine thread, because stop strings and calls
// may end generation.
class EventQueue final : public JobSink {
 public:
  struct Reader {
    std::function<void()> wake;  // there are events; called from the engine thread, once until they are taken
    std::function<bool()> gone;  // returns true if nobody reads any more; called from the engine thread
  };

  // Without a reading all output is text.
  EventQueue(std::shared_ptr<const Vocabulary> vocabulary, ReplyEndings endings, std::optional<Reading> reading,
             Reader reader);

  // For the reader's thread: replaces the contents of `events` with all events since the last call.
  void take(std::vector<Event>& events);

  // Engine thread.
  void on_break(std::shared_ptr<const FoundBreak> found) override { push(BreakEvent{std::move(found)}); }
  void on_prefill(const JobStats& stats, std::size_t processed, double elapsed_ms) override;
  void on_scores(const TokenScores& scores) override { scores_ = scores; }
  void on_prompt_scores(std::vector<TokenScores> scores) override { push(PromptScoresEvent{std::move(scores)}); }
  bool on_token(TokenId token, const JobStats& stats) override;
  void on_done(Finish finish, const JobStats& stats, const std::optional<Error>& error) override;
  bool gone() const override { return reader_.gone(); }

 private:
  void push(Event event);
  bool is_marker(TokenId token) const;
  std::vector<chat::tools::ReplyDelta> read(std::vector<chat::tools::ReplyPiece> pieces, const JobStats& stats);

  const std::shared_ptr<const Vocabulary> vocabulary_;
  const std::optional<Reading> reading_;
  // Engine thread only.
  chat::tools::PieceStream pieces_;
  chat::tools::LineLimits lines_;
  std::optional<chat::tools::ReplyParser> parser_;
  std::optional<TokenScores> scores_;  // of the next token

  const Reader reader_;
  Mutex mutex_;
  std::vector<Event> events_ GUARDED_BY(mutex_);
};

}  // namespace kvkeep::server
