#pragma once

// The log lines of a request's life. One of them is for everybody, at the default level: what a request was, how much
// of it was cached, and why no more. The others (debug) are in words that users of ds4 and llama-server know. Each ends
// with the id that the client was told.

#include <functional>
#include <optional>
#include <string>

#include "server/run/job.h"

namespace kvkeep::server {

struct Difference;

// A run of tokens as quoted text that is safe in a log.
using ShowTokens = std::function<std::string(TokenSpan)>;

// It cannot start yet: running requests hold the cells.
void log_waiting(const Job& job, const JobStats& stats);
// What was reused, and what is prefilled.
void log_start(const Job& job, const JobStats& stats);
void log_prompt_done(const Job& job, const JobStats& stats);
// It gives its cells to an older request and goes on later from captured rows.
void log_set_aside(const Job& job, const JobStats& stats);
void log_resumed(const Job& job, const JobStats& stats, std::size_t reused);

// A request at its end.
struct EndedRequest {
  const JobStats& stats;
  bool started = false;                    // it got its place in the model's memory
  const Difference* difference = nullptr;  // as in Explanation; null: none
  const policy::PromptMarkers& markers;    // of the effective prompt
  Finish how = Finish::kError;
  const std::optional<Error>& error;  // with Finish::kError
};

// The line for everybody; `show` is null where texts are private. Of what is prefilled ahead, which is no request, at
// debug level.
void log_done(const Job& job, const EndedRequest& ended, const ShowTokens* show);

// What log_done() says, without the request's kind and id. Pure.
std::string done_text(const EndedRequest& ended, const ShowTokens* show);
// Of it, why no more was reused: where the prompt parts from what is known, or what stood against it.
std::string miss_text(const EndedRequest& ended, const ShowTokens* show);

}  // namespace kvkeep::server
