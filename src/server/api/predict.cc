#include "server/api/predict.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <utility>

#include "server/api/json_body.h"

namespace kvkeep::server::api {
namespace {

constexpr std::string_view kFormat = "@requestFormat";

struct Format {
  std::string_view name;
  std::string_view path;
};

constexpr std::array kFormats = std::to_array<Format>({
    {"chatCompletions", "/v1/chat/completions"},
    {"chatCompletionsInputTokens", "/v1/chat/completions/input_tokens"},
    {"chatCompletionsControl", "/v1/chat/completions/control"},
    {"completions", "/v1/completions"},
    {"completion", "/completion"},
    {"infill", "/infill"},
    {"responses", "/v1/responses"},
    {"responsesInputTokens", "/v1/responses/input_tokens"},
    {"messages", "/v1/messages"},
    {"messagesCountTokens", "/v1/messages/count_tokens"},
    {"tokenize", "/tokenize"},
    {"detokenize", "/detokenize"},
    {"applyTemplate", "/apply-template"},
    {"embeddings", "/v1/embeddings"},
    {"embedding", "/embedding"},
    {"rerank", "/v1/rerank"},
    {"reranking", "/v1/reranking"},
});

Result<std::string_view> path_of(const Json& instance) {
  const Json* name = field(instance, kFormat);
  if (name == nullptr) return invalid(fmt::format("each instance needs '{}', such as \"chatCompletions\"", kFormat));
  if (!name->is_string()) return wrong_type(kFormat, "a string", *name);
  const auto found = std::ranges::find(kFormats, name->get_ref<const std::string&>(), &Format::name);
  if (found != kFormats.end()) return found->path;
  std::vector<std::string_view> names;
  std::ranges::transform(kFormats, std::back_inserter(names), &Format::name);
  return invalid(fmt::format("'{}' must be one of {}", kFormat, fmt::join(names, ", ")));
}

Result<PredictInstance> read_instance(Json instance) {
  if (!instance.is_object()) return wrong_type("instances", "made of objects", instance);
  TRY_ASSIGN(const std::string_view path, path_of(instance));
  bool stream = false;
  TRY(read_bool(instance, "stream", stream));
  if (stream) return invalid("the reply to instances is one body: leave 'stream' out");
  instance.erase(std::string(kFormat));
  return PredictInstance{.path = path, .body = to_line(instance)};
}

}  // namespace

Result<std::vector<PredictInstance>> parse_predict(std::string body) {
  TRY_ASSIGN(Json json, parse_body(std::move(body)));
  const Json* list = field(json, "instances");
  if (list == nullptr) return invalid("'instances' is required: an array of requests");
  if (!list->is_array()) return wrong_type("instances", "an array of requests", *list);
  if (list->size() > kMostInstances) return invalid(fmt::format("'instances' may have at most {}", kMostInstances));
  const Json* parameters = field(json, "parameters");
  if (parameters != nullptr && !parameters->empty()) {
    return invalid("'parameters' is not read: put its fields into each instance");
  }
  std::vector<PredictInstance> instances;
  for (Json& instance : json["instances"]) {
    Result<PredictInstance> read = read_instance(std::move(instance));
    instances.push_back(read ? *std::move(read) : PredictInstance{.error = read.error()});
  }
  return instances;
}

std::string predict_reply(std::span<const std::string> results) {
  return fmt::format("{{\"predictions\":[{}]}}", fmt::join(results, ","));
}

std::vector<std::string_view> predict_paths() {
  std::vector<std::string_view> paths;
  std::ranges::transform(kFormats, std::back_inserter(paths), &Format::path);
  return paths;
}

}  // namespace kvkeep::server::api
