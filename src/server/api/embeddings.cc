#include "server/api/embeddings.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <iterator>
#include <numeric>
#include <utility>

#include "server/api/generation_fields.h"
#include "server/api/known_fields.h"

namespace kvkeep::server::api {
namespace {

Status add_input_text(const Json& text, std::string_view name, EmbeddingInput& input) {
  if (!text.is_string()) return wrong_type(name, "a string", text);
  input.emplace_back(text.get<std::string>());
  return {};
}

// {"prompt_string": "..."}, or {"content": [{"type": "text", "text": "..."}, ...]}, whose texts are one.
Result<EmbeddingInput> read_object(const Json& object, std::string_view name) {
  EmbeddingInput input;
  if (const Json* text = field(object, "prompt_string")) {
    const Json* files = field(object, "multimodal_data");
    if (files != nullptr && !files->empty()) return invalid("'multimodal_data' must be empty: only text is embedded");
    TRY(add_input_text(*text, "prompt_string", input));
    return input;
  }
  const Json* parts = field(object, "content");
  if (parts == nullptr || !parts->is_array()) {
    return invalid(fmt::format("an object in '{}' must have 'prompt_string', or 'content' with a list of parts", name));
  }
  std::string joined;
  for (const Json& part : *parts) {
    const Json* text = part.is_object() && part.value("type", Json()) == "text" ? field(part, "text") : nullptr;
    if (text == nullptr || !text->is_string())
      return invalid("parts of 'content' must be texts: only text is embedded");
    joined += text->get_ref<const std::string&>();
  }
  input.emplace_back(std::move(joined));
  return input;
}

Result<EmbeddingInput> read_mixed_input(const Json& array, std::string_view name, std::size_t vocabulary_size) {
  EmbeddingInput input;
  Json run = Json::array();
  const auto end_run = [&]() -> Status {
    if (run.empty()) return {};
    TRY_ASSIGN(std::vector<TokenId> ids, read_token_ids(run, name, vocabulary_size));
    input.emplace_back(std::move(ids));
    run = Json::array();
    return {};
  };
  for (const Json& element : array) {
    if (element.is_number()) {
      run.push_back(element);
      continue;
    }
    TRY(end_run());
    TRY(add_input_text(element, name, input));
  }
  TRY(end_run());
  return input;
}

bool has_ids(const Json& array) {
  return std::ranges::any_of(array, [](const Json& element) { return element.is_number(); });
}

// One input: a text, ids, both mixed, or an object.
Result<EmbeddingInput> read_one(const Json& value, std::string_view name, std::size_t vocabulary_size) {
  if (value.is_string()) return EmbeddingInput{value.get<std::string>()};
  if (value.is_object()) return read_object(value, name);
  if (!value.is_array()) return wrong_type(name, "a text, token ids, or a list of them", value);
  if (value.empty()) return invalid(fmt::format("'{}' must not be empty", name));
  return read_mixed_input(value, name, vocabulary_size);
}

Result<std::vector<EmbeddingInput>> read_inputs(const Json& value, std::string_view name, std::size_t vocabulary_size) {
  std::vector<EmbeddingInput> inputs;
  if (!value.is_array() || has_ids(value) || value.empty()) {
    TRY_ASSIGN(EmbeddingInput input, read_one(value, name, vocabulary_size));
    inputs.push_back(std::move(input));
    return inputs;
  }
  if (value.size() > kMostEmbeddingInputs) {
    return invalid(
        fmt::format("'{}' has {} inputs; send at most {} at a time", name, value.size(), kMostEmbeddingInputs));
  }
  for (const Json& element : value) {
    TRY_ASSIGN(EmbeddingInput input, read_one(element, name, vocabulary_size));
    inputs.push_back(std::move(input));
  }
  return inputs;
}

Status read_form(const Json& json, const EmbeddingDefaults& defaults, EmbeddingsRequest& request) {
  std::string format = "float";
  TRY(read_string(json, "encoding_format", format));
  if (format != "float" && format != "base64") {
    return invalid(fmt::format("'encoding_format' must be 'float' or 'base64', not '{}'", format));
  }
  request.base64 = format == "base64";
  if (field(json, "dimensions") != nullptr) {
    std::int64_t dimensions = 0;
    TRY(read_integer(json, "dimensions", dimensions, 1, static_cast<std::int64_t>(defaults.vector_size)));
    request.dimensions = static_cast<std::size_t>(dimensions);
  }
  request.normalize = defaults.normalize;
  return read_integer(json, "embd_normalize", request.normalize, -1, kMostNormalize);
}

}  // namespace

Result<EmbeddingsRequest> parse_embeddings(std::string body, const EmbeddingDefaults& defaults) {
  TRY_ASSIGN(const Json json, parse_body(std::move(body)));
  EmbeddingsRequest request;
  TRY_ASSIGN(request.unknown_fields, unknown_fields(json, Dialect::kEmbeddings, defaults.strict_fields));
  const Json* input = field(json, "input");
  const Json* content = input == nullptr ? field(json, "content") : nullptr;
  if (input == nullptr && content == nullptr) return invalid("'input' or 'content' is required");
  request.content = content != nullptr;
  TRY_ASSIGN(request.inputs, read_inputs(request.content ? *content : *input, request.content ? "content" : "input",
                                         defaults.vocabulary_size));
  TRY(read_string(json, "model", request.model));
  TRY(read_form(json, defaults, request));
  return request;
}

void normalize_vector(std::span<float> vector, std::int64_t kind) {
  if (kind < 0) return;
  const auto power = static_cast<double>(kind);
  double sum = 0;
  for (const float value : vector) {
    const double size = std::abs(static_cast<double>(value));
    sum = kind == 0 ? std::max(sum, size) : sum + (kind == 2 ? size * size : std::pow(size, power));
  }
  const double length = kind == 0 ? sum / 32'760.0 : kind == 2 ? std::sqrt(sum) : std::pow(sum, 1.0 / power);
  if (!(length > 0)) return;
  for (float& value : vector) value = static_cast<float>(value / length);
}

namespace {

void append_base64(std::string& out, std::span<const float> values) {
  static constexpr std::string_view kDigits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  static_assert(std::endian::native == std::endian::little);
  const auto bytes = std::as_bytes(values);
  for (std::size_t i = 0; i < bytes.size(); i += 3) {
    const std::size_t count = std::min<std::size_t>(3, bytes.size() - i);
    std::uint32_t group = 0;
    for (std::size_t k = 0; k < 3; ++k) {
      group = group << 8 | (k < count ? std::to_integer<std::uint32_t>(bytes[i + k]) : 0);
    }
    for (std::size_t k = 0; k < 4; ++k) out += k <= count ? kDigits[group >> (18 - 6 * k) & 63] : '=';
  }
}

// Appends vectors to a reply, as text: as JSON values they would take several times as much memory.
class VectorText {
 public:
  VectorText(const VectorForm& form, std::string& out) : form_(form), out_(out) {}

