#pragma once

// The canonical form of a request's conversation: the parts that a perfect cache may take as "the same". The ideal of a
// replay is counted from it and never from the server's own prompts, so that a prompt that changes without reason
// counts against the server. Removed: cache_control, billing header lines ("x-anthropic-billing-header:" leading a
// system block), key order of JSON, the difference between a string and one text block and between empty and no
// content, signatures of reasoning, and ids of tool calls (the number of the call replaces its id).
//
// Each section begins with a line that begins with '%'; lines of content that begin with '%' get another one, so that
// no content can look like a section:
//
//   %tool           one per tool: its JSON, keys sorted
//   %message user   then its sections: %text, %reasoning, %call 1 NAME (arguments), %result 1, %part (any other block
//   as
//                   JSON), %field NAME (any other field of the message)
//   %end            closes a tool and a message
//
// Tools come first, then Anthropic's and Responses' system text as a message, then the messages in order; or the system
// text and leading system messages come before the tools. Templates differ in this, and it decides how much two
// clients' prompts share. The prompt of a completion is itself, without sections.

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "bench/sessions/dialect.h"

namespace kvkeep::bench {

enum class CanonicalOrder : std::uint8_t { kToolsFirst, kSystemFirst };

// The default is what a perfect cache may take as the same. For those who look for what clients change, more counts.
struct CanonicalForm {
  bool as_sent = false;       // JSON: the order of its keys, and blanks and numbers of arguments that are strings
  bool billing_line = false;  // it stays
};

// Returns one text per request; a conversation that continues has the earlier text as its prefix. Never fails: unknown
// parts are printed as JSON with sorted keys. Empty for Dialect::kOther and for a body that is no object.
std::string canonical_text(Dialect dialect, const nlohmann::ordered_json& body,
                           CanonicalOrder order = CanonicalOrder::kToolsFirst, CanonicalForm form = {});

// Cuts the text at every line that names or ends a section, in order: the shared part of two conversations begins and
// ends with whole pieces, whatever a tokenizer would join across their ends.
std::vector<std::string_view> canonical_pieces(std::string_view text);

// Returns how the reply's turn begins after a request's canonical text. Empty for kOpenAiCompletion and kOther.
std::string_view canonical_reply_begin(Dialect dialect);

// Returns the request with the assistant's turn `message` (ReplyFacts::message) after its last one: the beginning of
// the conversation's next request. Returns the body unchanged if there is no message, or no place for one.
nlohmann::ordered_json with_reply(Dialect dialect, const nlohmann::ordered_json& body,
                                  const nlohmann::ordered_json& message);

}  // namespace kvkeep::bench
