#pragma once

// Stops work inside this room: an exception that never leaves it. Template::parse and Template::render turn it into an
// Error. Expressions nest too deeply for a Result at each step to read well, or to be fast.

#include <string>
#include <string_view>
#include <type_traits>

#include "base/result.h"

namespace kvkeep::chat::jinja {

struct Failure {
  ErrorKind kind;
  std::string message;
  bool verbatim = false;  // the template's own words (raise_exception): no line number is added
};

// Words and numbers in one line.
template <typename... Parts>
std::string say(const Parts&... parts) {
  std::string line;
  const auto add = [&](const auto& part) {
    if constexpr (std::is_arithmetic_v<std::remove_cvref_t<decltype(part)>>) {
      line += std::to_string(part);
    } else {
      line += std::string_view(part);
    }
  };
  (add(parts), ...);
  return line;
}

// For cases in which Python would raise an exception: the template or its input is wrong.
template <typename... Parts>
[[noreturn]] void fail(const Parts&... parts) {
  throw Failure{ErrorKind::kInvalid, say(parts...)};
}
// For features that this engine lacks or does not allow.
template <typename... Parts>
[[noreturn]] void fail_unsupported(const Parts&... parts) {
  throw Failure{ErrorKind::kUnsupported, say(parts...)};
}

}  // namespace kvkeep::chat::jinja
