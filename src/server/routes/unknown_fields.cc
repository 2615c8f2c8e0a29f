#include "server/routes/unknown_fields.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <spdlog/spdlog.h>

#include "server/api/json_body.h"

namespace kvkeep::server {
namespace {

constexpr std::string_view kHeader = "x-kvkeep-ignored-fields";
constexpr std::size_t kMostAgentBytes = 80;

// "messages[3].contnet" and "messages[5].contnet" are the same mistake.
std::string without_indexes(std::string_view field) {
  std::string kind;
  bool within = false;
  for (const char c : field) {
    within = within ? c != ']' : c == '[';
    if (!within || c == '[') kind += c;
  }
  return kind;
}

void log_once(const Service& service, const HttpRequest& http, api::Dialect dialect, const std::string& field) {
  const std::string_view agent = http.header("user-agent").substr(0, kMostAgentBytes);
  const SaidOnce::Say say =
      service.unknown_fields->first(fmt::format("{} {} {}", without_indexes(field), http.remote_address, agent));
  if (say == SaidOnce::Say::kNot) return;
  spdlog::warn("{} sends '{}' to {}, which knows no such field and ignores it{} client={}{}", http.remote_address,
               field, http.path, api::meant_field(dialect, field), api::to_line(std::string(agent)),
               say == SaidOnce::Say::kNowAndNoMore ? "; further ones are not logged" : "");
}

}  // namespace

HeaderList tell_of_unknown_fields(const Service& service, const HttpRequest& http, api::Dialect dialect,
                                  const std::vector<std::string>& unknown) {
  if (unknown.empty()) return {};
  for (const std::string& field : unknown) log_once(service, http, dialect, field);
  return {{std::string(kHeader), fmt::format("{}", fmt::join(unknown, ", "))}};
}

}  // namespace kvkeep::server
