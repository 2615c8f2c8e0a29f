#pragma once

// What the meters of a model's memory share.

#include <functional>
#include <string>
#include <vector>

#include "base/result.h"
#include "bench/figures.h"
#include "engine/llama/llama_engine.h"
#include "os/clock.h"

namespace kvkeep::bench {

inline constexpr SeqId kSource{0};
inline constexpr SeqId kTarget{1};

TokenRange token_range(std::size_t begin, std::size_t end);

// Decodes ids, spread over the vocabulary, into kSource up to `tokens` of them; which ones does not matter to what is
// measured. kAborted: may_go_on, asked between batches, said no.
Status prefill(engine::llama::LlamaEngine& engine, std::size_t tokens, const std::function<bool()>& may_go_on);

// Wall time of `work` in ms, or its error.
Result<double> timed_ms(os::Clock& clock, const std::function<Status()>& work);

// Captures of `bytes` each that took `ms`: judged by their rate in GB/s; small ones, which have no rate worth naming,
// by their time in ms.
PartFigures capture_figures(const std::string& what, std::size_t bytes, std::vector<double> ms);

// Rates in GB/s of `bytes` in each of `ms`.
std::vector<double> rates_of(std::size_t bytes, std::vector<double> ms);

}  // namespace kvkeep::bench
