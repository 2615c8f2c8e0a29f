#pragma once

// The port to a model that turns texts into vectors, or scores pairs of texts. It computes in a memory of its own:
// nothing that it does touches the sequences of an Engine.
//
// Engine thread only, except for the const description and cancel().

#include <array>
#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "base/types.h"

namespace kvkeep::engine {

// How the values of an input's tokens become those of the input. The numbers are libllama's; llama_embedder.cc checks
// that.
enum class Pooling {
  kNone = 0,  // not at all: one vector per token
  kMean = 1,
  kCls = 2,   // that of the first token
  kLast = 3,  // that of the last token
  kRank = 4,  // the scores of the model's classifier
};

inline constexpr std::array<std::pair<std::string_view, Pooling>, 5> kPoolings{{{"none", Pooling::kNone},
                                                                                {"mean", Pooling::kMean},
                                                                                {"cls", Pooling::kCls},
                                                                                {"last", Pooling::kLast},
                                                                                {"rank", Pooling::kRank}}};

// How a query and a document become one input of a reranking model.
struct RerankFormat {
  std::string source = {};  // a text with {query} and {document}; empty: the ids below stand around both
  std::vector<TokenId> before = {};
  std::vector<TokenId> between = {};
  std::vector<TokenId> after = {};
};

struct EmbedderDescription {
  Pooling pooling = Pooling::kMean;
  std::size_t vector_size = 0;    // values of one vector; with kRank the number of scores
  std::size_t longest_input = 0;  // tokens
  std::size_t slice_tokens = 0;   // most tokens per compute()
  std::string longer_by = {};     // the flag that raises longest_input; empty: the model takes no longer ones
  RerankFormat rerank = {};
};

class Embedder {
 public:
  virtual ~Embedder() = default;
  virtual const EmbedderDescription& description() const = 0;

  // Computes a run of an input's tokens, which begins at `at`; position 0 begins an input and forgets the one before.
  // With the last run it returns the input's values: one vector, or one per token of this run without pooling. Errors:
  // kAborted after cancel(), kIo if libllama failed; the input is lost then. Precondition: 1 .. slice_tokens tokens,
  // `at` is where the last run ended, or 0; an input has at most longest_input tokens.
  virtual Result<std::vector<float>> compute(TokenSpan run, Position at, bool last) = 0;

  // Makes a running compute() end soon, and later ones at once. Any thread.
  virtual void cancel() = 0;
};

}  // namespace kvkeep::engine
