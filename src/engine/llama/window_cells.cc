#include "engine/llama/window_cells.h"

#include <array>
#include <cstdint>

#include "engine/llama/row_layout.h"
#include "engine/llama/state_bytes.h"

namespace kvkeep::engine::llama {
namespace {

// The window in `buffer`, which grows and never shrinks: a first copy into fresh pages is ten times slower.
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
