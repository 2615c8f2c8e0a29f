#pragma once

// Grammars for a reply that must be a call, or that must keep to the tools' schemas once it calls. Tags that are
// markers are written as these tokens, so that the parser reads every text that the grammar allows as a call.
//
// Pure, thread safe.

#include <string>
#include <vector>

#include "base/result.h"
#include "chat/tools/tool_format.h"
#include "chat/tools/tool_set.h"

namespace kvkeep::chat::tools {

struct CallRules {
  std::string only = {};  // the name of the only tool that may be called; "": any
  bool parallel = true;   // several calls are allowed
  bool at_once = true;    // the reply is calls, except a thought before them; false: the grammar begins with a call
  bool may_think = true;  // at_once: a thought may come first, in the format's tags
  // The vocabulary has tokens for only the letters U+0001 to U+000n, so that each may stand for a marker. 0: the
  // grammar asks for markers by their ids, and those may also pass for text in an argument.
  std::size_t tag_letters = 0;
};

// Control characters that no text under a grammar of calls has.
inline constexpr std::size_t kMostTagLetters = 8;

struct CallTrigger {
  std::string text;
  bool only_first = false;  // only if at most white space stands before it
};

struct CallGrammar {
  std::string text;                   // GBNF
  std::vector<CallTrigger> triggers;  // not at_once: texts that begin a call
  std::vector<TokenId> tags;          // the marker for U+0001, for U+0002...; empty: markers stand as ids
};

// kInvalid: a schema that cannot be enforced, by name; a tool that is not there; a format without calls.
Result<CallGrammar> make_call_grammar(const ReplyFormat& format, const ToolSet& tools, const CallRules& rules);

}  // namespace kvkeep::chat::tools
