#pragma once

// The model's memory without the model: cache::ModelMemory on one libllama context, one implementation per way in which
// state can be saved. The engine tells it what was decoded; it never decodes itself. Engine thread only.

#include <memory>

#include "cache/model_memory.h"
#include "engine/llama/library.h"
#include "engine/llama/state_parts.h"

namespace kvkeep::engine::llama {

class SequenceMemory : public cache::ModelMemory {
 public:
  // After a decode that put `tokens` rows at the end of `seq`.
  virtual void note_appended(SeqId seq, std::size_t tokens) = 0;
  // After a decode that failed: what it left behind length() goes. The sequence may be empty then.
  virtual void drop_undecoded(SeqId seq) = 0;
  // The sequence may be decoded on.
  virtual bool stands(SeqId seq) const = 0;

  std::uint32_t cells_available() const { return cells_total() - cells_used(); }

  // Most models need one thing beside rows, or none.
  std::uint64_t window_bytes(std::size_t) const override { return 0; }
  Result<std::size_t> save_window(SeqId, TokenRange, MutableByteSpan) override { return unsupported("no windows"); }
  std::uint64_t point_bytes(SeqId) const override { return 0; }
  Result<std::size_t> save_point(SeqId, MutableByteSpan) override { return unsupported("no points"); }
  Status restore_point(SeqId, std::span<const cache::RowPiece>) override { return unsupported("no points"); }
};

// Sequences 0 .. conversations - 1 hold conversations; where rows pass through a scratch sequence it is the next one
// (needs_scratch). The context outlives the memory and is empty. `finding`: what trials proved.
std::unique_ptr<SequenceMemory> make_memory(llama_context& context, std::uint32_t conversations,
                                            const StateParts& parts, const ClassFinding& finding);

}  // namespace kvkeep::engine::llama
