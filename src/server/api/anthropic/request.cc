#include "server/api/anthropic/request.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "server/api/anthropic/messages.h"
#include "server/api/generation_fields.h"
#include "server/api/known_fields.h"
#include "server/api/template_switches.h"

namespace kvkeep::server::api {
namespace {

constexpr int kMostMarks = 4;

bool is_type(const Json& block, std::string_view type) {
  const Json* value = field(block, "type");
  return value != nullptr && *value == type;
}

Result<CacheLifetime> lifetime_of(const Json& mark, const std::string& path) {
  if (!mark.is_object()) return wrong_type(path, "an object", mark);
  if (!is_type(mark, "ephemeral")) return invalid(fmt::format("'{}.type' must be 'ephemeral'", path));
  const Json* ttl = field(mark, "ttl");
  if (ttl == nullptr || *ttl == "5m") return CacheLifetime::kFiveMinutes;
  if (*ttl == "1h") return CacheLifetime::kOneHour;
  return invalid(fmt::format("'{}.ttl' must be '5m' or '1h'", path));
}

class Marks {
 public:
  // Checks the mark of a tool, a block or the body, if it has one.
  Status look_at(const Json& carrier, const std::string& path) {
    const Json* mark = carrier.is_object() ? field(carrier, "cache_control") : nullptr;
    if (mark == nullptr) return {};
    const std::string mark_path = path.empty() ? "cache_control" : path + ".cache_control";
    TRY_ASSIGN(const CacheLifetime lifetime, lifetime_of(*mark, mark_path));
    TRY(check_place(carrier, path));
    if (lifetime == CacheLifetime::kOneHour && last_ == CacheLifetime::kFiveMinutes) {
      return invalid(fmt::format(
          "'{}.ttl': a ttl='1h' cache_control block must not come after a ttl='5m' cache_control block. Note that "
          "blocks are processed in the following order: `tools`, `system`, `messages`.",
          mark_path));
    }
    ++count_;
    last_ = lifetime;
    return {};
  }

  Status look_at_each(const Json* list, const std::string& path) {
    if (list == nullptr || !list->is_array()) return {};
    for (std::size_t i = 0; i < list->size(); ++i) {
      const std::string place = fmt::format("{}.{}", path, i);
      TRY(look_at((*list)[i], place));
      if ((*list)[i].is_object() && is_type((*list)[i], "tool_result")) {
        TRY(look_at_each(field((*list)[i], "content"), place + ".content"));
      }
    }
    return {};
  }

  Result<CacheLifetime> result() const {
    if (count_ <= kMostMarks) return last_;
    return invalid(
        fmt::format("A maximum of {} blocks with cache_control may be provided. Found {}.", kMostMarks, count_));
  }

 private:
  static Status check_place(const Json& carrier, const std::string& path) {
    if (is_type(carrier, "thinking") || is_type(carrier, "redacted_thinking")) {
      return invalid(fmt::format("'{}': cache_control cannot be set on thinking blocks", path));
    }
    const Json* text = is_type(carrier, "text") ? field(carrier, "text") : nullptr;
    if (text != nullptr && *text == "") {
      return invalid(fmt::format("'{}.text': cache_control cannot be set for empty text blocks", path));
    }
    return {};
  }

