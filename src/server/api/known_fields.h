#pragma once

// The fields that a request may have, so that a misspelt one does not go unnoticed: 'max_token' limits nothing.
//
// A field is known if it is obeyed or refused, or if clients send it for good reasons and it changes nothing
// here; docs/requests.md, docs/anthropic.md and docs/responses.md name the last kind. Every other field is unknown: the
// reply names it in a header, and so do the log and the trace. Below the top level, fields of messages, of their parts
// and calls, and of tools are checked, for the kinds that are read: known are the fields that the APIs define (as their
// libraries of November 2026 do), that templates read and that clients send.

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "server/api/json_body.h"

namespace kvkeep::server::api {

enum class Dialect {
  kChat,
  kCompletions,
  kInfill,
  kResponses,
  kMessages,
  kTokenize,
  kDetokenize,
  kApplyTemplate,
  kLookup,
  kEmbeddings,
  kRerank
};

inline constexpr std::size_t kMostUnknownFields = 16;
inline constexpr std::size_t kMostFieldNameBytes = 64;

// Returns the fields of `body` that `dialect` does not know, the top level's first, at most kMostUnknownFields; their
// names are printable and cut to kMostFieldNameBytes. A field below the top level is named by its first place:
// "messages[3].contnet". A field that is null counts as absent. kInvalid if `strict` and there is one: the error names
// it and the nearest known field. Precondition: body.is_object().
Result<std::vector<std::string>> unknown_fields(const Json& body, Dialect dialect, bool strict);

// Returns " (did you mean 'max_tokens'?)", or "" if no known field is near. `name`: as unknown_fields() returns it.
std::string meant_field(Dialect dialect, std::string_view name);

// All fields of a dialect, sorted.
std::vector<std::string> known_fields(Dialect dialect);
// Returns the known fields that nothing reads: ignored on purpose. Without those of other dialects.
std::vector<std::string_view> ignored_fields(Dialect dialect);

}  // namespace kvkeep::server::api
