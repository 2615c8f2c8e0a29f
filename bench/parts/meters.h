#pragma once

// The meters of a model's memory: shared parts, and the meter of models that need more than rows.

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

// Decodes ids, spread over the vocabulary, into kSource up to `tokens` of them; the measurements do not depend on the
// ids. kAborted if may_go_on, called between batches, returned false.
Status prefill(engine::llama::LlamaEngine& engine, std::size_t tokens, const std::function<bool()>& may_go_on);

// Returns the wall time of `work` in ms, or its error.
Result<double> timed_ms(os::Clock& clock, const std::function<Status()>& work);

// Captures of `bytes` each that took `ms`: judged by their rate in GB/s, small ones by their time in ms.
PartFigures capture_figures(const std::string& what, std::size_t bytes, std::vector<double> ms);

// Returns the rates in GB/s of `bytes` in each of `ms`.
std::vector<double> rates_of(std::size_t bytes, std::vector<double> ms);

// Measures capture and restore of a sequence that needs a point, or a window of rows.
class StateMeter {
 public:
  // The engine must have two sequences and cells for both; it and the clock must outlive this.
  StateMeter(engine::llama::LlamaEngine& engine, std::size_t tokens, os::Clock& clock)
      : engine_(engine), tokens_(tokens), clock_(clock) {}

  // Prefills kSource and captures all of it once. kAborted if may_go_on returned false.
  Status prepare(const std::function<bool()>& may_go_on);
  // Captures rows and the state at the end again, and restores both into kTarget.
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
  std::vector<Captured> rows_;           // ascending, without gaps; without bytes if the model has no rows
  Captured last_;                        // the window, or the point
  Captured base_;                        // for opaque models, an earlier point
  std::vector<cache::RowPiece> pieces_;  // of rows_
  std::vector<double> rows_ms_;          // of the first of rows_
  std::vector<double> last_ms_;
  std::vector<double> restore_ms_;
};

}  // namespace kvkeep::bench
