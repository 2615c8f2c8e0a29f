#include "engine/llama/state_parts.h"

#include <algorithm>
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

namespace {

// Returns the rows' part of a whole state; empty if the rest does not come after them.
ByteSpan rows_of(ByteSpan whole, ByteSpan partial) {
  const std::size_t rest_bytes = partial.size() - kEnvelopeBytes;
  if (whole.size() < kEnvelopeBytes + rest_bytes) return {};
  const ByteSpan rest = whole.last(rest_bytes);
  if (!std::ranges::equal(rest, partial.subspan(kEnvelopeBytes))) return {};
  return whole.first(whole.size() - rest_bytes);
}

void add_rest(ByteSpan partial, StateParts& parts) {
  if (parts.window_tokens == 0 && partial.size() == kEnvelopeBytes) {
    parts.looks_like = MemoryClass::kSliceable;
    return;
  }
  auto window = learn_layout(partial);
  if (parts.window_tokens > 0 && window) {
    parts.looks_like = MemoryClass::kWindowed;
    parts.bytes_per_sequence = parts.window_tokens * window->bytes_per_token();
    parts.window = std::move(window).value();
    return;
  }
  // A window without a part of its own in the state cannot be understood from the bytes.
  if (partial.size() == kEnvelopeBytes) return;
  parts.looks_like = MemoryClass::kHybrid;
  parts.bytes_per_sequence = parts.point_bytes = partial.size();
}

void look_at(ByteSpan whole, ByteSpan partial, StateParts& parts) {
  const ByteSpan rows = rows_of(whole, partial);
  if (rows.size() == kEnvelopeBytes) {
    parts.looks_like = MemoryClass::kRecurrent;
    parts.bytes_per_sequence = parts.point_bytes = whole.size();
    return;
  }
  auto layout = learn_layout(rows);
  if (!layout) return;
  add_rest(partial, parts);
  if (parts.looks_like != MemoryClass::kOpaque) parts.rows = std::move(layout).value();
}

}  // namespace

// A token sees itself and n_swa - 1 before it. libllama keeps one more row, but may reuse its cell at any time.
std::uint32_t window_tokens_of(const llama_model& model) {
  const std::int32_t seen = llama_model_n_swa(&model);
  return seen <= 0 ? 0 : static_cast<std::uint32_t>(std::max(seen - 1, 1));
}

ByteSpan StateParts::empty_rest() const { return ByteSpan(empty_partial).subspan(kEnvelopeBytes); }

bool needs_scratch(MemoryClass memory_class) {
  return memory_class == MemoryClass::kSliceable || memory_class == MemoryClass::kWindowed ||
         memory_class == MemoryClass::kHybrid;
}

Result<StateParts> learn_state_parts(llama_context& context, std::vector<llama_token> tokens) {
  StateParts parts;
  parts.window_tokens = window_tokens_of(*llama_get_model(&context));
  TRY_ASSIGN(parts.empty_partial, get_state(context, 0, StatePart::kPartial));
  TRY_ASSIGN(parts.empty_whole, get_state(context, 0, StatePart::kWhole));
  const std::uint64_t mark = log_mark();
  if (llama_decode(&context, llama_batch_get_one(tokens.data(), static_cast<std::int32_t>(tokens.size()))) != 0) {
    return with_reason(io_error("the first decode failed"), mark);
  }
  TRY_ASSIGN(const auto whole, get_state(context, 0, StatePart::kWhole));
  TRY_ASSIGN(const auto partial, get_state(context, 0, StatePart::kPartial));
  llama_memory_clear(llama_get_memory(&context), true);
  look_at(whole, partial, parts);
  return parts;
}

std::uint32_t affordable_idle_sequences(std::uint32_t wanted, std::uint64_t bytes_per_sequence) {
  const std::uint64_t affordable = kIdleStateBytes / std::max<std::uint64_t>(bytes_per_sequence, 1);
  return static_cast<std::uint32_t>(std::min<std::uint64_t>(wanted, affordable));
}

Status try_whole_state(llama_context& context, std::vector<llama_token> tokens) {
  llama_memory_t memory = llama_get_memory(&context);
  if (llama_decode(&context, llama_batch_get_one(tokens.data(), static_cast<std::int32_t>(tokens.size()))) != 0) {
    return unsupported("the first decode failed");
  }
  const auto saved = get_state(context, 0, StatePart::kWhole);
  llama_memory_clear(memory, true);
  if (!saved) return saved.error();
  TRY(set_state(context, 0, StatePart::kWhole, *saved));
  const auto again = get_state(context, 0, StatePart::kWhole);
  llama_memory_clear(memory, true);
  if (!again || *again != *saved) return unsupported("a whole state comes back changed");
  return {};
}

}  // namespace kvkeep::engine::llama
