#pragma once

// One context of a tiny clone with its memory, as trials use it: tokens that differ between positions and sequences,
// and state as it can be compared.

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "engine/llama/clone_model.h"
#include "engine/llama/model_options.h"
#include "engine/llama/sequence_memory.h"

namespace kvkeep::engine::llama {

using Bytes = std::vector<std::byte>;

inline TokenRange position_range(std::uint32_t begin, std::uint32_t end) { return {Position{begin}, Position{end}}; }

class TrialContext {
 public:
  static constexpr std::uint32_t kBatch = 64;
  static constexpr std::uint32_t kUbatch = 32;  // prefills go over several of these
  static constexpr std::uint32_t kConversations = 2;

  // `finding`: empty: what the state's bytes look like.
  static Result<TrialContext> make(llama_model& model, const ModelOptions& options,
                                   std::optional<ClassFinding> finding);

  SequenceMemory& memory() { return *memory_; }
  const ClassFinding& finding() const { return finding_; }
  const StateParts& parts() const { return parts_; }

  // Computes the positions `tokens` of the conversation numbered `text` in a sequence that stands at tokens.begin.
  Status prefill(SeqId seq, TokenRange tokens, std::int32_t text);

  // Rows of a range in ascending order of positions; empty where the model has none.
  Result<Bytes> rows(SeqId seq, TokenRange range);
  Result<Bytes> window(SeqId seq, TokenRange range);
  Result<Bytes> point(SeqId seq);
  // A point as it would have been saved from sequence 0. Empties all sequences.
  Result<Bytes> as_of_first(ByteSpan point);

 private:
  TrialContext() = default;
  Status decode(SeqId seq, TokenRange tokens, std::int32_t text);

  ContextHandle context_;
  StateParts parts_;
  ClassFinding finding_;
  std::unique_ptr<SequenceMemory> memory_;
};

}  // namespace kvkeep::engine::llama
