#include "server/http/http_log.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <exception>
#include <nlohmann/json.hpp>

#include "base/log_fields.h"

namespace kvkeep::server {
namespace {

std::string for_log(std::string_view text, std::size_t most_bytes) {
  std::string out(text.substr(0, most_bytes));
  std::ranges::replace_if(out, [](char c) { return static_cast<unsigned char>(c) < ' ' || c == '\x7f'; }, '?');
  if (text.size() > most_bytes) out += "...";
  return out;
}

// The words of a refusal in any API's form; empty if there are none.
std::string error_of(std::string_view body) {
  using Json = nlohmann::json;
  const Json reply = Json::parse(body, nullptr, /*allow_exceptions=*/false);
  if (!reply.is_object()) return {};
  const auto error = reply.find("error");
  if (error == reply.end()) return {};
  if (error->is_string()) return error->get<std::string>();
  const auto message = error->is_object() ? error->find("message") : error->end();
  return message != error->end() && message->is_string() ? message->get<std::string>() : std::string();
}

}  // namespace

void log_exchange(std::string_view method, std::string_view path, int status, std::string_view body) {
  constexpr std::size_t kMostMethodBytes = 20;
  constexpr std::size_t kMostPathBytes = 120;
  constexpr std::size_t kMostBodyBytes = 400;
  const bool is_refusal = status >= 400;
  if (!spdlog::should_log(is_refusal ? spdlog::level::info : spdlog::level::debug)) return;
  const std::string shown_method = for_log(method, kMostMethodBytes);
  const std::string shown_path = for_log(path, kMostPathBytes);
  LogFields fields = {{"method", shown_method}, {"path", shown_path}, {"status", std::int64_t{status}}};
  if (!is_refusal) {
    const WithLogFields beside(std::move(fields));
    return spdlog::debug("http {} {} {}", shown_method, shown_path, status);
  }
  if (const std::string error = error_of(body); !error.empty()) {
    fields.push_back({"error", for_log(error, kMostBodyBytes)});
  }
  const WithLogFields beside(std::move(fields));
  spdlog::info("http {} {} {} {}", shown_method, shown_path, status, for_log(body, kMostBodyBytes));
}

std::string current_exception_text() {
  try {
    throw;
  } catch (const std::exception& error) {
    return error.what();
  } catch (...) {
    return "unknown exception";
  }
}

}  // namespace kvkeep::server
