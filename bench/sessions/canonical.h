#pragma once

// The canonical form of a request's conversation: what a perfect cache may take as "the same". The ideal of a replay is
// counted over it and never over the server's own prompts, so that a prompt that changes without reason counts against
// the server. Removed: cache_control, billing header lines ("x-anthropic-billing-header:" leading a system block), key
// order of JSON, the difference between a string and one text block and between empty and no content, signatures of
// reasoning, and what ids of tool calls are (the number of the call stands for its id).
//
// One section per line that begins with '%'; lines of content that begin with '%' get another one, so that no content
// can pass for a section:
//
//   %tool           one per tool: its JSON, keys sorted
//   %message user   then its sections: %text, %reasoning, %call 1 NAME (arguments), %result 1, %part (any other block
//   as
//                   JSON), %field NAME (any other field of the message)
//   %end            closes a tool and a message
//
// Tools come first, then Anthropic's and Responses' system text as a message, then the messages in order; or the system
// text and leading system messages come before the tools. Templates do it either way, and it decides how much two
// clients' prompts share. The prompt of a completion is itself, without sections.

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "bench/sessions/dialect.h"

namespace kvkeep::bench {

enum class CanonicalOrder : std::uint8_t { kToolsFirst, kSystemFirst };

// One text per request, such that a conversation that goes on has the earlier one as its prefix. Never fails: what is
// unknown is printed as JSON with sorted keys. Empty for Dialect::kOther and for a body that is no object.
std::string canonical_text(Dialect dialect, const nlohmann::ordered_json& body,
                           CanonicalOrder order = CanonicalOrder::kToolsFirst);

// The text cut at every line that names or ends a section, in order: what two conversations share begins and ends with
// whole pieces, whatever a tokenizer would join across their ends.
std::vector<std::string_view> canonical_pieces(std::string_view text);

// How the reply's turn begins behind a request's canonical text. Empty for Dialect::kOpenAiCompletion and kOther.
std::string_view canonical_reply_begin(Dialect dialect);

// The request with the assistant's turn `message` (ReplyFacts::message) behind its last one: what the next request of
// the conversation sends first. The body itself if there is no message, or nowhere to put one.
nlohmann::ordered_json with_reply(Dialect dialect, const nlohmann::ordered_json& body,
                                  const nlohmann::ordered_json& message);

}  // namespace kvkeep::bench
