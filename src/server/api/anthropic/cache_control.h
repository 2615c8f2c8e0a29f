#pragma once

// The marks by which clients say where their prompt is worth keeping. This server keeps every prompt anyway, so they
// change neither the prompt nor what is kept; but their rules are the API's, and a client that breaks one learns it
// here rather than there.

#include "base/result.h"
#include "server/api/json_body.h"

namespace kvkeep::server::api {

// What the last mark of a request asks for; kNone: there is no mark.
enum class CacheLifetime { kNone, kFiveMinutes, kOneHour };

// Looks at tools, system and messages, in this order, and at the top level last. At most four marks, none on reasoning
// or empty text, and none of an hour after one of five minutes. kInvalid otherwise. Values of other shapes than the
// API's are passed over: whoever reads them says so.
Result<CacheLifetime> read_cache_control(const Json& body);

}  // namespace kvkeep::server::api