  Status append(std::span<const float> vector) {
    scaled_.assign(vector.begin(), vector.begin() + static_cast<std::ptrdiff_t>(std::min(
                                                        form_.dimensions.value_or(vector.size()), vector.size())));
    if (form_.normalize) normalize_vector(scaled_, *form_.normalize);
    if (!std::ranges::all_of(scaled_, [](float value) { return std::isfinite(value); })) {
      return io_error("the model computed an embedding with values that are not numbers");
    }
    if (form_.base64) {
      out_ += '"';
      append_base64(out_, scaled_);
      out_ += '"';
      return {};
    }
    for (std::size_t i = 0; i < scaled_.size(); ++i) {
      fmt::format_to(std::back_inserter(out_), "{}{}", i == 0 ? '[' : ',', scaled_[i]);
    }
    out_ += ']';
    return {};
  }

 private:
  const VectorForm& form_;
  std::string& out_;
  std::vector<float> scaled_;
};

}  // namespace

Result<std::string> openai_embeddings(std::span<const InputVectors> inputs, const VectorForm& form,
                                      std::string_view model, std::size_t tokens) {
  std::string out =
      fmt::format(R"({{"object":"list","model":{},"usage":{{"prompt_tokens":{},"total_tokens":{}}},"data":[)",
                  to_line(model), tokens, tokens);
  VectorText text(form, out);
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    out += fmt::format(R"({}{{"object":"embedding","index":{},)", i == 0 ? "" : ",", i);
    if (form.base64) out += R"("encoding_format":"base64",)";
    out += R"("embedding":)";
    TRY(text.append(inputs[i].values));
    out += '}';
  }
  return out + "]}";
}

