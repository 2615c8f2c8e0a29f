#include "server/http/http_error.h"

#include <cerrno>
#include <cstring>
#include <nlohmann/json.hpp>

namespace kvkeep::server {

std::string_view error_type(int status) {
  switch (status) {
    case 401: return "authentication_error";
    case 403: return "permission_error";
    case 404: return "not_found_error";
    case 501: return "invalid_request_error";  // only for what a client asks for
    case 503: return "unavailable_error";
    default: return status >= 500 ? "server_error" : "invalid_request_error";
  }
}

std::string error_body(int status, std::string_view message) {
  const nlohmann::json body = {
      {"error", {{"code", status}, {"message", std::string(message)}, {"type", std::string(error_type(status))}}}};
  return body.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

Error listen_error(const std::string& host, int port, int reason) {
  const std::string where = "cannot listen on " + host + ":" + std::to_string(port) + ": ";
  if (reason == EADDRINUSE) return busy(where + "the port is in use; stop the other server or choose another --port");
  if (reason == EACCES) return invalid(where + "ports below 1024 need privileges; choose another --port");
  if (reason == EADDRNOTAVAIL || reason == 0) return invalid(where + "not an address or name of this machine");
  return io_error(where + std::strerror(reason));
}

}  // namespace kvkeep::server
