#pragma once

// The output of a parser, piece by piece.

#include <cstddef>
#include <string>

namespace kvkeep::chat::tools {

// Calls come one after the other: kCallBegin, kCallArguments..., kCallEnd, with nothing of another kind between. The
// arguments of one call together are one JSON object if the call is whole, and a strict prefix of one, which does not
// parse, if the reply cut it off: no client can take half a call for a whole one.
enum class DeltaKind { kText, kReasoning, kCallBegin, kCallArguments, kCallEnd };

struct ReplyDelta {
  DeltaKind kind = DeltaKind::kText;
  std::string text = {};       // kText, kReasoning, kCallArguments
  std::size_t call_index = 0;  // of the reply's calls, from 0; the three call kinds
  std::string call_id = {};    // kCallBegin
  std::string call_name = {};  // kCallBegin
  bool is_whole = false;       // kCallEnd
  bool operator==(const ReplyDelta&) const = default;
};

}  // namespace kvkeep::chat::tools
