#pragma once

// One context of a tiny clone with its memory, for trials: tokens that differ between positions and sequences, and
// state in a form that can be compared.

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

  // Without a `finding`: by what the state's bytes look like.
  static Result<TrialContext> make(llama_model& model, const ModelOptions& options,
                                   std::optional<ClassFinding> finding);

  SequenceMemory& memory() { return *memory_; }
  const ClassFinding& finding() const { return finding_; }
  const StateParts& parts() const { return parts_; }

  // Computes the positions `tokens` of the conversation numbered `text` in a sequence that ends at tokens.begin.
  Status prefill(SeqId seq, TokenRange tokens, std::int32_t text);

  // Returns the rows of a range in ascending order of positions; empty if the model has none.
  Result<Bytes> rows(SeqId seq, TokenRange range);
  Result<Bytes> window(SeqId seq, TokenRange range);
  Result<Bytes> point(SeqId seq);
  // Returns a point in the form in which sequence 0 would save it. Empties all sequences.
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
