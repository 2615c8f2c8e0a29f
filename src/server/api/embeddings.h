#pragma once

// POST /v1/embeddings (OpenAI's shape), /embeddings and /embedding (llama-server's): body -> inputs, vectors -> reply;
// POST /v1/rerank and its aliases: body -> query and documents, scores -> reply.

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/result.h"
#include "base/types.h"
#include "server/api/json_body.h"

namespace kvkeep::server::api {

// One input: texts and token ids in turn.
using EmbeddingPart = std::variant<std::string, std::vector<TokenId>>;
using EmbeddingInput = std::vector<EmbeddingPart>;

struct EmbeddingsRequest {
  std::vector<EmbeddingInput> inputs;
  std::string model = {};
  bool base64 = false;
  bool content = false;                        // the input came as `content`: the reply has llama-server's shape
  std::optional<std::size_t> dimensions = {};  // empty: all
  std::int64_t normalize = 2;
  std::vector<std::string> unknown_fields = {};
};

// A request with more is refused: OpenAI's limit.
inline constexpr std::size_t kMostEmbeddingInputs = 2'048;
// Values in one reply: as text they are less than what a client may leave unread (HttpLimits).
inline constexpr std::size_t kMostEmbeddingValues = 4U << 20;
// Of `embd_normalize`: -1 leaves values as they are, 0 scales the largest to 32,760, N divides by the N-norm.
inline constexpr std::int64_t kMostNormalize = 1'000;

struct EmbeddingDefaults {
  std::int64_t normalize = 2;
  std::size_t vocabulary_size = 0;
  std::size_t vector_size = 0;
  bool strict_fields = false;
};

// All errors are kInvalid (400).
Result<EmbeddingsRequest> parse_embeddings(std::string body, const EmbeddingDefaults& defaults);

// Scales `vector` in place; a vector of zeros stays as it is.
void normalize_vector(std::span<float> vector, std::int64_t kind);

// The form in which vectors are sent.
struct VectorForm {
  bool base64 = false;                         // little-endian 32-bit floats
  std::optional<std::size_t> dimensions = {};  // the first values, normalized by themselves
  std::optional<std::int64_t> normalize = {};  // empty: not
};

// The vectors of one input, one after the other; without pooling there are several.
struct InputVectors {
  std::span<const float> values;
  std::size_t size = 0;  // of each
};

// kIo if a value is not a number: no client could read it.
Result<std::string> openai_embeddings(std::span<const InputVectors> inputs, const VectorForm& form,
                                      std::string_view model, std::size_t tokens);
Result<std::string> native_embeddings(std::span<const InputVectors> inputs, const VectorForm& form);

// In the shape of Jina's API, or of Text Embeddings Inference where the documents came as `texts`.
struct RerankRequest {
  std::string query;
  std::vector<std::string> documents;
  std::string model = {};
  std::optional<std::size_t> top_n = {};  // empty: all
  bool is_tei = false;
  bool return_documents = false;  // each result has its document's text
  std::vector<std::string> unknown_fields = {};
};

// All errors are kInvalid (400).
Result<RerankRequest> parse_rerank(std::string body, bool strict_fields = false);

// `scores`: one per document. The best comes first. kIo if a score is not a number.
Result<std::string> rerank_reply(const RerankRequest& request, std::span<const float> scores, std::string_view model,
                                 std::size_t tokens);

}  // namespace kvkeep::server::api
