#include "vertex.h"

#include <fmt/format.h>

#include <string>

#include "flag_values.h"

namespace kvkeep::cli {
namespace {

constexpr const char* kDefaultPredictPath = "/predict";
constexpr const char* kDefaultHealthPath = "/health";

Result<std::string> path_in(const os::Environment& environment, const char* variable, const char* otherwise) {
  const auto found = environment.find(variable);
  if (found == environment.end() || found->second.empty()) return std::string(otherwise);
  if (!found->second.starts_with('/')) {
    return invalid(fmt::format("{}: '{}' is no path: it must begin with '/'", variable, found->second));
  }
  return found->second;
}

}  // namespace

Status obey_vertex(const os::Environment& environment, ServeOptions& options) {
  const auto mode = environment.find("AIP_MODE");
  if (mode == environment.end() || mode->second != "PREDICTION") return {};
  TRY_ASSIGN(std::string predict, path_in(environment, "AIP_PREDICT_ROUTE", kDefaultPredictPath));
  TRY_ASSIGN(std::string health, path_in(environment, "AIP_HEALTH_ROUTE", kDefaultHealthPath));
  options.endpoints.vertex = {std::move(predict), std::move(health)};
  const auto port = environment.find("AIP_HTTP_PORT");
  if (port == environment.end() || port->second.empty()) return {};
  const Result<int> number = parse_number(port->second, 1, 65'535);
  if (!number) return invalid("AIP_HTTP_PORT: " + number.error().message);
  options.http.port = *number;
  options.names_port = true;
  return {};
}

}  // namespace kvkeep::cli
