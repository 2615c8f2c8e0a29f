#pragma once

// The fields that all generating dialects share: sampling, stop strings, limits, streaming, and the refusals.

#include <fmt/format.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "server/api/json_body.h"
#include "server/api/request.h"

namespace kvkeep::server::api {

// Fields that some dialects obey, and the others refuse.
using ObeyedFields = std::span<const std::string_view>;

// Reads everything but the prompt into `request`, which already holds the defaults. Unknown fields are tolerated. The
// dialect reads the `obeyed` fields itself.
Status read_generation_fields(const Json& body, const RequestDefaults& defaults, GenerationRequest& request,
                              ObeyedFields obeyed = {});

// kInvalid if the body asks for something that this server does not do: the client would take the reply for something
// it is not. A field at its neutral value (n: 1, context_shift: false, echo: false) asks for nothing.
Status refuse_unsupported(const Json& body, ObeyedFields obeyed = {});
// Returns the fields that may be refused so; docs/requests.md lists them.
std::vector<std::string_view> refused_fields();

// Reads how many replies each prompt gets. Call it when all prompts are read; kInvalid if there are too many replies.
Status read_choices(const Json& body, GenerationRequest& request);
inline constexpr std::int64_t kMostChoicesPerPrompt = 128;
inline constexpr std::int64_t kMostPriority = 1'000'000;
inline constexpr std::size_t kMostChoices = 1'024;  // of all prompts; each takes a place in the queue

// Reads llama-server's [{"id": 0, "scale": 0.5}]: adapters that it does not list get scale 0. kInvalid if there is no
// adapter with an id, or the scale is no number of at most 1000.
Result<engine::AdapterScales> read_adapter_scales(const Json& list, std::string_view name, std::size_t adapters);

// Reads how many of the likeliest tokens are to be scored with each sampled one; 0 asks for nothing.
Status read_scored_count(const Json& body, std::string_view name, std::optional<std::size_t>& count);
inline constexpr std::int64_t kMostScoredTokens = 256;
inline constexpr std::size_t kMostPromptScores = 20;  // of each token of a prompt, which may have many

// Reads how many tokens a thought may have; -1 leaves the number to the server.
Status read_thinking_budget(const Json& holder, std::string_view name, engine::SamplingParams& sampling);

// Reads ids in an array; kInvalid for any other value in it, and for ids outside the vocabulary.
Result<std::vector<TokenId>> read_token_ids(const Json& array, std::string_view name, std::size_t vocabulary_size);

// Returns `cache_salt`, as in vLLM: the request shares cached state with requests of the same salt; "" if it has none.
// kInvalid unless the salt is a string of 1 to 256 bytes.
Result<std::string> read_cache_salt(const Json& body);

// Returns the seconds for which prompt and reply should be kept (`prompt_cache_retention`, `prompt_cache_options`;
// Anthropic's marks are in anthropic/request.h), at most a day: the longest time named, or 0 if none
// is. kInvalid for a value that the API does not know.
Result<std::int64_t> read_keep_s(const Json& body);

// sampling_fields.cc: the samplers and their parameters, under llama-server's names.

// Reads the fields into `sampling`, which already holds the defaults. kInvalid with the field's name and its bounds.
Status read_sampling_fields(const Json& body, engine::SamplingParams& sampling);
// Returns the names of the fields.
std::vector<std::string_view> sampling_fields();
// Returns the same fields with the values of `sampling`, as replies show them.
Json sampling_json(const engine::SamplingParams& sampling);

// The text in a tool's result that replaces a part that the model cannot read. A user's own picture is refused, since
// the answer would not be about it; but a tool's result stays in the conversation, which a client could not continue.
inline std::string left_out(std::string_view type) {
  return fmt::format("[{} left out: this model does not read it]", type);
}

// A part of a message that the model cannot read. Clients look for llama-server's words about pictures. `type_here`: of
// the part that this API has for it (MediaReader::type_here()), if `type` is another API's; "" if there is none.
inline Error unreadable(std::string_view path, std::string_view type, std::string_view type_here = {}) {
  if (!type_here.empty()) {
    return invalid(
        fmt::format("'{}' is of type '{}', which other APIs have: this one takes '{}'", path, type, type_here));
  }
  const bool is_picture = type.find("image") != std::string_view::npos;
  return invalid(fmt::format("'{}' is of type '{}', which this server cannot read: {}send text", path, type,
                             is_picture ? "image input is not supported, " : ""));
}

// A picture, sound or file that the model takes, but not in messages of this role.
inline Error not_of_role(std::string_view path, std::string_view role) {
  return invalid(fmt::format(
      "'{}' is in a message of role '{}', which has text only: put it into a message by the user", path, role));
}

}  // namespace kvkeep::server::api
