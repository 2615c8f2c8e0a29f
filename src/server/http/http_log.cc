#include "server/http/http_log.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <exception>

namespace kvkeep::server {
namespace {

std::string for_log(std::string_view text, std::size_t most_bytes) {
  std::string out(text.substr(0, most_bytes));
  std::ranges::replace_if(out, [](char c) { return static_cast<unsigned char>(c) < ' ' || c == '\x7f'; }, '?');
  if (text.size() > most_bytes) out += "...";
  return out;
}

}  // namespace

void log_exchange(std::string_view method, std::string_view path, int status, std::string_view body) {
  constexpr std::size_t kMostMethodBytes = 20;
  constexpr std::size_t kMostPathBytes = 120;
  constexpr std::size_t kMostBodyBytes = 400;
  const std::string what = for_log(method, kMostMethodBytes) + " " + for_log(path, kMostPathBytes);
  if (status < 400) {
    spdlog::debug("http {} {}", what, status);
  } else {
    spdlog::info("http {} {} {}", what, status, for_log(body, kMostBodyBytes));
  }
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
