#include "server/routes/tenant.h"

#include <functional>
#include <string>

#include "server/http/api_keys.h"

namespace kvkeep::server {

Tenant tenant_of(const Service& service, const HttpRequest& http, std::string_view cache_salt) {
  if (!service.tenant_by_key) return kvkeep::tenant_of(service.fingerprint, cache_salt);
  ByteHasher both;
  both.append_field(presented_key(http.header("authorization"), http.header("x-api-key")));
  both.append_field(cache_salt);
  return kvkeep::tenant_of(service.fingerprint, both.finish<Hash256<struct KeyAndSaltTag>>().hex());
}

std::uint64_t client_of(const HttpRequest& http, const Tenant& tenant) {
  const std::string_view agent = http.header("user-agent");
  ByteHasher hasher;
  hasher.append_field(agent.substr(0, agent.find_first_of("/ ")));
  hasher.append_field(tenant.hex());
  return std::hash<std::string>()(hasher.finish<Hash256<struct ClientTag>>().hex());
}

}  // namespace kvkeep::server