Result<std::string> native_embeddings(std::span<const InputVectors> inputs, const VectorForm& form) {
  std::string out = "[";
  VectorText text(form, out);
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    out += fmt::format(R"({}{{"index":{},"embedding":[)", i == 0 ? "" : ",", i);
    const auto [values, size] = inputs[i];
    for (std::size_t at = 0; at < values.size(); at += size) {
      if (at > 0) out += ',';
      TRY(text.append(values.subspan(at, size)));
    }
    out += "]}";
  }
  return out + "]";
}

namespace {

// A text, or an object with one as `text`.
const Json* document_text(const Json& document) {
  const Json* text = document.is_object() ? field(document, "text") : &document;
  return text != nullptr && text->is_string() ? text : nullptr;
}

Result<std::vector<std::string>> read_documents(const Json& json, std::string_view name) {
  const Json* list = field(json, name);
  if (list == nullptr || !list->is_array() || list->empty() || !std::ranges::all_of(*list, document_text)) {
    return invalid(fmt::format("'{}' must be a list of texts that is not empty", name));
  }
  if (list->size() > kMostEmbeddingInputs) {
    return invalid(
        fmt::format("'{}' has {} texts; send at most {} at a time", name, list->size(), kMostEmbeddingInputs));
  }
  std::vector<std::string> documents;
  for (const Json& document : *list) documents.push_back(document_text(document)->get<std::string>());
  return documents;
}

}  // namespace

Result<RerankRequest> parse_rerank(std::string body, bool strict_fields) {
  TRY_ASSIGN(const Json json, parse_body(std::move(body)));
  RerankRequest request;
  TRY_ASSIGN(request.unknown_fields, unknown_fields(json, Dialect::kRerank, strict_fields));
  if (field(json, "query") == nullptr) return invalid("'query' is required");
  TRY(read_string(json, "query", request.query));
  request.is_tei = field(json, "texts") != nullptr;
  TRY_ASSIGN(request.documents, read_documents(json, request.is_tei ? "texts" : "documents"));
  TRY(read_string(json, "model", request.model));
  if (field(json, "top_n") != nullptr) {
    std::int64_t top_n = 0;
    TRY(read_integer(json, "top_n", top_n, 0, INT32_MAX));
    request.top_n = static_cast<std::size_t>(top_n);
  }
  TRY(read_bool(json, request.is_tei ? "return_text" : "return_documents", request.return_documents));
  return request;
}

Result<std::string> rerank_reply(const RerankRequest& request, std::span<const float> scores, std::string_view model,
                                 std::size_t tokens) {
  if (!std::ranges::all_of(scores, [](float score) { return std::isfinite(score); })) {
    return io_error("the model computed a score that is not a number");
  }
  std::vector<std::size_t> order(scores.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::sort(
      order, [&](std::size_t a, std::size_t b) { return scores[a] != scores[b] ? scores[a] > scores[b] : a < b; });
  order.resize(std::min(order.size(), request.top_n.value_or(order.size())));
  Json results = Json::array();
  for (const std::size_t index : order) {
    Json result = {{"index", index}, {request.is_tei ? "score" : "relevance_score", scores[index]}};
    if (request.return_documents && request.is_tei) result["text"] = request.documents[index];
    if (request.return_documents && !request.is_tei) result["document"] = {{"text", request.documents[index]}};
    results.push_back(std::move(result));
  }
  if (request.is_tei) return to_line(results);
  return to_line({{"model", model},
                  {"object", "list"},
                  {"usage", {{"prompt_tokens", tokens}, {"total_tokens", tokens}}},
                  {"results", std::move(results)}});
}

}  // namespace kvkeep::server::api
