#pragma once

// The model's memory without the model: cache::ModelMemory on one libllama context, with one implementation for each
// way to save state. The engine reports decoded tokens to it; it never decodes itself. Engine thread only.

#include <memory>
#include <utility>
#include <vector>

#include "cache/model_memory.h"
#include "engine/llama/library.h"
#include "engine/llama/state_parts.h"
#include "engine/media_map.h"

namespace kvkeep::engine::llama {

class SequenceMemory : public cache::ModelMemory {
 public:
  // A decode has put `tokens` rows at the end of `seq`.
  virtual void note_appended(SeqId seq, std::size_t tokens) = 0;
  // A decode has put embeddings for the next `count` ids of a chunk there. Precondition: the sequence has the ids
  // before them, and they are not more than the chunk has.
  void note_media(SeqId seq, const MediaRun& run, std::size_t count);
  // Where the ids of a sequence lie in libllama's memory.
  const MediaMap& media(SeqId seq) const;
  // A decode failed: drops the state that it left after length(). The sequence may be empty then.
  virtual void drop_undecoded(SeqId seq) = 0;
  // Returns true if the sequence may be decoded further.
  virtual bool is_complete(SeqId seq) const = 0;

  // Cells that a decode can take for `seq`.
  virtual std::uint32_t cells_available(SeqId) const { return cells_total() - cells_used(); }

  // Most models need one kind of leaf, or none.
  std::uint64_t window_bytes(std::size_t) const override { return 0; }
  Result<std::size_t> save_window(SeqId, TokenRange, MutableByteSpan) override { return unsupported("no windows"); }
  std::uint64_t point_bytes(SeqId) const override { return 0; }
  Result<std::size_t> save_point(SeqId, MutableByteSpan) override { return unsupported("no points"); }
  Status restore_point(SeqId, std::span<const cache::RowPiece>) override { return unsupported("no points"); }
  bool can_shift() const override { return false; }
  Status shift(SeqId, TokenRange) override { return unsupported("rows cannot move to other positions"); }

 protected:
  explicit SequenceMemory(std::uint32_t conversations) : media_(conversations) {}

  void set_media(SeqId seq, MediaMap map) { media_[static_cast<std::size_t>(seq.value())] = std::move(map); }
  llama_pos to_pos(SeqId seq, Position at) const { return media(seq).to_library(at); }

 private:
  std::vector<MediaMap> media_;  // per conversation
};

// Sequences 0 .. conversations - 1 hold conversations; if rows pass through a scratch sequence, it is the next one
// (needs_scratch). The context must be empty and outlive the memory. `finding` is the result of the trials. With
// `own_cells` the context was made so (ModelOptions::own_cells), for just these sequences.
std::unique_ptr<SequenceMemory> make_memory(llama_context& context, std::uint32_t conversations,
                                            const StateParts& parts, const ClassFinding& finding,
                                            bool own_cells = false);

}  // namespace kvkeep::engine::llama
