#include "engine/llama/whole_memory.h"

#include <algorithm>
#include <limits>

#include "base/assert.h"
#include "engine/llama/state_parts.h"

namespace kvkeep::engine::llama {
namespace {

std::uint32_t count_cells(std::uint32_t context_tokens, std::uint32_t sequences, const ClassFinding& finding) {
  if (finding.memory_class == MemoryClass::kOpaque && !finding.cells_per_sequence) return context_tokens;
  const std::uint64_t all = std::uint64_t{context_tokens} * sequences;
  return static_cast<std::uint32_t>(std::min<std::uint64_t>(all, std::numeric_limits<std::uint32_t>::max()));
}

}  // namespace

WholeMemory::WholeMemory(llama_context& context, std::uint32_t conversations, const StateParts& parts,
                         const ClassFinding& finding)
    : SequenceMemory(conversations),
      context_(context),
      memory_(llama_get_memory(&context)),
      finding_(finding),
      least_point_bytes_(parts.point_bytes),
      sequences_(conversations),
      cells_total_(count_cells(llama_n_ctx(&context), conversations, finding)) {}

const WholeMemory::Sequence& WholeMemory::at(SeqId seq) const {
  KVKEEP_ASSERT(seq.value() >= 0 && static_cast<std::size_t>(seq.value()) < sequences_.size(), "sequence exists");
  return sequences_[static_cast<std::size_t>(seq.value())];
}

WholeMemory::Sequence& WholeMemory::at(SeqId seq) {
  return const_cast<Sequence&>(static_cast<const WholeMemory&>(*this).at(seq));
}

cache::StateShape WholeMemory::shape() const {
  return {.cacheable = true, .points = true, .whole_points = finding_.memory_class == MemoryClass::kOpaque};
}

std::uint32_t WholeMemory::cells_used() const {
  std::uint64_t used = 0;
  for (const Sequence& sequence : sequences_) used += sequence.length.value();
  return static_cast<std::uint32_t>(std::min<std::uint64_t>(used, cells_total_));
}

void WholeMemory::note_appended(SeqId seq, std::size_t tokens) { at(seq).length = at(seq).length + tokens; }

// State of an earlier or later position must be removed: it could be decoded.
void WholeMemory::put_number(SeqId seq, Position length) {
  at(seq) = {.length = length, .complete = length == Position{0}};
  set_media(seq, media(seq).prefix(length));
  llama_memory_seq_rm(memory_, seq.value(), -1, -1);
}

void WholeMemory::clear(SeqId seq) { put_number(seq, Position{0}); }

Status WholeMemory::restore_rows(SeqId seq, std::span<const cache::RowPiece> pieces) {
  if (pieces.empty()) return {};
  Position end = length(seq);
  for (const cache::RowPiece& piece : pieces) {
    KVKEEP_ASSERT(piece.wanted.begin == end && piece.wanted.begin < piece.wanted.end, "pieces follow one another");
    if (!piece.bytes.empty()) {
      clear(seq);
      return damaged("rows for a model that has none");
    }
    end = piece.wanted.end;
  }
  if (end - length(seq) > cells_available(seq)) {
    clear(seq);
    return no_space("too few cells are free");
  }
  TRY_ASSIGN(const MediaMap media, media_of(pieces.back()));
  put_number(seq, end);
  set_media(seq, media.prefix(end));
  return {};
}

std::uint64_t WholeMemory::point_bytes(SeqId seq) const {
  return std::max<std::uint64_t>(least_point_bytes_, state_size(context_, seq.value(), StatePart::kWhole));
}

Result<std::size_t> WholeMemory::save_point(SeqId seq, MutableByteSpan out) {
  KVKEEP_ASSERT(is_complete(seq) && length(seq) > Position{0}, "a point is saved of a complete sequence");
  return get_state(context_, seq.value(), StatePart::kWhole, out);
}

Status WholeMemory::restore_point(SeqId seq, std::span<const cache::RowPiece> pieces) {
  KVKEEP_ASSERT(pieces.size() == 1 && pieces.front().wanted.end == length(seq), "one point, where the sequence ends");
  Status set = set_state(context_, seq.value(), StatePart::kWhole, pieces.front().bytes);
  // The state is of another position: libllama takes what it can read.
  if (set && !media(seq).may_end(length(seq), llama_memory_seq_pos_max(memory_, seq.value()))) {
    set = damaged("a state of another position");
  }
  if (!set) {
    clear(seq);
    return set.error().kind == ErrorKind::kNoSpace ? set : damaged(set.error().message);
  }
  at(seq).complete = true;
  return {};
}

Status WholeMemory::fork(SeqId from, SeqId to, Position end) {
  KVKEEP_ASSERT(length(to) == Position{0} && end <= length(from), "a fork goes to an empty sequence");
  KVKEEP_ASSERT(!media(from).cuts(end), "a fork cuts no picture or sound");
  if (end < length(from) || !is_complete(from)) {
    put_number(to, end);
    set_media(to, media(from).prefix(end));
    return {};
  }
  if (end == Position{0}) return {};
  if (Status copied = copy_state(from, to); !copied) {
    clear(to);
    return copied;
  }
  at(to) = {.length = end, .complete = true};
  set_media(to, media(from));
  return {};
}

Status WholeMemory::copy_state(SeqId from, SeqId to) {
  if (finding_.copies_whole) {
    llama_memory_seq_cp(memory_, from.value(), to.value(), -1, -1);
    return {};
  }
  const std::size_t size = state_size(context_, from.value(), StatePart::kWhole);
  if (buffer_.size() < size) buffer_.resize(size);
  TRY_ASSIGN(const std::size_t written,
             get_state(context_, from.value(), StatePart::kWhole, MutableByteSpan(buffer_).first(size)));
  return set_state(context_, to.value(), StatePart::kWhole, ByteSpan(buffer_).first(written));
}

bool WholeMemory::truncate(SeqId seq, Position end) {
  KVKEEP_ASSERT(end <= length(seq), "a sequence is cut, not stretched");
  if (end < length(seq)) put_number(seq, end);
  return true;
}

}  // namespace kvkeep::engine::llama
