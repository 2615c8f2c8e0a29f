#pragma once

// The log lines of a request's life, in words that users of ds4 and llama-server know. Each ends with the id that the
// client was told.

#include "server/run/job.h"

namespace kvkeep::server {

// It cannot start yet: running requests hold the cells.
void log_waiting(const Job& job, const JobStats& stats);
// What was reused, and what is prefilled.
void log_start(const Job& job, const JobStats& stats);
void log_prompt_done(const Job& job, const JobStats& stats);
// It gives its cells to an older request and goes on later from captured rows.
void log_set_aside(const Job& job, const JobStats& stats);
void log_resumed(const Job& job, const JobStats& stats, std::size_t reused);
// `error`: with Finish::kError.
void log_done(const Job& job, const JobStats& stats, Finish how, const std::optional<Error>& error);

}  // namespace kvkeep::server
