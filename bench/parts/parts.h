#pragma once

// Figures of the cache's parts, with a model that the user names. Each repetition measures everything once, so that a
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

}  // namespace kvkeep::bench
