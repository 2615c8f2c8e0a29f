#include "engine/llama/window_cells.h"

#include <algorithm>

#include "engine/llama/state_bytes.h"

namespace kvkeep::engine::llama {
namespace {

// The state in `buffer`, which grows and never shrinks: a first copy into fresh pages is ten times slower.
Result<ByteSpan> read_into(llama_context& context, llama_seq_id seq, StatePart part, std::vector<std::byte>& buffer) {
  const std::size_t size = state_size(context, seq, part);
  if (buffer.size() < size) buffer.resize(size);
  TRY_ASSIGN(const std::size_t written, get_state(context, seq, part, MutableByteSpan(buffer).first(size)));
  return ByteSpan(buffer).first(written);
}

}  // namespace

Status own_window_cells(llama_context& context, llama_seq_id seq, std::vector<std::byte>& buffer) {
  const auto window = read_into(context, seq, StatePart::kPartial, buffer);
  if (window) return set_state(context, seq, StatePart::kPartial, *window);
  llama_memory_seq_rm(llama_get_memory(&context), seq, -1, -1);
  return window.error();
}

Result<std::size_t> read_rows_before_window(llama_context& context, llama_seq_id seq, std::uint64_t rows_bytes,
                                            std::vector<std::byte>& buffer, MutableByteSpan out) {
  TRY_ASSIGN(const ByteSpan whole, read_into(context, seq, StatePart::kWhole, buffer));
  if (whole.size() < rows_bytes) return io_error("libllama did not give the rows that were computed");
  std::ranges::copy(whole.first(rows_bytes), out.begin());
  return rows_bytes;
}

}  // namespace kvkeep::engine::llama
