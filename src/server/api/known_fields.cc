#include "server/api/known_fields.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <span>

#include "base/edit_distance.h"
#include "server/api/generation_fields.h"

namespace kvkeep::server::api {
namespace {

using Names = std::span<const std::string_view>;

// Read by read_generation_fields(), in every dialect that generates.
constexpr std::string_view kGenerating[] = {"model",
                                            "max_completion_tokens",
                                            "max_tokens",
                                            "n_predict",
                                            "stream",
                                            "stream_options",
                                            "stop",
                                            "temperature",
                                            "top_k",
                                            "top_p",
                                            "min_p",
                                            "seed",
                                            "repeat_penalty",
                                            "presence_penalty",
                                            "frequency_penalty",
                                            "repeat_last_n",
                                            "logit_bias",
                                            "ignore_eos",
                                            "response_format",
                                            "json_schema",
                                            "grammar",
                                            "cache_prompt",
                                            "cache_salt",
                                            "prompt_cache_retention",
                                            "prompt_cache_options",
                                            "return_progress",
                                            "timings_per_token",
                                            "return_tokens",
                                            "user",
                                            "prompt_cache_key"};

constexpr std::string_view kChat[] = {"messages",
                                      "tools",
                                      "tool_choice",
                                      "parallel_tool_calls",
                                      "chat_template_kwargs",
                                      "reasoning_effort",
                                      "thinking_budget_tokens",
                                      "enable_thinking",
                                      "reasoning_format",
                                      "add_generation_prompt"};

constexpr std::string_view kCompletions[] = {"prompt"};

constexpr std::string_view kResponses[] = {"input",
                                           "instructions",
                                           "tools",
                                           "tool_choice",
                                           "parallel_tool_calls",
                                           "max_output_tokens",
                                           "text",
                                           "reasoning",
                                           "include",
                                           "truncation",
                                           "previous_response_id",
                                           "conversation",
                                           "prompt",
                                           "background",
                                           "chat_template_kwargs",
                                           "enable_thinking",
                                           "metadata",
                                           "safety_identifier"};

constexpr std::string_view kMessages[] = {
    "messages",       "system",   "tools",         "tool_choice",          "thinking",       "output_config",
    "stop_sequences", "metadata", "cache_control", "chat_template_kwargs", "enable_thinking"};

constexpr std::string_view kTokenize[] = {"content", "add_special", "parse_special", "with_pieces"};
constexpr std::string_view kTokens[] = {"tokens"};

// Changes nothing: parameters of samplers that are refused when they are on, and what names a slot.
constexpr std::string_view kIgnoredByAll[] = {"id_slot",
                                              "slot_id",
                                              "mirostat_tau",
                                              "mirostat_eta",
                                              "xtc_threshold",
                                              "dry_base",
                                              "dry_allowed_length",
                                              "dry_penalty_last_n",
                                              "dry_sequence_breakers",
                                              "dynatemp_exponent",
                                              "service_tier"};
constexpr std::string_view kIgnoredByOpenAi[] = {"store",     "metadata",   "safety_identifier",
                                                 "verbosity", "prediction", "parse_tool_calls"};
constexpr std::string_view kIgnoredByResponses[] = {"store", "max_tool_calls", "client_metadata", "verbosity"};
constexpr std::string_view kIgnoredByMessages[] = {"context_management", "container",     "betas", "anthropic_version",
                                                   "anthropic_beta",     "inference_geo", "speed"};
// Clients of a router name the model with every request.
constexpr std::string_view kIgnoredByNative[] = {"model"};

std::vector<Names> read_by(Dialect dialect) {
  switch (dialect) {
    case Dialect::kChat:
    case Dialect::kApplyTemplate: return {kGenerating, kChat};
    case Dialect::kCompletions: return {kGenerating, kCompletions};
    case Dialect::kResponses: return {kGenerating, kResponses};
    case Dialect::kMessages: return {kGenerating, kMessages};
    case Dialect::kTokenize: return {kTokenize};
    case Dialect::kDetokenize: return {kTokens};
    case Dialect::kLookup: return {kGenerating, kChat, kCompletions, kTokens};
  }
  return {};
}

std::vector<Names> ignored_by(Dialect dialect) {
  switch (dialect) {
    case Dialect::kResponses: return {kIgnoredByAll, kIgnoredByResponses};
    case Dialect::kMessages: return {kIgnoredByAll, kIgnoredByMessages};
    case Dialect::kTokenize:
    case Dialect::kDetokenize: return {kIgnoredByNative};
    default: return {kIgnoredByAll, kIgnoredByOpenAi};
  }
}

bool generates(Dialect dialect) { return dialect != Dialect::kTokenize && dialect != Dialect::kDetokenize; }

bool is_among(const std::vector<Names>& lists, std::string_view name) {
  return std::ranges::any_of(lists, [&](Names list) { return std::ranges::find(list, name) != list.end(); });
}

bool is_known(Dialect dialect, std::string_view name) {
  if (is_among(read_by(dialect), name) || is_among(ignored_by(dialect), name)) return true;
  if (!generates(dialect)) return false;
  const std::vector<std::string_view> refused = refused_fields();
  return std::ranges::find(refused, name) != refused.end();
}

// Names go into a header and into the log, and a client may call a field anything.
std::string printable(std::string_view name) {
  std::string safe(name.substr(0, kMostFieldNameBytes));
  std::ranges::replace_if(safe, [](char c) { return c <= ' ' || c > '~' || c == ','; }, '?');
  return safe;
}

}  // namespace

Result<std::vector<std::string>> unknown_fields(const Json& body, Dialect dialect, bool strict) {
  std::vector<std::string> unknown;
  for (const auto& [name, value] : body.items()) {
    if (value.is_null() || is_known(dialect, name)) continue;
    if (strict) {
      return invalid(fmt::format("'{}' is no field of this request{}; --strict-fields refuses it", printable(name),
                                 meant_field(dialect, name)));
    }
    if (unknown.size() == kMostUnknownFields) break;
    unknown.push_back(printable(name));
  }
  return unknown;
}

std::string meant_field(Dialect dialect, std::string_view name) {
  const std::string_view begin = name.substr(0, kMostFieldNameBytes);
  const std::string near = nearest_within(std::max<std::size_t>(begin.size() / 3, 1), begin, known_fields(dialect));
  return near.empty() ? "" : fmt::format(" (did you mean '{}'?)", near);
}

std::vector<std::string> known_fields(Dialect dialect) {
  std::vector<std::string> names;
  for (const std::vector<Names>& lists : {read_by(dialect), ignored_by(dialect)}) {
    for (const Names list : lists) names.insert(names.end(), list.begin(), list.end());
  }
  const std::vector<std::string_view> refused = generates(dialect) ? refused_fields() : std::vector<std::string_view>();
  names.insert(names.end(), refused.begin(), refused.end());
  std::ranges::sort(names);
  names.erase(std::ranges::unique(names).begin(), names.end());
  return names;
}

std::vector<std::string_view> ignored_fields(Dialect dialect) {
  std::vector<std::string_view> names;
  for (const Names list : ignored_by(dialect)) std::ranges::copy(list, std::back_inserter(names));
  return names;
}

}  // namespace kvkeep::server::api
