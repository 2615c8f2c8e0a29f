#include "server/routes/event_queue.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace kvkeep::server {

EventQueue::EventQueue(std::shared_ptr<const Vocabulary> vocabulary, ReplyEndings endings,
                       std::optional<Reading> reading, Reader reader)
    : vocabulary_(std::move(vocabulary)),
      reading_(std::move(reading)),
      pieces_(std::move(endings.stop_strings)),
      lines_(endings.lines),
      reader_(std::move(reader)) {
  if (reading_) parser_.emplace(*reading_->format, reading_->tools, reading_->options);
}

void EventQueue::take(std::vector<Event>& events) {
  events.clear();
  const MutexLock lock(mutex_);
  events.swap(events_);
}

void EventQueue::push(Event event) {
  {
    const MutexLock lock(mutex_);
    events_.push_back(std::move(event));
    if (events_.size() > 1) return;  // the reader is awake
  }
  reader_.wake();
}

void EventQueue::on_prefill(const JobStats& stats, std::size_t processed, double elapsed_ms) {
  push(PrefillEvent{stats, processed, elapsed_ms});
}

bool EventQueue::is_marker(TokenId token) const { return reading_ && reading_->markers->contains(token); }

std::vector<chat::tools::ReplyDelta> EventQueue::read(std::vector<chat::tools::ReplyPiece> pieces,
                                                      const JobStats& stats) {
  lines_.apply(pieces, stats.predicted_ms);
  std::vector<chat::tools::ReplyDelta> deltas;
  for (const chat::tools::ReplyPiece& piece : pieces) {
    if (!parser_) {
      deltas.push_back({.text = piece.text});
      continue;
    }
    std::ranges::move(parser_->feed(piece.text, piece.is_marker), std::back_inserter(deltas));
  }
  return deltas;
}

bool EventQueue::on_token(TokenId token, const JobStats& stats) {
  if (vocabulary_->is_end_of_generation(token)) {
    push(TokenEvent{token, {}, stats, std::exchange(scores_, {})});
    return false;
  }
  // Markers that the model writes are part of its answer: those that are no tags of calls or thoughts are shown.
  push(TokenEvent{token, read(pieces_.feed(vocabulary_->piece(token, true), is_marker(token)), stats), stats,
                  std::exchange(scores_, {})});
  return !pieces_.found_stop() && !lines_.reached() && !(parser_ && parser_->ended());
}

void EventQueue::on_done(Finish finish, const JobStats& stats, const std::optional<Error>& error) {
  DoneEvent done{finish, read(pieces_.finish(), stats), 0, 0, pieces_.found_stop().value_or(""), stats, error};
  done.by_line_limit = finish == Finish::kStop && lines_.reached();
  if (done.by_line_limit) done.finish = Finish::kLength;
  if (parser_) {
    std::ranges::move(parser_->finish(done.finish == Finish::kLength), std::back_inserter(done.deltas));
    done.call_count = parser_->call_count();
    done.whole_calls = parser_->whole_calls();
  }
  push(std::move(done));
}

}  // namespace kvkeep::server
