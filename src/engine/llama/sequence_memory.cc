#include "engine/llama/sequence_memory.h"

#include <algorithm>

#include "base/assert.h"
#include "engine/cell_ledger.h"
#include "engine/llama/hybrid_memory.h"
#include "engine/llama/row_memory.h"
#include "engine/llama/stream_memory.h"
#include "engine/llama/whole_memory.h"
#include "engine/llama/windowed_memory.h"

namespace kvkeep::engine::llama {
namespace {

// Sequences of a model whose state cannot be saved: they only grow and are cleared.
class UncachedMemory final : public SequenceMemory {
 public:
  UncachedMemory(llama_context& context, std::uint32_t conversations);

  std::uint32_t sequence_count() const override { return ledger_.sequence_count(); }
  std::uint32_t cells_total() const override { return ledger_.total(); }
  std::uint32_t cells_used() const override { return ledger_.used(); }
  std::uint32_t cells_owned(SeqId seq) const override { return ledger_.owned(seq); }
  Position length(SeqId seq) const override { return ledger_.length(seq); }
  cache::StateShape shape() const override { return {}; }
  Position complete_from(SeqId seq) const override { return length(seq); }
  bool is_complete(SeqId) const override { return true; }
  std::uint64_t rows_bytes(std::size_t) const override { return 0; }
  Result<std::size_t> save_rows(SeqId, TokenRange, MutableByteSpan) override { return refusal(); }
  Status restore_rows(SeqId seq, std::span<const cache::RowPiece> pieces) override;
  Status fork(SeqId from, SeqId to, Position end) override;
  bool truncate(SeqId seq, Position end) override;
  void clear(SeqId seq) override;
  void note_appended(SeqId seq, std::size_t tokens) override;
  void drop_undecoded(SeqId seq) override { clear(seq); }

 private:
  static Error refusal() { return unsupported("this model's state cannot be saved"); }

  llama_memory_t memory_;
  CellLedger ledger_;
};

UncachedMemory::UncachedMemory(llama_context& context, std::uint32_t conversations)
    : SequenceMemory(conversations),
      memory_(llama_get_memory(&context)),
      ledger_(llama_n_ctx(&context), conversations) {}

void UncachedMemory::note_appended(SeqId seq, std::size_t tokens) {
  const bool fits = ledger_.append(seq, tokens);
  KVKEEP_ASSERT(fits, "the batch was not larger than what was available");
}

Status UncachedMemory::restore_rows(SeqId seq, std::span<const cache::RowPiece> pieces) {
  if (pieces.empty()) return {};
  clear(seq);
  return refusal();
}

Status UncachedMemory::fork(SeqId, SeqId to, Position end) {
  KVKEEP_ASSERT(length(to) == Position{0}, "a fork goes to an empty sequence");
  if (end == Position{0}) return {};
  return refusal();
}

bool UncachedMemory::truncate(SeqId seq, Position end) {
  KVKEEP_ASSERT(end <= length(seq), "a sequence is cut, not stretched");
  if (end == length(seq)) return true;
  clear(seq);
  return end == Position{0};
}

void UncachedMemory::clear(SeqId seq) {
  llama_memory_seq_rm(memory_, seq.value(), -1, -1);
  ledger_.clear(seq);
  set_media(seq, {});
}

}  // namespace

const MediaMap& SequenceMemory::media(SeqId seq) const {
  const auto index = static_cast<std::size_t>(seq.value());
  KVKEEP_ASSERT(index < media_.size(), "sequence exists");
  return media_[index];
}

// The map knows the whole chunk from its first embedding on.
void SequenceMemory::note_media(SeqId seq, const MediaRun& run, std::size_t count) {
  const bool begins = run.range.begin == length(seq);
  KVKEEP_ASSERT(run.range.begin <= length(seq), "a chunk goes on where the sequence ends");
  note_appended(seq, count);
  KVKEEP_ASSERT(length(seq) <= run.range.end, "a slice of a chunk ends within it");
  if (begins) media_[static_cast<std::size_t>(seq.value())].append(run);
}

std::unique_ptr<SequenceMemory> make_memory(llama_context& context, std::uint32_t conversations,
                                            const StateParts& parts, const ClassFinding& finding, bool own_cells) {
  if (own_cells) return std::make_unique<StreamMemory>(context, parts, finding.memory_class);
  switch (finding.memory_class) {
    case MemoryClass::kSliceable: return std::make_unique<RowMemory>(context, conversations, *parts.rows);
    case MemoryClass::kWindowed: return std::make_unique<WindowedMemory>(context, conversations, parts);
    case MemoryClass::kHybrid: return std::make_unique<HybridMemory>(context, conversations, parts);
    case MemoryClass::kRecurrent:
    case MemoryClass::kOpaque: return std::make_unique<WholeMemory>(context, conversations, parts, finding);
    case MemoryClass::kUncached: break;
  }
  return std::make_unique<UncachedMemory>(context, conversations);
}

}  // namespace kvkeep::engine::llama
