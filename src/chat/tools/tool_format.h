#pragma once

// The formats in which models write calls and thinking, which of them a chat template uses, and text with the tags of a
// format in it.
//
// A format is a row of spellings; docs/tools.md shows each. It is bound to a model's markers once, when the model is
// loaded. Formats are immutable and thread safe.

#include <cstddef>
#include <deque>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "chat/marker_set.h"
#include "chat/render.h"

namespace kvkeep::chat::tools {

// Text of which some runs are marker tokens, read from the front; a Tag is looked for in it.
//
// If the vocabulary has a tag's spelling, or a part of it, as a marker, only that token is the tag: text that spells it
// stays text, so that a model that repeats a message cannot open a call. Otherwise text is the tag.
//
// Markers arrive whole. Not thread safe.
class MarkedText {
 public:
  void append(std::string_view text, bool is_marker);
  // The text that was not dropped yet. Positions count from its first byte.
  std::string_view text() const { return std::string_view(bytes_).substr(front_); }
  std::size_t size() const { return bytes_.size() - front_; }
  bool empty() const { return size() == 0; }
  // Exactly these bytes are a marker.
  bool is_marker(std::size_t begin, std::size_t end) const;
  // Cost: constant per byte, over the life of the object.
  void drop(std::size_t count);

 private:
  std::string bytes_;
  std::size_t front_ = 0;                                    // of bytes_: those before it are dropped
  std::size_t dropped_ = 0;                                  // bytes that are no longer in bytes_
  std::deque<std::pair<std::size_t, std::size_t>> markers_;  // ascending, in bytes since the beginning
};

enum class Match { kNo, kOpen, kYes };  // kOpen: so far yes, but the text ends within the tag

struct TagMarker {
  std::size_t begin = 0;
  std::size_t end = 0;
  TokenId id = 0;
};

// Immutable, thread safe.
class Tag {
 public:
  // Never matches.
  Tag() = default;
  Tag(std::string_view spelling, const MarkerSet& markers);

  Match match(const MarkedText& text, std::size_t at) const;
  bool starts_with(char first) const { return !spelling_.empty() && spelling_.front() == first; }
  const std::string& spelling() const { return spelling_; }
  std::size_t size() const { return spelling_.size(); }
  bool exists() const { return !spelling_.empty(); }
  // A marker is a part of it, so that only the model itself can write it.
  bool is_unforgeable() const { return !markers_.empty(); }
  // The parts that must be markers.
  const std::vector<TagMarker>& markers() const { return markers_; }

 private:
  std::string spelling_;
  std::vector<TagMarker> markers_;
};

enum class FormatKind {
  kNone,       // everything that the model writes is text
  kHermes,     // <tool_call>{"name":...,"arguments":{...}}</tool_call>
  kQwenCoder,  // <tool_call><function=name><parameter=key>value</parameter></function></tool_call>
  kLlama,      // {"name":...,"parameters":{...}}
  kMistral,    // [TOOL_CALLS][{...}] and [TOOL_CALLS]name[ARGS]{...}
  kDeepSeek,   // <｜tool▁call▁begin｜>name<｜tool▁sep｜>{...}<｜tool▁call▁end｜>, V3's with a code block too
  kDsml,       // <｜DSML｜invoke name="..."><｜DSML｜parameter name="..." string="true">value</｜DSML｜parameter>...
  kDsmlV3,     // the same within <｜DSML｜function_calls> instead of <｜DSML｜tool_calls>
  kHarmony,    // <|channel|>commentary to=functions.name<|message|>{...}<|call|>
  kGlm,        // <tool_call>name<arg_key>key</arg_key><arg_value>value</arg_value></tool_call>
  kKimi,       // <|tool_call_begin|>functions.name:0<|tool_call_argument_begin|>{...}<|tool_call_end|>
  kMiniMax,    // <minimax:tool_call><invoke name="..."><parameter name="key">value</parameter></invoke>...
  kLfm2,       // <|tool_call_start|>[name(key="value")]<|tool_call_end|>
  kCommandR,   // Action: ```json [{"tool_name":...,"parameters":{...}}]```
  kCommandA,   // <|START_ACTION|>[{"tool_name":...,"parameters":{...}}]<|END_ACTION|>
  kGemma4,     // <|tool_call>call:name{key:<|"|>value<|"|>}<tool_call|>
};

// "hermes", "qwen3-coder"...: as in --tool-format.
std::string_view to_string(FormatKind kind);
std::optional<FormatKind> format_named(std::string_view name);
// All of them, in the order of the enumeration.
std::vector<std::string> format_names();

enum class CallEnd {
  kTag,   // call_close
  kJson,  // where the JSON value ends
};

enum class CallBody { kJson, kNamedJson, kParameters, kKeyValues, kPython, kGemma };

// Spellings; "" where a format has no such tag.
struct FormatRow {
  FormatKind kind = FormatKind::kNone;
  std::string_view name = {};
  std::string_view section_open = {};  // around all calls
  std::string_view section_close = {};
  std::string_view call_open = {};
  std::string_view call_close = {};
  CallEnd end = CallEnd::kTag;
  CallBody body = CallBody::kJson;
  std::string_view separator = {};  // kNamedJson: between name and JSON
  // kParameters, kKeyValues: before a value, within which no other tag counts; kGemma: before a string.
  std::string_view value_open = {};
  std::string_view value_close = {};  // and after it
  std::string_view text_open = {};    // around the answer's text
  std::string_view text_close = {};
};

const FormatRow& row_of(FormatKind kind);

// The format whose tags the template has.
FormatKind detect_format(std::string_view template_source);

// How a template shows thinking: "" and "" if it shows none.
struct ThinkingTags {
  std::string_view open;
  std::string_view close;
};
ThinkingTags detect_thinking(std::string_view template_source);

// A model's way of writing, bound to its markers.
struct ReplyFormat {
  FormatKind kind = FormatKind::kNone;
  Tag section_open, section_close, call_open, call_close, separator, value_open, value_close;
  Tag thinking_open, thinking_close;
  Tag text_open, text_close;
  Tag call_id;              // Mistral: before an id between name and arguments
  Tag key_open, key_close;  // GLM
  // Harmony's.
  Tag start, channel, message, constrain, end, call, result;

  const FormatRow& row() const { return row_of(kind); }
  // A tag around an answer's text, if one stands there; its size.
  Match match_text_tag(const MarkedText& text, std::size_t at, std::size_t& size) const;
  std::vector<const Tag*> tags() const {
    return {&section_open,  &section_close,  &call_open, &call_close, &separator, &value_open, &value_close,
            &thinking_open, &thinking_close, &call_id,   &key_open,   &key_close, &start,      &channel,
            &message,       &constrain,      &end,       &call,       &result,    &text_open,  &text_close};
  }
};

ReplyFormat bind_format(FormatKind kind, ThinkingTags thinking, const MarkerSet& markers);

// Returns true if the prompt ends within a thought that the template has opened for the model.
bool thinking_is_open(const ReplyFormat& format, const RenderedPrompt& prompt);

}  // namespace kvkeep::chat::tools
