#pragma once

// One choice of an answer: the reply that one job samples, as far as it has come. Most answers have one. Used by one
// thread at a time.

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/vocabulary.h"
#include "server/api/reply.h"
#include "server/routes/event_queue.h"
#include "server/routes/next_request.h"

namespace kvkeep::server {

// Whether the text, the ids and the scores of a reply are kept until its end, or leave it piece by piece.
enum class Delivery { kWhole, kStreamed };

class Choice {
 public:
  Choice(std::size_t index, Delivery delivery, NextRequest next);

  std::size_t index() const { return index_; }
  // The prompt as the first event shows it, and its scores as far as they have come.
  const api::ReplyStart& start() const { return start_; }
  api::ScoreList prompt_scores(const std::shared_ptr<const Vocabulary>& vocabulary) const;
  bool has_ended() const { return done_.has_value(); }
  // Precondition: it has ended.
  const DoneEvent& done() const { return *done_; }

  // Why no more of the prompt was reused; null: it was not explained.
  const FoundBreak* found_break() const { return found_break_.get(); }

  // Call it with each event of the job, before start() or result() are used.
  void add(const BreakEvent& event) { found_break_ = event.found; }
  void note_prompt(const JobStats& stats);
  void add(PromptScoresEvent event);
  void add(const TokenEvent& event);
  void end(DoneEvent done);

  std::size_t reasoning_tokens() const { return reasoning_tokens_; }
  // Where its job runs, by the last event; a further reply to a prompt gets a place after its first token.
  std::optional<std::size_t> slot() const { return slot_; }
  // Returns the reply; a whole one has its content once. Precondition: it has ended.
  api::GenerationResult take_result(const std::shared_ptr<const Vocabulary>& vocabulary);
  // The client got the reply: remembers it for the next request. Precondition: it has ended.
  void remember();
  bool may_prefill_ahead() const { return next_.may_prefill_ahead(/*calls=*/done_->whole_calls > 0); }
  void prefill_ahead() { next_.prefill_ahead(); }

 private:
  void count_reasoning(const std::vector<chat::tools::ReplyDelta>& deltas, std::size_t tokens);
  void append(const std::vector<chat::tools::ReplyDelta>& deltas);

  const std::size_t index_;
  const Delivery delivery_;
  NextRequest next_;
  std::shared_ptr<const FoundBreak> found_break_;
  std::optional<DoneEvent> done_;
  std::optional<std::size_t> slot_;
  bool prompt_known_ = false;
  api::ReplyStart start_;
  std::vector<api::ReplyPart> content_;
  std::vector<TokenId> tokens_;
  using Scores = std::shared_ptr<std::vector<TokenScores>>;
  Scores scores_ = std::make_shared<std::vector<TokenScores>>();
  Scores prompt_scores_ = std::make_shared<std::vector<TokenScores>>();
  std::size_t reasoning_tokens_ = 0;
  std::size_t unplaced_tokens_ = 0;
};

// Views and figures as the dialects show them.
api::Delta view_of(const chat::tools::ReplyDelta& delta);
api::Timings timings_of(const JobStats& stats);
api::TokenScore shown(const TokenScores& scores, const Vocabulary& vocabulary);

}  // namespace kvkeep::server
