#pragma once

// POST /predict, as Google's Vertex AI calls it: one body holds several requests, its "instances", and one reply their
// results. Each instance is a request of another path, which "@requestFormat" names: {"@requestFormat":
// "chatCompletions", "messages": [...]}. llama-server made up the names.

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace kvkeep::server::api {

inline constexpr std::size_t kMostInstances = 256;

struct PredictInstance {
  std::string_view path = {};       // of the request
  std::string body = {};            // the request's JSON; the instance without its format
  std::optional<Error> error = {};  // why it is none; the others are answered all the same
};

// kInvalid if the body is no list of instances. `parameters`, which Vertex AI knows, is refused.
Result<std::vector<PredictInstance>> parse_predict(std::string body);

// The results, which are JSON texts, in the order of their instances.
std::string predict_reply(std::span<const std::string> results);

// The paths that instances may name.
std::vector<std::string_view> predict_paths();

}  // namespace kvkeep::server::api
