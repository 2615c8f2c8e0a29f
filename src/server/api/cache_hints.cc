#include "server/api/cache_hints.h"

#include <algorithm>
#include <charconv>
#include <string>

namespace kvkeep::server::api {
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
