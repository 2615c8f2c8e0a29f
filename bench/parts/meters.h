#pragma once

// The meters of a model's memory: common parts, and the meter of models that need more than rows.

#include <functional>
#include <string>
#include <vector>

#include "base/result.h"
#include "bench/report/figures.h"
#include "cache/model_memory.h"
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

// Measures capture and restore of a sequence that needs a point, or a window of rows.
class StateMeter {
 public:
  // The engine has two sequences and cells for both; it outlives this, and so does the clock.
  StateMeter(engine::llama::LlamaEngine& engine, std::size_t tokens, os::Clock& clock)
      : engine_(engine), tokens_(tokens), clock_(clock) {}

  // Prefills kSource and captures all of it once. kAborted: may_go_on said no.
  Status prepare(const std::function<bool()>& may_go_on);
  // Captures rows and the state at the end again, and restores all of it into kTarget.
  Status measure_once();
  std::vector<PartFigures> figures() const;

 private:
  // Rows, a window of rows, or a point.
  struct Captured {
    TokenRange range;
    std::vector<std::byte> buffer;
    std::size_t bytes = 0;  // of the buffer
    cache::RowPiece piece() const { return {range, range, ByteSpan(buffer).first(bytes)}; }
  };

  Status save_base(const std::function<bool()>& may_go_on);
  Status save_rows(Captured& rows);
  Status save_last();
  Status restore();

  engine::llama::LlamaEngine& engine_;
  std::size_t tokens_;
  os::Clock& clock_;
  std::vector<Captured> rows_;           // ascending, without gap; of no bytes where the model has none
  Captured last_;                        // the window, or the point
  Captured base_;                        // of opaque models, a point on the way
  std::vector<cache::RowPiece> pieces_;  // of rows_
  std::vector<double> rows_ms_;          // of the first of rows_
  std::vector<double> last_ms_;
  std::vector<double> restore_ms_;
};

}  // namespace kvkeep::bench
