#pragma once

// What it takes to capture and restore a sequence of a model that needs more than rows: a point, or a window of rows.

#include "bench/parts/metering.h"
#include "cache/model_memory.h"

namespace kvkeep::bench {

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
