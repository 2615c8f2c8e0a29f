#include "engine/llama/state_bytes.h"

#include <string>

namespace kvkeep::engine::llama {
namespace {

llama_state_seq_flags flags_of(StatePart part) {
  return part == StatePart::kPartial ? LLAMA_STATE_SEQ_FLAGS_PARTIAL_ONLY : LLAMA_STATE_SEQ_FLAGS_NONE;
}

}  // namespace

std::size_t state_size(llama_context& context, llama_seq_id seq, StatePart part) {
  return llama_state_seq_get_size_ext(&context, seq, flags_of(part));
}

Result<std::size_t> get_state(llama_context& context, llama_seq_id seq, StatePart part, MutableByteSpan out) {
  const std::uint64_t mark = log_mark();
  auto* bytes = reinterpret_cast<std::uint8_t*>(out.data());
  const std::size_t written = llama_state_seq_get_data_ext(&context, bytes, out.size(), seq, flags_of(part));
  if (written == 0) return with_reason(io_error("libllama did not give the state that was computed"), mark);
  return written;
}

Result<std::vector<std::byte>> get_state(llama_context& context, llama_seq_id seq, StatePart part) {
  std::vector<std::byte> bytes(state_size(context, seq, part));
  TRY_ASSIGN(const std::size_t written, get_state(context, seq, part, bytes));
  bytes.resize(written);
  return bytes;
}

Status set_state(llama_context& context, llama_seq_id seq, StatePart part, ByteSpan bytes) {
  const std::uint64_t mark = log_mark();
  const auto* raw = reinterpret_cast<const std::uint8_t*>(bytes.data());
  if (llama_state_seq_set_data_ext(&context, raw, bytes.size(), seq, flags_of(part)) == bytes.size()) return {};
  llama_memory_seq_rm(llama_get_memory(&context), seq, -1, -1);
  const bool no_cells = log_reason_since(mark).find("available cells") != std::string::npos;
  return with_reason(no_cells ? no_space("libllama has no cells for a state") : io_error("libllama refused a state"),
                     mark);
}

Error with_reason(Error error, std::uint64_t mark) {
  if (const std::string reason = log_reason_since(mark); !reason.empty()) error.message += ": " + reason;
  return error;
}

}  // namespace kvkeep::engine::llama
