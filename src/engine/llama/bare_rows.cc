#include "engine/llama/bare_rows.h"

#include "engine/llama/library.h"

namespace kvkeep::engine::llama {

Status set_rows_bare(LlamaEngine& engine, SeqId seq, ByteSpan rows) {
  const auto* bytes = reinterpret_cast<const std::uint8_t*>(rows.data());
  const std::size_t taken = llama_state_seq_set_data(&engine.context(), bytes, rows.size(), seq.value());
  if (taken != rows.size()) return io_error("libllama refused rows that it gave itself");
  return {};
}

}  // namespace kvkeep::engine::llama
