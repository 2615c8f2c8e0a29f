#include <fmt/chrono.h>
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <ctime>
#include <nlohmann/json.hpp>
#include <variant>

#include "serve_log.h"
#include "text/terminal.h"

namespace kvkeep::cli {
namespace {

using Json = nlohmann::ordered_json;

std::string time_text(std::int64_t time_ms) {
  const auto seconds = static_cast<std::time_t>(time_ms / 1'000);
  return fmt::format("{:%Y-%m-%dT%H:%M:%S}.{:03}Z", fmt::gmtime(seconds), time_ms % 1'000);
}

bool is_name(std::string_view text) {
  const auto is_letter = [](char c) { return (c >= 'a' && c <= 'z') || c == '_'; };
  return !text.empty() && std::ranges::all_of(text, is_letter);
}

template <typename Number>
bool reads_whole(std::string_view text, Number& number) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc() && end == text.data() + text.size();
}

Json value_of(std::string_view text) {
  std::int64_t whole = 0;
  double number = 0;
  if (reads_whole(text, whole)) return whole;
  if (reads_whole(text, number)) return number;
  if (text.ends_with('s') && reads_whole(text.substr(0, text.size() - 1), number)) return number;
  return std::string(text);
}

Json fields_of(std::string_view message) {
  Json fields = Json::object();
  message = message.substr(0, message.find_first_of("\"'`({["));
  while (!message.empty()) {
    const std::string_view word = message.substr(0, message.find(' '));
    message.remove_prefix(std::min(message.size(), word.size() + 1));
    const auto equals = word.find('=');
    if (equals == std::string_view::npos || equals + 1 == word.size() || !is_name(word.substr(0, equals))) continue;
    std::string_view value = word.substr(equals + 1);
    while (value.size() > 1 && (value.ends_with(':') || value.ends_with(','))) value.remove_suffix(1);
    fields.emplace(word.substr(0, equals), value_of(value));
  }
  return fields;
}

// Seconds, which need no more digits than clocks have.
double rounded(double seconds) { return std::round(seconds * 1e6) / 1e6; }

Json fields_of(const LogFields& given) {
  Json fields = Json::object();
  for (const LogField& field : given) {
    if (const double* seconds = std::get_if<double>(&field.value)) {
      fields.emplace(field.name, rounded(*seconds));
      continue;
    }
    std::visit([&](const auto& value) { fields.emplace(field.name, value); }, field.value);
  }
  return fields;
}

}  // namespace

std::string json_log_line(std::int64_t time_ms, std::string_view level, std::string_view message,
                          const LogFields* given) {
  Json line = {{"time", time_text(time_ms)}, {"level", level}, {"message", message}};
  Json fields = given != nullptr ? fields_of(*given) : fields_of(message);
  if (!fields.empty()) line["fields"] = std::move(fields);
  return text::escaped(line.dump(-1, ' ', false, Json::error_handler_t::replace));
}

}  // namespace kvkeep::cli
