#pragma once

// The sender of a request: its tenant and client, the facts about it that the trace gets, and what its reply says about
// fields that no dialect knows.

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "server/api/request.h"
#include "server/http/http_message.h"
#include "server/routes/routes.h"
#include "server/run/trace.h"

namespace kvkeep::server {

// The tenant of the request's `cache_salt` ("": none), with Service::tenant_by_key of the key that it came with, and of
// its adapters' scales (as Job::adapters).
Tenant tenant_of(const Service& service, const HttpRequest& http, std::string_view cache_salt,
                 const engine::AdapterScales& adapters = {});

// The salt of a GET: its header X-Cache-Salt, which proxies seldom log, or else its parameter `cache_salt`, as sent.
std::string_view salt_of_query(const HttpRequest& http);

// Refuses a query with a parameter that is none of these: a misspelt one would be ignored. The error names it and the
// nearest known one. For paths of kvkeep's own; clients send llama-server's paths whatever they like.
Status check_parameters(const HttpRequest& http, const std::vector<std::string>& known);

// The client: the program, by the name before the version in its User-Agent, and the tenant. Prompts of one client are
// alike. The numbers are only compared.
std::uint64_t client_of(const HttpRequest& http, const Tenant& tenant);

// The API key that the request came with. Returns 0 if the operator gave no keys: then a client may send any. The
// numbers are only compared.
std::uint64_t key_of(const Service& service, const HttpRequest& http);

// The conversation, agent or user that asks, by what the client says: the session of its headers (that of the parent if
// a sub-agent asks), else `prompt_cache_key`, else `user` or Anthropic's `metadata.user_id`. Equal names of two tenants
// are two sessions. If the client says nothing, its program at its sender is the session, whatever the tenant: else a
// program that names no session would have as many turns as requests. The numbers are only compared.
std::uint64_t session_of(const Service& service, const HttpRequest& http, const api::GenerationRequest& request,
                         const Tenant& tenant);

// The API key that the request came with, or, if the server has no keys, its address: the client cannot choose it. Only
// compared.
std::uint64_t sender_of(const Service& service, const HttpRequest& http);

// Whose text a prompt is, for explanations: the API key's, or, if the server has no keys, the address's; within the
// tenant. Only compared.
std::uint64_t owner_of(const Service& service, const HttpRequest& http, const Tenant& tenant);
// The session that the client's headers name, whatever its tenant, within its API key; 0 if they name none. Names that
// others could guess (`user`) do not count.
std::uint64_t named_session_of(const HttpRequest& http);
// The conversation that the client's headers name: the session, of a sub-agent its own. Only compared, among prompts of
// one owner; 0 if they name none.
std::uint64_t conversation_of(const HttpRequest& http);
// The name of the client's program, the User-Agent up to its version, in printable letters; "" if there is none.
std::string program_of(const HttpRequest& http);

// The facts about a request's sender that the trace gets, and those parts of its body. Only headers that name a
// session or an API version are kept, so that no key gets into a file.
std::shared_ptr<const RequestOrigin> origin_of(const HttpRequest& http, const api::GenerationRequest& request,
                                               const TracedParts& parts);

// Reports fields of a request that no dialect knows in the log, once per client, and for a header of the reply.
// Returns the header that names the fields, or no header if there are none. `unknown`: of api::unknown_fields(). A
// client is its address and its User-Agent; each of its fields is logged once, while service.unknown_fields has room.
HeaderList tell_of_unknown_fields(const Service& service, const HttpRequest& http, api::Dialect dialect,
                                  const std::vector<std::string>& unknown);

}  // namespace kvkeep::server
