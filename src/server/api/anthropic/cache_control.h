#pragma once

// The marks by which clients say which part of their prompt is worth keeping. This server keeps every prompt anyway, so
// marks change neither the prompt nor the kept state. Their rules are the API's, so that a client that breaks one
// learns it here, too.

#include "base/result.h"
#include "server/api/json_body.h"

namespace kvkeep::server::api {

// The lifetime that the last mark of a request asks for; kNone if there is no mark.
enum class CacheLifetime { kNone, kFiveMinutes, kOneHour };

// Reads tools, system and messages, in this order, and the top level last. kInvalid if there are more than four marks,
// one on reasoning or empty text, or one of an hour after one of five minutes. Values of other shapes than the API's
// are ignored here: the readers of their fields report them.
Result<CacheLifetime> read_cache_control(const Json& body);

}  // namespace kvkeep::server::api
