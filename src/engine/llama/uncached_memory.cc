#include "engine/llama/uncached_memory.h"

#include "base/assert.h"

namespace kvkeep::engine::llama {

UncachedMemory::UncachedMemory(llama_context& context, std::uint32_t conversations)
    : memory_(llama_get_memory(&context)), ledger_(llama_n_ctx(&context), conversations) {}

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
}

}  // namespace kvkeep::engine::llama
