#include "engine/llama/hybrid_memory.h"

#include <algorithm>

#include "base/assert.h"
#include "engine/llama/state_parts.h"
#include "engine/llama/windowed_memory.h"

namespace kvkeep::engine::llama {

HybridMemory::HybridMemory(llama_context& context, std::uint32_t conversations, const StateParts& parts,
                           RestoreCalls calls)
    : RowMemory(context, conversations, *parts.rows, parts.empty_rest(), calls),
      empty_partial_(parts.empty_partial),
      least_point_bytes_(parts.point_bytes),
      has_window_(parts.window_tokens > 0),
      complete_(conversations, true) {}

// Keeps the rows and drops the recurrent state.
Status HybridMemory::drop_point(llama_seq_id seq) {
  return set_state(context(), seq, StatePart::kPartial, empty_partial_);
}

Result<std::size_t> HybridMemory::read_scratch(std::size_t cells, MutableByteSpan out) {
  TRY(drop_point(scratch()));
  if (has_window_) drop_window(context(), scratch());
  return RowMemory::read_scratch(cells, out);
}

std::uint64_t HybridMemory::point_bytes(SeqId seq) const {
  return std::max<std::uint64_t>(least_point_bytes_, state_size(context(), seq.value(), StatePart::kPartial));
}

Result<std::size_t> HybridMemory::save_point(SeqId seq, MutableByteSpan out) {
  KVKEEP_ASSERT(is_complete(seq) && length(seq) > Position{0}, "a point is saved of a complete sequence");
  return get_state(context(), seq.value(), StatePart::kPartial, out);
}

Status HybridMemory::restore_rows(SeqId seq, std::span<const cache::RowPiece> pieces) {
  if (pieces.empty()) return {};
  complete_[index(seq)] = false;
  return RowMemory::restore_rows(seq, pieces);
}

Status HybridMemory::restore_point(SeqId seq, std::span<const cache::RowPiece> pieces) {
  KVKEEP_ASSERT(pieces.size() == 1 && pieces.front().wanted.end == length(seq), "one point, where the sequence ends");
  Status set = set_state(context(), seq.value(), StatePart::kPartial, pieces.front().bytes);
  // The point is of another position or kind: libllama takes what it can read.
  const llama_pos last = llama_memory_seq_pos_max(memory(), seq.value());
  const bool at_end = llama_memory_seq_pos_min(memory(), seq.value()) == last && media(seq).may_end(length(seq), last);
  if (set && !at_end) set = damaged("a point of another position");
  if (!set) {
    clear(seq);
    return set.error().kind == ErrorKind::kNoSpace ? set : damaged(set.error().message);
  }
  complete_[index(seq)] = true;
  return {};
}

Status HybridMemory::fork(SeqId from, SeqId to, Position end) {
  TRY(RowMemory::fork(from, to, end));
  if (end == Position{0}) return {};
  Status done = finish_fork(to, is_complete(from) && end == length(from));
  if (!done) clear(to);
  return done;
}

Status HybridMemory::finish_fork(SeqId to, bool complete) {
  if (has_window_) TRY(own_window_cells(context(), to.value(), buffer_));
  if (!complete) TRY(drop_point(to.value()));
  complete_[index(to)] = complete;
  return {};
}

bool HybridMemory::truncate(SeqId seq, Position end) {
  if (end == length(seq)) return true;
  if (end > Position{0}) {
    complete_[index(seq)] = false;
    // Without recurrent state the sequence can be cut.
    if (!drop_point(seq.value())) {
      clear(seq);
      return false;
    }
  }
  return RowMemory::truncate(seq, end);
}

void HybridMemory::clear(SeqId seq) {
  RowMemory::clear(seq);
  complete_[index(seq)] = true;
}

}  // namespace kvkeep::engine::llama
