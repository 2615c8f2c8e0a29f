#pragma once

// The log lines of a request's life. One of them is for every user, at the default level: what the request was, how
// much of it was cached, and why no more. The others (debug) use words that users of ds4 and llama-server know. Each
// ends with the id that the client knows.

#include <memory>
#include <optional>
#include <string>

#include "base/log_fields.h"
#include "server/run/found_break.h"
#include "server/run/job.h"
#include "server/run/trace.h"

namespace kvkeep::server {

struct Difference;

// The request cannot start yet, since running requests hold the cells.
void log_waiting(const Job& job, const JobStats& stats);
// Logs how much is reused and how much is prefilled.
void log_start(const Job& job, const JobStats& stats);
void log_prompt_done(const Job& job, const JobStats& stats);
// State could not be read for the request.
void log_failed_read(const Job& job, const Error& error);
// The request gives its cells to an older one and resumes later from captured rows.
void log_set_aside(const Job& job, const JobStats& stats);
void log_resumed(const Job& job, const JobStats& stats, std::size_t reused);

// A request at its end.
struct EndedRequest {
  const JobStats& stats;
  bool started = false;                    // it got its place in the model's memory
  const Difference* difference = nullptr;  // as in Explanation; null: none
  const policy::PromptMarkers& markers;    // of the effective prompt
  Finish how = Finish::kError;
  const std::optional<Error>& error;             // with Finish::kError
  std::shared_ptr<const FoundBreak> found = {};  // null: nothing explains it
};

// Logs the line for every user; `show` is null where texts are private. A prefill ahead, which is no request, is logged
// at debug level.
void log_done(const Job& job, const EndedRequest& ended, const ShowTokens* show);

// Returns the line of log_done() without the request's kind and id. Pure.
std::string done_text(const EndedRequest& ended, const ShowTokens* show);
// Returns the values of that line, also those that its text gives in words; docs/monitoring.md names them. Pure.
LogFields done_fields(const EndedRequest& ended);
// Returns its part that says why no more was reused: where the prompt parts from known ones, or what prevented it.
std::string miss_text(const EndedRequest& ended, const ShowTokens* show);
// Returns its last part, "; volatile-text (date) in system: 640 tokens prefilled again in 0.520s"; "" if next to
// nothing was, or if the request did not use the cache, which the reason says.
std::string loss_text(const EndedRequest& ended);

}  // namespace kvkeep::server
