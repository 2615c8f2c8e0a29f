#pragma once

// A request's trace as JSON; docs/trace.md describes every field. Pure; thread safe.

#include "base/vocabulary.h"
#include "server/api/json_body.h"
#include "server/run/lookup.h"
#include "server/run/trace.h"

namespace kvkeep::server {

inline constexpr int kTraceVersion = 1;

// Returns one line of the trace.
api::Json trace_json(const RequestTrace& trace, const Vocabulary& vocabulary);
api::Json trace_json(const AuditReport& report);

// Returns the answer of /cache/lookup. `private_text`: also first_difference's known side, perhaps another client's.
api::Json lookup_json(const Inspection& found, const Vocabulary& vocabulary, bool private_text);

}  // namespace kvkeep::server
