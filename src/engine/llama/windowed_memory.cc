#include "engine/llama/windowed_memory.h"

#include <algorithm>
#include <array>
#include <cstdint>

#include "base/assert.h"
#include "engine/llama/row_layout.h"
#include "engine/llama/state_parts.h"

namespace kvkeep::engine::llama {

WindowedMemory::WindowedMemory(llama_context& context, std::uint32_t conversations, const StateParts& parts,
                               RestoreCalls calls)
    : RowMemory(context, conversations, *parts.rows, parts.empty_rest(), calls),
      window_layout_(*parts.window),
      window_tokens_(parts.window_tokens) {}

bool WindowedMemory::is_complete(SeqId seq) const {
  return window_complete_from(memory(), seq, length(seq), window_tokens_, media(seq)).has_value();
}

Position WindowedMemory::complete_from(SeqId seq) const {
  return window_complete_from(memory(), seq, length(seq), window_tokens_, media(seq)).value_or(length(seq));
}

Result<std::size_t> WindowedMemory::read_scratch(std::size_t cells, MutableByteSpan out) {
  drop_window(context(), scratch());
  return RowMemory::read_scratch(cells, out);
}

Result<std::size_t> WindowedMemory::save_window(SeqId seq, TokenRange range, MutableByteSpan out) {
  KVKEEP_ASSERT(!range.empty() && range.size() <= window_tokens_ && range.end <= length(seq), "a run of the window");
  const std::uint64_t bytes = window_bytes(range.size());
  KVKEEP_ASSERT(out.size() >= bytes, "the buffer takes the window");
  if (!media(seq).counts_alike(range)) return not_found("as many ids reach back less than the window");
  copy_to_scratch(seq, range);
  // Without rows that have slid off, there are fewer bytes.
  Result<std::size_t> written = not_found("the window has moved past these rows");
  if (state_size(context(), scratch(), StatePart::kPartial) == bytes) {
    written = get_state(context(), scratch(), StatePart::kPartial, out);
  }
  empty_scratch();
  return written;
}

Status WindowedMemory::restore_point(SeqId seq, std::span<const cache::RowPiece> pieces) {
  Status done = check_window(seq, pieces);
  if (done) done = set_window(seq, pieces);
  if (!done) clear(seq);
  return done;
}

Status WindowedMemory::check_window(SeqId seq, std::span<const cache::RowPiece> pieces) const {
  KVKEEP_ASSERT(!pieces.empty() && pieces.back().wanted.end == length(seq), "a window ends where the sequence does");
  const std::uint32_t begin = pieces.front().wanted.begin.value();
  KVKEEP_ASSERT(begin + std::min(window_tokens_, length(seq).value()) <= length(seq).value(), "the window is whole");
  return verify_pieces(window_layout_, Position{begin}, pieces);
}

Status WindowedMemory::set_window(SeqId seq, std::span<const cache::RowPiece> pieces) {
  const std::uint64_t bytes = window_bytes(pieces.back().wanted.end - pieces.front().wanted.begin);
  if (buffer_.size() < bytes) buffer_.resize(bytes);
  const std::size_t joined = join_rows(window_layout_, pieces, seq.value(), buffer_, media(seq));
  KVKEEP_ASSERT(joined == bytes, "joined rows have the size of their layout");
  return set_state(context(), seq.value(), StatePart::kPartial, ByteSpan(buffer_).first(bytes));
}

Status WindowedMemory::fork(SeqId from, SeqId to, Position end) {
  TRY(RowMemory::fork(from, to, end));
  if (end == Position{0}) return {};
  Status done = own_window_cells(context(), to.value(), buffer_);
  if (!done) clear(to);
  return done;
}

std::optional<Position> window_complete_from(llama_memory_t memory, SeqId seq, Position length,
                                             std::uint32_t window_tokens, const MediaMap& media) {
  if (length == Position{0}) return length;
  const llama_pos first = llama_memory_seq_pos_min(memory, seq.value());
  const llama_pos end = media.to_library(length);
  const bool complete = llama_memory_seq_pos_max(memory, seq.value()) == end - 1 && first >= 0 &&
                        first <= std::max(end - static_cast<llama_pos>(window_tokens), 0);
  if (!complete) return std::nullopt;
  if (!media.empty()) return length;  // as many ids may reach back less than the window
  if (first == 0) return Position{};
  return std::min(Position{static_cast<std::uint32_t>(first)} + window_tokens, length);
}

namespace {

// Reads the window into `buffer`, which grows and never shrinks: a first copy into fresh pages is ten times slower.
Result<ByteSpan> read_into(llama_context& context, llama_seq_id seq, std::vector<std::byte>& buffer) {
  const std::size_t size = state_size(context, seq, StatePart::kPartial);
  if (buffer.size() < size) buffer.resize(size);
  TRY_ASSIGN(const std::size_t written,
             get_state(context, seq, StatePart::kPartial, MutableByteSpan(buffer).first(size)));
  return ByteSpan(buffer).first(written);
}

}  // namespace

Status own_window_cells(llama_context& context, llama_seq_id seq, std::vector<std::byte>& buffer) {
  const auto window = read_into(context, seq, buffer);
  if (window) return set_state(context, seq, StatePart::kPartial, *window);
  llama_memory_seq_rm(llama_get_memory(&context), seq, -1, -1);
  return window.error();
}

void drop_window(llama_context& context, llama_seq_id seq) {
  const std::array<std::uint32_t, 8> refused{kStateMagic, 0, 1, 1};  // one stream, one cell: position 0, of 0 sequences
  const auto* bytes = reinterpret_cast<const std::uint8_t*>(refused.data());
  llama_state_seq_set_data_ext(&context, bytes, sizeof refused, seq, LLAMA_STATE_SEQ_FLAGS_PARTIAL_ONLY);
}

}  // namespace kvkeep::engine::llama