  int count_ = 0;
  CacheLifetime last_ = CacheLifetime::kNone;
};

}  // namespace

Result<CacheLifetime> read_cache_control(const Json& body) {
  Marks marks;
  TRY(marks.look_at_each(field(body, "tools"), "tools"));
  TRY(marks.look_at_each(field(body, "system"), "system"));
  if (const Json* messages = field(body, "messages"); messages != nullptr && messages->is_array()) {
    for (std::size_t i = 0; i < messages->size(); ++i) {
      if (!(*messages)[i].is_object()) continue;
      TRY(marks.look_at_each(field((*messages)[i], "content"), fmt::format("messages.{}.content", i)));
    }
  }
  TRY(marks.look_at(body, ""));
  return marks.result();
}

namespace {

constexpr std::size_t kMostStops = 256;
constexpr std::size_t kMostHintBytes = 512;
constexpr std::int64_t kOneHourS = 3600;

Status read_thinking(const Json& body, Json& kwargs) {
  const Json* thinking = field(body, "thinking");
  if (thinking == nullptr) return {};
  if (!thinking->is_object()) return wrong_type("thinking", "an object", *thinking);
  const Json type = thinking->value("type", Json());
  if (type != "enabled" && type != "adaptive" && type != "disabled") {
    return invalid("'thinking.type' must be 'enabled', 'adaptive' or 'disabled'");
  }
  std::int64_t budget_tokens = 0;
  TRY(read_integer(*thinking, "budget_tokens", budget_tokens, 0, std::numeric_limits<std::int32_t>::max()));
  set_thinking(kwargs, type != "disabled");
  return {};
}

// Templates know three levels; the API has two more above "high".
Status read_output_effort(const Json& config, Json& kwargs) {
  const Json* effort = field(config, "effort");
  if (effort == nullptr) return {};
  constexpr std::array kEfforts = std::to_array<std::pair<std::string_view, std::string_view>>(
      {{"low", "low"}, {"medium", "medium"}, {"high", "high"}, {"xhigh", "high"}, {"max", "high"}});
  const auto known = std::ranges::find_if(kEfforts, [&](const auto& pair) { return *effort == pair.first; });
  if (known == kEfforts.end()) {
    return invalid("'output_config.effort' must be 'low', 'medium', 'high', 'xhigh' or 'max'");
  }
  kwargs["reasoning_effort"] = known->second;
  return {};
}

// Fields of the body replace the server's; chat_template_kwargs, which names variables of the template, comes last.
Result<Json> anthropic_template_kwargs(const Json& body, const Json& servers) {
  Json kwargs = servers.is_object() ? servers : Json::object();
  TRY(read_thinking(body, kwargs));
  if (const Json* config = field(body, "output_config"); config != nullptr) {
    if (!config->is_object()) return wrong_type("output_config", "an object", *config);
    TRY(read_output_effort(*config, kwargs));
  }
  TRY(read_template_switches(body, kwargs));
  return kwargs.empty() ? Json() : kwargs;
}

Result<chat::RenderInput> anthropic_prompt(const Json& body, MediaReader media, const RequestDefaults& defaults) {
  chat::RenderInput input;
  TRY_ASSIGN(input.messages, read_conversation(body, media));
  input.media = media.take();
  TRY_ASSIGN(input.tools, read_custom_tools(body));
  TRY_ASSIGN(input.template_kwargs, anthropic_template_kwargs(body, defaults.template_kwargs));
  take_prefill(input);
  return input;
}

Status check_max_tokens(const Json& body) {
  if (field(body, "max_tokens") == nullptr) return invalid("'max_tokens' is required");
  std::int64_t max_tokens = 0;
  return read_integer(body, "max_tokens", max_tokens, 0, std::numeric_limits<std::int32_t>::max());
}

Status read_stop_sequences(const Json& body, std::vector<std::string>& stop) {
  const Json* sequences = field(body, "stop_sequences");
  if (sequences == nullptr) return {};
  if (!sequences->is_array()) return wrong_type("stop_sequences", "an array of strings", *sequences);
  if (sequences->size() > kMostStops) {
    return invalid(fmt::format("'stop_sequences' may hold at most {} strings", kMostStops));
  }
  stop.clear();
  for (const Json& sequence : *sequences) {
    if (!sequence.is_string()) return wrong_type("stop_sequences", "an array of strings", sequence);
    stop.push_back(sequence.get<std::string>());
  }
  return {};
}

// {"format":{"type":"json_schema","schema":...}}
Status read_output_config(const Json& body, OutputFormat& output) {
  const Json* config = field(body, "output_config");
  const Json* format = config == nullptr ? nullptr : field(*config, "format");
  if (format == nullptr) return {};
  if (!format->is_object()) return wrong_type("output_config.format", "an object", *format);
  const Json* type = field(*format, "type");
  if (type == nullptr || *type != "json_schema") return invalid("'output_config.format.type' must be 'json_schema'");
  const Json* schema = field(*format, "schema");
  if (schema == nullptr || !schema->is_object()) return invalid("'output_config.format.schema' must be an object");
  output = JsonSchemaOutput{.schema = *schema, .path = "output_config.format.schema", .lenient = false};
  return {};
}

// Claude Code puts a JSON text there; its session_id tells conversations apart. It is only a hint: a value of the wrong
// type is no reason to refuse the request.
std::string session_of(const Json& body) {
  const Json* metadata = field(body, "metadata");
  const Json* user = metadata != nullptr && metadata->is_object() ? field(*metadata, "user_id") : nullptr;
  if (user == nullptr || !user->is_string()) return {};
  const std::string& text = user->get_ref<const std::string&>();
  if (text.starts_with('{') && text.size() <= 4 * kMostHintBytes) {
    if (const Result<Json> parsed = parse_body(text)) {
      const Json* session = field(*parsed, "session_id");
      if (session != nullptr && session->is_string()) return session->get<std::string>().substr(0, kMostHintBytes);
    }
  }
  return text.substr(0, kMostHintBytes);
}

}  // namespace

Result<MessagesRequest> parse_messages(std::string body, const RequestDefaults& defaults) {
  MediaReader media(defaults.media_rules());
  TRY_ASSIGN(const Json json, parse_body(std::move(body)));
  MessagesRequest request;
  GenerationRequest& generation = request.generation;
  TRY_ASSIGN(generation.unknown_fields, unknown_fields(json, Dialect::kMessages, defaults.strict_fields));
  TRY(check_max_tokens(json));
  TRY_ASSIGN(chat::RenderInput input, anthropic_prompt(json, std::move(media), defaults));
  TRY_ASSIGN(generation.tools, read_tool_use(json, input.tools));
  TRY_ASSIGN(request.cache, read_cache_control(json));
  TRY(read_generation_fields(json, defaults, generation));
  if (const Json* thinking = field(json, "thinking"); thinking != nullptr && thinking->value("type", "") == "enabled") {
    TRY(read_thinking_budget(*thinking, "budget_tokens", generation.sampling));
  }
  TRY(read_output_config(json, generation.output));
  TRY(read_stop_sequences(json, generation.stop));
  if (std::string session = session_of(json); !session.empty()) generation.user = std::move(session);
  // This API returns thoughts in blocks of their own or within the text; both would be sent back twice.
  const bool apart = defaults.reasoning_format != chat::tools::ReasoningFormat::kNone;
  generation.reasoning_format = apart ? chat::tools::ReasoningFormat::kDeepSeek : defaults.reasoning_format;
  if (request.cache == CacheLifetime::kOneHour) generation.keep_s = std::max(generation.keep_s, kOneHourS);
  if (!generation.cache_prompt) request.cache = CacheLifetime::kNone;
  generation.prompt = std::move(input);
  return request;
}

Result<chat::RenderInput> read_messages_prompt(const Json& body, MediaReader media, const RequestDefaults& defaults) {
  TRY_ASSIGN(chat::RenderInput input, anthropic_prompt(body, std::move(media), defaults));
  TRY_ASSIGN(const ToolUse unused, read_tool_use(body, input.tools));
  TRY_ASSIGN(const CacheLifetime lifetime, read_cache_control(body));
  static_cast<void>(unused);
  static_cast<void>(lifetime);
  return input;
}

Result<CountRequest> parse_count_tokens(std::string body, const RequestDefaults& defaults) {
  MediaReader media(defaults.media_rules());
  TRY_ASSIGN(const Json json, parse_body(std::move(body)));
  CountRequest request;
  TRY_ASSIGN(request.unknown_fields, unknown_fields(json, Dialect::kMessages, defaults.strict_fields));
  TRY_ASSIGN(request.prompt, read_messages_prompt(json, std::move(media), defaults));
  TRY(read_string(json, "model", request.model));
  TRY_ASSIGN(request.cache_salt, read_cache_salt(json));
  return request;
}

}  // namespace kvkeep::server::api
