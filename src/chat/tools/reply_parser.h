#pragma once

// Takes a model's reply apart while it is written: thinking, text, calls.
//
// - A call is given back while it is written: its name once that is certain and its arguments have begun, arguments as
//   they come, their last brace when the call was seen to be complete and well formed. Everything that is not a call is
//   text, as the model wrote it: the parser never fails and drops nothing but tags, and white space next to them.
// - A call that was begun and turns out malformed ends as it is, not whole, and is text, too, as the model wrote it.
//   One that the reply's length cut off ends as it is.
// - Tags that the vocabulary has as markers are only these tokens (tool_format.h).
// - A call within a thought ends it only if its tag is unforgeable; otherwise it is a part of the thought.
// - The result depends only on the pieces' text, not on where it was cut. Time is linear; memory is bounded by what is
//   held back: an unfinished call or tag, and white space that may turn out to stand before one.
//
// Not thread safe: one object per reply.

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <unordered_set>
#include <utility>
#include <vector>

#include "chat/tools/call_body.h"
#include "chat/tools/tool_format.h"
#include "chat/tools/tool_set.h"

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

// The field for thoughts; the names are llama-server's.
enum class ReasoningFormat {
  kNone,            // they stay in the text, tags and all
  kDeepSeek,        // only reasoning
  kDeepSeekLegacy,  // both
};

struct ReplyOptions {
  bool calls = false;          // look for calls; false: they are text
  bool parallel = true;        // false: the reply ends with its first call
  bool thinking_open = false;  // the prompt ends within a thought (thinking_is_open)
  ReasoningFormat reasoning = ReasoningFormat::kDeepSeek;
  std::string id_seed = {};  // ids of calls are made from it: one per reply
};

// Receives what parsers find, gives calls their ids, and keeps the order of deltas.
class ReplySink {
 public:
  ReplySink(FormatKind format, const ReplyOptions& options) : format_(format), options_(options) {}

  void text(std::string_view text);
  void reasoning(std::string_view text);
  // A tag around thoughts: passed on only if thoughts stay in the text.
  void thinking_tag(std::string_view spelling);
  void calls(std::span<ParsedCall> calls);
  // A call as it comes: begin_call, call_arguments..., end_call. `rest`: of the arguments.
  void begin_call(const ParsedCall& call);
  void call_arguments(std::string_view text);
  void end_call(std::string_view rest, bool is_whole);

  bool ended() const { return ended_; }
  std::size_t call_count() const { return call_count_; }
  std::size_t whole_calls() const { return whole_calls_; }
  std::vector<ReplyDelta> take() { return std::exchange(deltas_, {}); }

 private:
  void append(DeltaKind kind, std::string_view text);
  std::string id_for(const ParsedCall& call);

  const FormatKind format_;
  const ReplyOptions options_;
  std::vector<ReplyDelta> deltas_;
  std::unordered_set<std::string> ids_;
  std::size_t call_count_ = 0;
  std::size_t whole_calls_ = 0;
  bool ended_ = false;
};

// A kind of parser; see tagged_reply.h and harmony_reply.h.
class ReplyReader {
 public:
  virtual ~ReplyReader() = default;
  virtual void feed(std::string_view text, bool is_marker) = 0;
  virtual void finish(bool cut_off) = 0;
};

class ReplyParser {
 public:
  // Both references outlive the parser.
  ReplyParser(const ReplyFormat& format, const ToolSet& tools, ReplyOptions options);

  // A piece of the reply: valid UTF-8. `is_marker`: the piece is a marker token's spelling.
  std::vector<ReplyDelta> feed(std::string_view text, bool is_marker);
  // The reply's end: passes on the text that was held back. `cut_off`: the model would have gone on.
  std::vector<ReplyDelta> finish(bool cut_off = false);

  // The reply is over, although the model may not think so (ReplyOptions::parallel). Further input is dropped.
  bool ended() const { return sink_.ended(); }
  // Calls that were begun, and those of them that are whole.
  std::size_t call_count() const { return sink_.call_count(); }
  std::size_t whole_calls() const { return sink_.whole_calls(); }

 private:
  ReplySink sink_;
  std::unique_ptr<ReplyReader> reader_;
};

}  // namespace kvkeep::chat::tools
