#pragma once

// Grammars for calls: what a reply must look like that has to be a call, or that has to keep to the tools' schemas once
// it calls. Tags that are markers are written as these tokens, so that what the grammar lets through is what the parser
// reads as a call.
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
  bool parallel = true;   // several calls
  bool at_once = true;    // the reply is calls, a thought before them aside; false: the grammar begins with a call
  bool may_think = true;  // at_once: a thought may come first, in the format's tags
  // The vocabulary has tokens for the letters U+0001 to U+000n alone, so that each may stand for a marker. 0: markers
  // are asked for by their ids, and those may also pass for text in an argument.
  std::size_t tag_letters = 0;
};

// Control characters that no text under a grammar of calls has.
inline constexpr std::size_t kMostTagLetters = 8;

struct CallTrigger {
  std::string text;
  bool only_first = false;  // only if nothing but white space stands before it
};

struct CallGrammar {
  std::string text;                   // GBNF
  std::vector<CallTrigger> triggers;  // not at_once: what begins a call
  std::vector<TokenId> tags;          // the marker that U+0001 stands for, then U+0002's...; empty: they stand as ids
};

// kInvalid: a schema that cannot be enforced, by name; a tool that is not there; a format without calls.
Result<CallGrammar> make_call_grammar(const ReplyFormat& format, const ToolSet& tools, const CallRules& rules);

}  // namespace kvkeep::chat::tools
