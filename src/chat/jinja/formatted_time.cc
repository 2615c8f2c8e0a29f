#include "chat/jinja/formatted_time.h"

#include <ctime>

namespace kvkeep::chat::jinja {
namespace {

bool is_letter(char byte) { return (byte >= 'a' && byte <= 'z') || (byte >= 'A' && byte <= 'Z'); }

// One conversion at a time, because a width in the format could ask for any number of bytes.
std::string written_time(std::string_view format, const std::tm& time) {
  std::string result;
  for (std::size_t i = 0; i < format.size(); ++i) {
    if (format[i] != '%' || i + 1 == format.size()) {
      result.push_back(format[i]);
      continue;
    }
    std::string conversion = "%";
    const char flag = format[++i];
    if ((flag == '-' || flag == '_' || flag == '^' || flag == '#') && i + 1 < format.size())
      conversion.push_back(format[i++]);
    conversion.push_back(format[i]);
    if (conversion == "%f") {
      result += "000000";
    } else if (is_letter(format[i])) {
      char text[128];
      result.append(text, std::strftime(text, sizeof(text), conversion.c_str(), &time));
    } else {
      result += conversion == "%%" ? "%" : conversion;
    }
  }
  return result;
}

}  // namespace

std::optional<std::string> formatted_time(std::string_view format, std::int64_t local_time_s) {
  const auto time = static_cast<std::time_t>(local_time_s);
  std::tm civil{};
  if (gmtime_r(&time, &civil) == nullptr) return std::nullopt;
  return written_time(format, civil);
}

}  // namespace kvkeep::chat::jinja
