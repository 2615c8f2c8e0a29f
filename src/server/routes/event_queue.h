#pragma once

// From the engine thread to the thread that answers requests.
//
// The engine thread pushes and never waits; the other one takes, formats and writes, however slowly the client reads.
// Bounded by what one request can produce: its context. Thread safe.

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "base/mutex.h"
#include "base/vocabulary.h"
#include "chat/marker_set.h"
#include "chat/tools/piece_stream.h"
#include "chat/tools/reply_parser.h"
#include "server/run/job.h"

namespace kvkeep::server {

struct PrefillEvent {
  JobStats stats;
  std::size_t processed = 0;
  double elapsed_ms = 0;
};
// One sampled token and what it released, which may be nothing: whole code points, stop strings cut.
struct TokenEvent {
  TokenId token = 0;
  std::vector<chat::tools::ReplyDelta> deltas;
  JobStats stats;
};
struct DoneEvent {
  Finish finish = Finish::kStop;
  std::vector<chat::tools::ReplyDelta> deltas;  // what was held back
  std::size_t call_count = 0;                   // of the whole reply: calls that were begun
  std::size_t whole_calls = 0;                  // and those of them that are complete
  std::string stop_string;                      // the one that ended the reply, if one did
  JobStats stats;
  std::optional<Error> error;
};
using Event = std::variant<PrefillEvent, TokenEvent, DoneEvent>;

// How a reply is to be read: see chat::tools::ReplyParser. `format` and `markers` live as long as the server.
struct Reading {
  const chat::tools::ReplyFormat* format = nullptr;
  const chat::MarkerSet* markers = nullptr;
  chat::tools::ToolSet tools = {};
  chat::tools::ReplyOptions options = {};
};

// The sink of a request: turns sampled tokens into text and calls on the engine thread, because stop strings and calls
// may end generation.
class EventQueue final : public JobSink {
 public:
  struct Reader {
    std::function<void()> wake;  // there are events; called from the engine thread, once until they are taken
    std::function<bool()> gone;  // nobody reads any more; called from the engine thread
  };

  // Without a reading everything is text.
  EventQueue(std::shared_ptr<const Vocabulary> vocabulary, std::vector<std::string> stop_strings,
             std::optional<Reading> reading, Reader reader);

  // The reader's thread: all events since the last call replace those in `events`.
  void take(std::vector<Event>& events);

  // Engine thread.
  void on_prefill(const JobStats& stats, std::size_t processed, double elapsed_ms) override;
  bool on_token(TokenId token, const JobStats& stats) override;
  void on_done(Finish finish, const JobStats& stats, const std::optional<Error>& error) override;
  bool gone() const override { return reader_.gone(); }

 private:
  void push(Event event);
  bool is_marker(TokenId token) const;
  std::vector<chat::tools::ReplyDelta> read(const std::vector<chat::tools::ReplyPiece>& pieces);

  const std::shared_ptr<const Vocabulary> vocabulary_;
  const std::optional<Reading> reading_;
  // Engine thread only.
  chat::tools::PieceStream pieces_;
  std::optional<chat::tools::ReplyParser> parser_;

  const Reader reader_;
  Mutex mutex_;
  std::vector<Event> events_ GUARDED_BY(mutex_);
};

}  // namespace kvkeep::server
