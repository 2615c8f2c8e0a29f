#pragma once

// Figures of the server's parts, with a model that the user names. Each repetition measures everything once, so that a
// disturbance of the machine affects both sides of a ratio; wall time.

#include <functional>
#include <string>
#include <vector>

#include "base/result.h"
#include "bench/report/figures.h"
#include "engine/llama/model_options.h"
#include "os/clock.h"

namespace kvkeep::bench {

struct PartsOptions {
  engine::llama::ModelOptions model;  // n_ctx, parallel and idle_sequences are chosen here
  std::size_t tokens = 8192;          // whose rows are saved and restored; prefilled once
  std::size_t repetitions = 15;       // at least 1
};

// `progress(done, of)` is called after each step and between the batches of the prefill; returning false ends with
// kAborted. kUnsupported if no state of the model can be kept. Otherwise errors of loading it.
Result<std::vector<PartFigures>> measure_parts(const PartsOptions& options, os::Clock& clock,
                                               const std::function<bool(std::size_t done, std::size_t of)>& progress);

// One part of it: a lookup of 100,000 tokens among 10,000 segments, and the memory that the index takes per token
// in addition to the token's id. No errors.
std::vector<PartFigures> measure_index(std::size_t repetitions, os::Clock& clock);

// ---- the scheduler ----

struct RoundOptions {
  engine::llama::ModelOptions model;  // n_ctx, parallel and threads are chosen here
  std::size_t running = 16;
  std::size_t waiting = 1'000;
  std::size_t rounds = 100;     // of a repetition, after those in which all begin
  std::size_t repetitions = 5;  // at least 1
};

// The scheduler's own time per round, next to a decode step of the same round: processor time of the engine thread, so
// that other programs hardly change the ratio. `progress(done, of)` is called after each repetition; returning false
// ends with kAborted. Otherwise errors of loading the model.
Result<std::vector<PartFigures>> measure_rounds(const RoundOptions& options, os::Clock& clock,
                                                const std::function<bool(std::size_t done, std::size_t of)>& progress);

}  // namespace kvkeep::bench
