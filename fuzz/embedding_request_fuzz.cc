// Bodies of /v1/embeddings, /v1/rerank, /lora-adapters and POST /props, and the replies to them; the input's first line
// is the path.

#include <cmath>
#include <cstdlib>
#include <set>

#include "request_checks.h"
#include "server/api/embeddings.h"
#include "server/api/monitoring.h"

namespace kvkeep {
namespace {

using server::api::Json;

constexpr std::size_t kVectorSize = 8;
constexpr std::size_t kAdapters = 2;

// Some vector that depends on its place: zeros, small and large values.
std::vector<float> made_vector(std::size_t place) {
  std::vector<float> values(kVectorSize);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(place * (i * 7 % 5)) * 1e5F;
  return values;
}

void check_embeddings(const std::string& body) {
  const auto request = server::api::parse_embeddings(
      body, {.normalize = 2, .vocabulary_size = fuzz::kVocabularySize, .vector_size = kVectorSize});
  if (!request) return fuzz::check_refusal(request.error());
  KVKEEP_ASSERT(!request->inputs.empty() && request->inputs.size() <= server::api::kMostEmbeddingInputs, "a limit");
  for (const auto& input : request->inputs) {
    for (const auto& part : input) {
      if (const auto* ids = std::get_if<std::vector<TokenId>>(&part)) fuzz::check_known(*ids);
    }
  }
  const std::size_t size = request->dimensions.value_or(kVectorSize);
  KVKEEP_ASSERT(size >= 1 && size <= kVectorSize, "a vector has as many values as that");
  std::vector<std::vector<float>> vectors;
  for (std::size_t i = 0; i < request->inputs.size(); ++i) vectors.push_back(made_vector(i));
  std::vector<server::api::InputVectors> inputs;
  for (const auto& vector : vectors) inputs.push_back({vector, kVectorSize});
  const auto reply = server::api::openai_embeddings(
      inputs, {.base64 = request->base64, .dimensions = request->dimensions, .normalize = request->normalize},
      request->model, 1);
  KVKEEP_ASSERT(reply, "numbers can be sent");
  const Json json = Json::parse(*reply, nullptr, false);
  KVKEEP_ASSERT(json.is_object() && json["data"].size() == inputs.size(), "a vector for each input");
  for (const Json& one : json["data"]) {
    const Json& vector = one["embedding"];
    KVKEEP_ASSERT(
        request->base64 ? vector.get_ref<const std::string&>().size() == (size * 4 + 2) / 3 * 4 : vector.size() == size,
        "all of its values");
  }
}

void check_rerank(const std::string& body) {
  const auto request = server::api::parse_rerank(body);
  if (!request) return fuzz::check_refusal(request.error());
  const std::size_t count = request->documents.size();
  KVKEEP_ASSERT(count >= 1 && count <= server::api::kMostEmbeddingInputs, "a limit");
  std::vector<float> scores;
  for (std::size_t i = 0; i < count; ++i) scores.push_back(static_cast<float>(i * 7 % 5));
  const auto reply = server::api::rerank_reply(*request, scores, request->model, 1);
  KVKEEP_ASSERT(reply, "numbers can be sent");
  const Json json = Json::parse(*reply, nullptr, false);
  const Json& results = request->is_tei ? json : json["results"];
  KVKEEP_ASSERT(results.size() == std::min(count, request->top_n.value_or(count)), "the best ones");
  std::set<std::size_t> seen;
  float last = INFINITY;
  for (const Json& result : results) {
    const auto index = result["index"].get<std::size_t>();
    KVKEEP_ASSERT(index < count && seen.insert(index).second, "each document once");
    const auto score = result[request->is_tei ? "score" : "relevance_score"].get<float>();
    KVKEEP_ASSERT(score == scores[index] && score <= last, "the best first");
    last = score;
  }
}

void check_scales(const std::string& body) {
  const Json list = Json::parse(body, nullptr, false);
  if (list.is_discarded()) return;
  const auto scales = server::api::read_adapter_scales(list, "body", kAdapters);
  if (!scales) return fuzz::check_refusal(scales.error());
  KVKEEP_ASSERT(scales->size() == kAdapters, "a scale for each adapter");
  for (const float scale : *scales) KVKEEP_ASSERT(std::abs(scale) <= 1000, "of which each is a number");
}

void check_props(const std::string& body) {
  const auto reply = server::api::change_props_reply(body);
  if (!reply) return fuzz::check_refusal(reply.error());
  KVKEEP_ASSERT(body.empty() || Json::parse(body).empty(), "nothing was asked for");
}

}  // namespace
}  // namespace kvkeep

KVKEEP_FUZZ_TARGET(embedding_request)(const std::uint8_t* data, std::size_t size) {
  using namespace kvkeep;
  fuzz::Input input(data, size);
  const std::string_view path = input.line();
  const std::string body(fuzz::text_of(input.rest()));
  if (path == "/v1/embeddings") check_embeddings(body);
  if (path == "/v1/rerank") check_rerank(body);
  if (path == "/lora-adapters") check_scales(body);
  if (path == "/props") check_props(body);
  return 0;
}
