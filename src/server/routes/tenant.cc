#include "server/routes/tenant.h"

#include "server/http/api_keys.h"

namespace kvkeep::server {

Tenant tenant_of(const Service& service, const HttpRequest& http, std::string_view cache_salt) {
  if (!service.tenant_by_key) return kvkeep::tenant_of(service.fingerprint, cache_salt);
  ByteHasher both;
  both.append_field(presented_key(http.header("authorization"), http.header("x-api-key")));
  both.append_field(cache_salt);
  return kvkeep::tenant_of(service.fingerprint, both.finish<Hash256<struct KeyAndSaltTag>>().hex());
}

}  // namespace kvkeep::server
