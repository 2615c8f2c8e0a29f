#include "server/routes/choice.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "server/trace/explanations.h"

namespace kvkeep::server {
namespace {

using chat::tools::ReplyDelta;

// A reply cut by max_tokens may have incomplete tool calls: it says `length`, so that no client runs a partial call.
api::FinishReason finish_reason(const DoneEvent& done) {
  if (done.finish == Finish::kLength) return api::FinishReason::kLength;
  return done.whole_calls > 0 ? api::FinishReason::kToolCalls : api::FinishReason::kStop;
}

// Their texts are made when they are written: the list keeps numbers only.
api::ScoreList list_of(std::shared_ptr<const std::vector<TokenScores>> scores,
                       std::shared_ptr<const Vocabulary> vocabulary) {
  const std::size_t size = scores->size();
  return {size, [scores = std::move(scores), vocabulary = std::move(vocabulary)](std::size_t number) {
            return shown((*scores)[number], *vocabulary);
          }};
}

}  // namespace

api::Delta view_of(const ReplyDelta& delta) {
  return {.kind = delta.kind,
          .text = delta.text,
          .call_index = delta.call_index,
          .call_id = delta.call_id,
          .call_name = delta.call_name,
          .call_is_whole = delta.is_whole};
}

api::Timings timings_of(const JobStats& stats) {
  api::Timings timings;
  timings.cache_n = stats.cached_tokens;
  timings.prompt_n = stats.prompt_tokens - stats.cached_tokens;
  // Its prefill may have ended early.
  if (stats.predicted_tokens == 0) timings.prompt_n = std::min(timings.prompt_n, stats.prefilled_tokens);
  timings.prompt_ms = stats.prompt_ms;
  timings.predicted_n = stats.predicted_tokens;
  timings.predicted_ms = stats.predicted_ms;
  timings.cache_source = to_string(stats.source);
  timings.memory_tokens = stats.memory_tokens;
  timings.ram_tokens = stats.ram_tokens;
  timings.disk_tokens = stats.disk_tokens;
  timings.shared_tokens = stats.shared_tokens;
  timings.cache_point = to_string(stats.point);
  timings.cache_miss_reason = to_string(stats.miss);
  return timings;
}

api::TokenScore shown(const TokenScores& scores, const Vocabulary& vocabulary) {
  const auto one = [&](const ScoredToken& token) {
    return api::TokenScore{token.id, vocabulary.piece(token.id, /*with_special=*/true), token.logprob};
  };
  api::TokenScore score = one(scores.chosen);
  for (const ScoredToken& token : scores.likeliest) score.likeliest.push_back(one(token));
  return score;
}

Choice::Choice(std::size_t index, Delivery delivery, NextRequest next)
    : index_(index), delivery_(delivery), next_(std::move(next)) {}

void Choice::note_prompt(const JobStats& stats) {
  slot_ = stats.place;
  if (std::exchange(prompt_known_, true)) return;
  start_ = {.prompt_tokens = stats.prompt_tokens, .cached_tokens = stats.cached_tokens, .choice = index_};
}

api::ScoreList Choice::prompt_scores(const std::shared_ptr<const Vocabulary>& vocabulary) const {
  return list_of(prompt_scores_, vocabulary);
}

void Choice::add(PromptScoresEvent event) { std::ranges::move(event.scores, std::back_inserter(*prompt_scores_)); }

void Choice::add(const TokenEvent& event) {
  note_prompt(event.stats);
  next_.add_token(event.token);
  count_reasoning(event.deltas, 1);
  for (const ReplyDelta& delta : event.deltas) next_.add(delta);
  if (delivery_ == Delivery::kStreamed) return;
  append(event.deltas);
  tokens_.push_back(event.token);
  if (event.scores) scores_->push_back(*event.scores);
}

void Choice::end(DoneEvent done) {
  note_prompt(done.stats);
  count_reasoning(done.deltas, 0);
  if (delivery_ == Delivery::kWhole) append(done.deltas);
  done_.emplace(std::move(done));
}

// A token that releases nothing, such as a tag, belongs to the delta after it.
void Choice::count_reasoning(const std::vector<ReplyDelta>& deltas, std::size_t tokens) {
  unplaced_tokens_ += tokens;
  if (deltas.empty()) return;
  if (deltas.front().kind == chat::tools::DeltaKind::kReasoning) reasoning_tokens_ += unplaced_tokens_;
  unplaced_tokens_ = 0;
}

void Choice::append(const std::vector<ReplyDelta>& deltas) {
  for (const ReplyDelta& delta : deltas) api::append_delta(content_, view_of(delta));
}

api::GenerationResult Choice::take_result(const std::shared_ptr<const Vocabulary>& vocabulary) {
  api::GenerationResult result;
  result.choice = index_;
  result.slot = slot_;
  result.finish = finish_reason(*done_);
  result.stop_string = done_->stop_string;
  result.truncated = done_->stats.truncated;
  result.by_line_limit = done_->by_line_limit;
  result.prompt_tokens = done_->stats.prompt_tokens;
  result.timings = timings_of(done_->stats);
  result.timings.slot = slot_;
  if (found_break_ != nullptr) result.timings.cache_break = break_json(*found_break_, done_->stats, BreakTexts::kOwn);
  result.reasoning_tokens = reasoning_tokens_;
  result.content = std::move(content_);
  result.tokens = std::move(tokens_);
  result.scores = list_of(scores_, vocabulary);
  return result;
}

void Choice::remember() {
  for (const ReplyDelta& delta : done_->deltas) next_.add(delta);
  next_.remember(done_->stop_string);
}

}  // namespace kvkeep::server
