#include "server/api/generation_fields.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <limits>
#include <map>
#include <string>

namespace kvkeep::server::api {
namespace {

constexpr std::int64_t kInt32Max = std::numeric_limits<std::int32_t>::max();
constexpr std::size_t kMaxStops = 256;

// The kind of value with which a field asks for nothing.
enum class Neutral { kFalsy, kOne, kTextOnly };

struct Refusal {
  std::string_view field;
  Neutral neutral;
  std::string_view reason;
};

constexpr std::string_view kOneChoice = "one choice per request";
constexpr std::string_view kTextOnly = "only text is supported";

constexpr std::array kRefusals = std::to_array<Refusal>({
    {"n", Neutral::kOne, kOneChoice},
    {"best_of", Neutral::kOne, "no reply is chosen among several; 'n' returns them all"},
    {"n_cmpl", Neutral::kOne, kOneChoice},
    {"echo", Neutral::kFalsy, "only /v1/completions repeats the prompt"},
    {"suffix", Neutral::kFalsy, "only /v1/completions and /infill fill text in"},
    {"context_shift", Neutral::kFalsy, "the server's --context-shift is for all requests"},
    {"n_cache_reuse", Neutral::kFalsy, "rows are reused only where the whole prefix is the same"},
    {"grammar_lazy", Neutral::kFalsy, "a grammar begins with the reply"},
    {"modalities", Neutral::kTextOnly, kTextOnly},
    {"audio", Neutral::kFalsy, kTextOnly},
    {"functions", Neutral::kFalsy, "use 'tools'"},
    {"function_call", Neutral::kFalsy, "use 'tools'"},
    {"web_search_options", Neutral::kFalsy, "there is no web search"},
    {"response_fields", Neutral::kFalsy, "only replies of /completion and /infill can be cut"},
});

bool is_falsy(const Json& value) {
  if (value.is_boolean()) return !value.get<bool>();
  if (value.is_number()) return value.get<double>() == 0;
  if (value.is_string()) return value.get_ref<const std::string&>().empty();
  return value.empty();
}

// Returns true for modalities ["text"].
bool is_text_only(const Json& value) {
  if (!value.is_array()) return false;
  return std::ranges::all_of(value, [](const Json& element) { return element == "text"; });
}

bool is_neutral(const Json& value, Neutral neutral) {
  switch (neutral) {
    case Neutral::kFalsy: return is_falsy(value);
    case Neutral::kOne: return value.is_number() && value.get<double>() == 1;
    case Neutral::kTextOnly: return is_text_only(value);
  }
  return false;
}

// -1 asks for a new seed each time, also if written as an unsigned number; longer seeds are cut, as in llama-server.
Status read_seed(const Json& body, std::optional<std::uint32_t>& seed) {
  constexpr std::uint32_t kAny = UINT32_MAX;
  std::int64_t value = seed.value_or(kAny);
  TRY(read_integer(body, "seed", value, std::numeric_limits<std::int64_t>::min() / 2,
                   std::numeric_limits<std::int64_t>::max() / 2));
  seed = static_cast<std::uint32_t>(value);
  if (seed == kAny) seed.reset();
  return {};
}

struct Biases {
  std::map<TokenId, float> of_ids;
  std::vector<std::pair<std::string, float>> of_texts;
};

Result<float> read_bias(const Json& bias) {
  if (bias.is_boolean() && !bias.get<bool>()) return -std::numeric_limits<float>::infinity();
  if (!bias.is_number()) return wrong_type("logit_bias", "numbers or false", bias);
  constexpr double kLargest = 1e6;  // far beyond any logit, and safe in a float
  return static_cast<float>(std::clamp(bias.get<double>(), -kLargest, kLargest));
}

// The text's tokens are known where the vocabulary is.
Status add_text_bias(std::string text, float bias, Biases& biases) {
  constexpr std::size_t kMostTextBytes = 256;
  if (text.empty() || text.size() > kMostTextBytes) {
    return invalid(fmt::format("a text in 'logit_bias' must have 1 to {} bytes", kMostTextBytes));
  }
  biases.of_texts.emplace_back(std::move(text), bias);
  return {};
}

// A token that is named again adds to its bias, as in the sampler.
Status read_bias_entry(const Json& token, const Json& value, std::size_t vocabulary_size, Biases& biases) {
  TRY_ASSIGN(const float bias, read_bias(value));
  if (token.is_string()) return add_text_bias(token.get<std::string>(), bias, biases);
  if (!token.is_number_integer()) return wrong_type("logit_bias", "keyed by token ids or texts", token);
  const Json id_list = Json::array({token});
  TRY_ASSIGN(const std::vector<TokenId> ids, read_token_ids(id_list, "logit_bias", vocabulary_size));
  biases.of_ids[ids[0]] += bias;
  return {};
}

// OpenAI: {"15": -100}; llama-server: [[15, -100], [16, false], ["text", 1.5]], and texts as keys.
Status read_bias_entries(const Json& entries, std::size_t vocabulary_size, Biases& biases) {
  if (entries.is_array()) {
    for (const Json& entry : entries) {
      if (!entry.is_array() || entry.size() != 2) return wrong_type("logit_bias", "made of [token, bias] pairs", entry);
      TRY(read_bias_entry(entry[0], entry[1], vocabulary_size, biases));
    }
    return {};
  }
  if (!entries.is_object()) return wrong_type("logit_bias", "an object or an array", entries);
  for (const auto& [key, bias] : entries.items()) {
    TokenId id = 0;
    const auto [end, error] = std::from_chars(key.data(), key.data() + key.size(), id);
    const bool is_id = error == std::errc() && end == key.data() + key.size();
    TRY(read_bias_entry(is_id ? Json(id) : Json(key), bias, vocabulary_size, biases));
  }
  return {};
}

Status read_logit_bias(const Json& body, std::size_t vocabulary_size, GenerationRequest& request) {
  const Json* value = field(body, "logit_bias");
  if (value == nullptr) return {};
  // Each entry costs time for every sampled token.
  if (vocabulary_size > 0 && value->is_structured() && value->size() > vocabulary_size) {
    return invalid(fmt::format("'logit_bias' may hold at most {} entries, one per token", vocabulary_size));
  }
  Biases biases;
  TRY(read_bias_entries(*value, vocabulary_size, biases));
  request.sampling.logit_bias.assign(biases.of_ids.begin(), biases.of_ids.end());
  request.text_biases = std::move(biases.of_texts);
  return {};
}

Status read_sampling(const Json& body, engine::SamplingParams& sampling) {
  TRY(read_sampling_fields(body, sampling));
  TRY(read_seed(body, sampling.seed));
  return read_bool(body, "ignore_eos", sampling.ignore_eos);
}

// Each reply has a copy of them, and holds back as much text as the longest has.
Status check_stop(const std::vector<std::string>& stop) {
  constexpr std::size_t kMostStopBytes = 64 << 10;
  std::size_t bytes = 0;
  for (const std::string& text : stop) bytes += text.size();
  if (bytes <= kMostStopBytes) return {};
  return invalid(fmt::format("'stop' may have {} bytes, of all strings together", kMostStopBytes));
}

Status read_stop(const Json& body, std::vector<std::string>& stop) {
  const Json* value = field(body, "stop");
  if (value == nullptr) return {};
  if (value->is_string()) {
    stop = {value->get<std::string>()};
    return check_stop(stop);
  }
  if (!value->is_array()) return wrong_type("stop", "a string or an array of strings", *value);
  if (value->size() > kMaxStops) return invalid(fmt::format("'stop' may hold at most {} strings", kMaxStops));
  stop.clear();
  for (const Json& element : *value) {
    if (!element.is_string()) return wrong_type("stop", "a string or an array of strings", element);
    stop.push_back(element.get<std::string>());
  }
  return check_stop(stop);
}

// llama-server's limits for editors, and one for the whole request; a value of 0 or less sets none.
Status read_limits(const Json& body, GenerationRequest& request) {
  std::int64_t prompt_ms = 0;
  std::int64_t predict_ms = 0;
  std::int64_t total_ms = 0;
  std::int64_t indent = 0;
  TRY(read_integer(body, "t_max_prompt_ms", prompt_ms, -kInt32Max, kInt32Max));
  TRY(read_integer(body, "t_max_predict_ms", predict_ms, -kInt32Max, kInt32Max));
  TRY(read_integer(body, "t_max_total_ms", total_ms, -kInt32Max, kInt32Max));
  TRY(read_integer(body, "n_indent", indent, -kInt32Max, kInt32Max));
  request.longest_prompt_ms = static_cast<double>(std::max<std::int64_t>(prompt_ms, 0));
  request.longest_total_ms = static_cast<double>(std::max<std::int64_t>(total_ms, 0));
  request.lines = {.longest_ms = static_cast<double>(std::max<std::int64_t>(predict_ms, 0)),
                   .least_indent = static_cast<std::size_t>(std::max<std::int64_t>(indent, 0))};
  return {};
}

// A sender's name of the wrong type is no reason to refuse a request.
std::string hint(const Json& body, std::string_view name) {
  constexpr std::size_t kMostBytes = 512;
  const Json* value = field(body, name);
  if (value == nullptr || !value->is_string()) return {};
  return value->get_ref<const std::string&>().substr(0, kMostBytes);
}

Status read_order(const Json& body, GenerationRequest& request) {
  request.user = hint(body, "user");
  request.prompt_cache_key = hint(body, "prompt_cache_key");
  std::int64_t priority = 0;
  TRY(read_integer(body, "priority", priority, -kMostPriority, kMostPriority));
  request.priority = static_cast<int>(priority);
  return {};
}

Status read_stream_fields(const Json& body, GenerationRequest& request) {
  TRY(read_bool(body, "stream", request.stream));
  if (const Json* options = field(body, "stream_options")) {
    if (!options->is_object()) return wrong_type("stream_options", "an object", *options);
    TRY(read_bool(*options, "include_usage", request.include_usage));
  }
  TRY(read_bool(body, "return_progress", request.return_progress));
  TRY(read_bool(body, "post_sampling_probs", request.sampling.keeps_candidates));
  TRY(read_bool(body, "timings_per_token", request.timings_per_token));
  return read_bool(body, "return_tokens", request.return_tokens);
}

}  // namespace

std::vector<std::string_view> refused_fields() {
  std::vector<std::string_view> names;
  for (const Refusal& refusal : kRefusals) names.push_back(refusal.field);
  return names;
}

Status refuse_unsupported(const Json& body, ObeyedFields obeyed) {
  for (const Refusal& refusal : kRefusals) {
    if (std::ranges::find(obeyed, refusal.field) != obeyed.end()) continue;
    const Json* value = field(body, refusal.field);
    if (value == nullptr || is_neutral(*value, refusal.neutral)) continue;
    return invalid(fmt::format("'{}' is not supported: {}", refusal.field, refusal.reason));
  }
  return {};
}

Status read_choices(const Json& body, GenerationRequest& request) {
  std::int64_t choices = 1;
  TRY(read_integer(body, "n", choices, 1, kMostChoicesPerPrompt));
  TRY(read_integer(body, "n_cmpl", choices, 1, kMostChoicesPerPrompt));
  request.choices_per_prompt = static_cast<std::size_t>(choices);
  if (request.choices() <= kMostChoices) return {};
  return invalid(fmt::format("a request may have at most {} replies, 'n' for each prompt", kMostChoices));
}

Status read_generation_fields(const Json& body, const RequestDefaults& defaults, GenerationRequest& request,
                              ObeyedFields obeyed) {
  request.sampling = defaults.sampling;
  request.cache_prompt = defaults.cache_prompt;
  TRY(refuse_unsupported(body, obeyed));
  TRY(read_sampling(body, request.sampling));
  TRY(read_logit_bias(body, defaults.vocabulary_size, request));
  if (const Json* lora = field(body, "lora")) {
    TRY_ASSIGN(request.adapters, read_adapter_scales(*lora, "lora", defaults.adapters));
  }
  TRY(read_stop(body, request.stop));
  TRY(read_limits(body, request));
  TRY_ASSIGN(request.output, read_output_format(body));
  // The last field present wins: n_predict is llama-server's own name. -1 means unset, as in llama-server.
  std::int64_t max_tokens = -1;
  for (const std::string_view name : {"max_completion_tokens", "max_tokens", "n_predict"}) {
    TRY(read_integer(body, name, max_tokens, -1, kInt32Max));
  }
  request.max_tokens = max_tokens < 0 ? defaults.max_tokens : max_tokens;
  request.kept_tokens = defaults.kept_tokens;
  TRY(read_integer(body, "n_keep", request.kept_tokens, -1, kInt32Max));
  std::int64_t discarded = 0;
  TRY(read_integer(body, "n_discard", discarded, 0, kInt32Max));
  request.discarded_tokens = static_cast<std::size_t>(discarded);
  TRY(read_string(body, "model", request.model));
  std::int64_t slot = -1;
  TRY(read_integer(body, "id_slot", slot, -1, kInt32Max));
  if (slot >= 0) request.slot = static_cast<std::size_t>(slot);
  TRY(read_bool(body, "cache_prompt", request.cache_prompt));
  TRY(read_order(body, request));
  TRY_ASSIGN(request.keep_s, read_keep_s(body));
  TRY_ASSIGN(request.cache_salt, read_cache_salt(body));
  return read_stream_fields(body, request);
}

Result<engine::AdapterScales> read_adapter_scales(const Json& list, std::string_view name, std::size_t adapters) {
  constexpr double kMost = 1'000;
  if (!list.is_array()) return wrong_type(name, "an array of objects with 'id' and 'scale'", list);
  engine::AdapterScales scales(adapters);
  for (const Json& entry : list) {
    if (!entry.is_object()) return wrong_type(name, "an array of objects with 'id' and 'scale'", entry);
    std::int64_t id = -1;
    float scale = 0;
    TRY(read_integer(entry, "id", id, -1, kInt32Max));
    TRY(read_number(entry, "scale", scale, -kMost, kMost));
    if (id < 0 || static_cast<std::size_t>(id) >= adapters) {
      return invalid(fmt::format("{}: there is no adapter {}; GET /lora-adapters lists those of --lora", name, id));
    }
    scales[static_cast<std::size_t>(id)] = scale + 0.0F;  // -0.0 is 0
  }
  return scales;
}

Status read_scored_count(const Json& body, std::string_view name, std::optional<std::size_t>& count) {
  std::int64_t value = 0;
  TRY(read_integer(body, name, value, 0, kMostScoredTokens));
  if (value > 0) count = static_cast<std::size_t>(value);
  return {};
}

Status read_thinking_budget(const Json& holder, std::string_view name, engine::SamplingParams& sampling) {
  std::int64_t tokens = -1;
  TRY(read_integer(holder, name, tokens, -1, kInt32Max));
  if (tokens >= 0) sampling.thinking.most_tokens = static_cast<std::size_t>(tokens);
  return {};
}

Result<std::vector<TokenId>> read_token_ids(const Json& array, std::string_view name, std::size_t vocabulary_size) {
  const std::int64_t last = vocabulary_size == 0 ? kInt32Max : static_cast<std::int64_t>(vocabulary_size) - 1;
  std::vector<TokenId> ids;
  ids.reserve(array.size());
  for (const Json& element : array) {
    if (!element.is_number_integer()) return wrong_type(name, "made of token ids", element);
    const auto id = element.get<std::int64_t>();
    // A number above 2^63 reads as negative.
    if (id < 0 || id > last)
      return invalid(fmt::format("'{}': {} is not a token id (0 to {})", name, element.dump(), last));
    ids.push_back(static_cast<TokenId>(id));
  }
  return ids;
}

namespace {

constexpr std::int64_t kHourInS = 3600;
constexpr std::int64_t kDayS = 24 * kHourInS;

Result<std::int64_t> retention_s(const Json& body) {
  std::string retention = "in_memory";
  TRY(read_string(body, "prompt_cache_retention", retention));
  if (retention == "24h") return kDayS;
  if (retention == "in_memory" || retention == "in-memory") return 0;
  return invalid("'prompt_cache_retention' must be 'in_memory' or '24h'");
}

// "30m": a whole number of seconds, minutes or hours.
Result<std::int64_t> duration_s(const std::string& text) {
  std::int64_t count = 0;
  const char* const end = text.data() + text.size();
  const auto [unit, failure] = std::from_chars(text.data(), end, count);
  const std::string_view name(unit, end);
  const std::int64_t unit_s = name == "s" ? 1 : name == "m" ? 60 : name == "h" ? kHourInS : 0;
  if (failure != std::errc() || unit_s == 0 || count < 1 || count > kDayS / unit_s) {
    return invalid("'prompt_cache_options.ttl' must be a duration such as '30m', at most '24h'");
  }
  return count * unit_s;
}

Result<std::int64_t> options_s(const Json& body) {
  const Json* options = field(body, "prompt_cache_options");
  if (options == nullptr) return 0;
  if (!options->is_object()) return wrong_type("prompt_cache_options", "an object", *options);
  std::string mode = "implicit";
  TRY(read_string(*options, "mode", mode));
  if (mode != "implicit" && mode != "explicit") {
    return invalid("'prompt_cache_options.mode' must be 'implicit' or 'explicit'");
  }
  std::string ttl;
  TRY(read_string(*options, "ttl", ttl));
  return field(*options, "ttl") == nullptr ? Result<std::int64_t>(0) : duration_s(ttl);
}

}  // namespace

// A client that asks to be set apart must be: a value that is no salt is refused.
Result<std::string> read_cache_salt(const Json& body) {
  constexpr std::size_t kMostBytes = 256;
  const Json* salt = field(body, "cache_salt");
  if (salt == nullptr) return std::string();
  const std::size_t bytes = salt->is_string() ? salt->get_ref<const std::string&>().size() : 0;
  if (bytes == 0 || bytes > kMostBytes) return invalid("'cache_salt' must be a string of 1 to 256 bytes");
  return salt->get<std::string>();
}

Result<std::int64_t> read_keep_s(const Json& body) {
  TRY_ASSIGN(const std::int64_t retention, retention_s(body));
  TRY_ASSIGN(const std::int64_t options, options_s(body));
  return std::max(retention, options);
}

}  // namespace kvkeep::server::api
