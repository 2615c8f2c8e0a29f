#pragma once

// Reads replies in which tags stand around thoughts and calls: every format but harmony.

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "chat/tools/call_preview.h"
#include "chat/tools/json_text.h"
#include "chat/tools/literal_calls.h"
#include "chat/tools/reply_parser.h"

namespace kvkeep::chat::tools {

class TaggedReply : public ReplyReader {
 public:
  // All references outlive it.
  TaggedReply(const ReplyFormat& format, const ToolSet& tools, const ReplyOptions& options, ReplySink& sink);
  void feed(std::string_view text, bool is_marker) override;
  void finish(bool cut_off) override;

 private:
  enum class Mode { kBegin, kThinking, kText, kSection, kCall };
  // kWait: the text so far decides nothing.
  enum class Step { kWait, kOn };

  Step step();
  Step read_begin();
  Step read_thinking();
  Step read_text();
  Step read_section();
  Step read_call();
  Step scan_to_tag();
  Step scan_to_json_end();
  Step find_json();

  // Drops white space at the front, which stands after a tag.
  bool drop_space(bool beside_thinking);
  // Everything before `end` is certain, except white space before it.
  void emit_before(std::size_t end, bool is_thinking);
  Match match_opening(std::size_t at) const;
  void enter_text(bool behind_thinking);
  void open_call(std::size_t at);
  void begin_body(std::size_t body);
  void pass_value_tag(std::size_t begin, std::size_t after);
  void end_call(std::size_t body_end, std::size_t block_end, bool cut_off = false);
  // The first `count` bytes are no call, or a call that was cut off.
  void break_call(std::size_t count, bool cut_off);
  void leave_call();
  // Shows the body up to `end` to the preview, and passes on its output.
  void preview(std::size_t end);
  // The first `count` bytes, and the white space before them, are no call but text.
  void give_up(std::size_t count);
  void drop(std::size_t count);
  bool is_space(char byte) const;
  bool is_bare() const;

  const ReplyFormat& format_;
  const FormatRow& row_;
  const ToolSet& tools_;
  const bool wants_calls_;
  ReplySink& sink_;

  MarkedText text_;
  std::size_t scanned_ = 0;  // of text_, in the present mode; in text and thoughts only white space is kept before it
  Mode mode_ = Mode::kBegin;
  bool skips_space_ = false;      // kThinking, kText: white space is dropped until something else comes
  bool behind_thinking_ = false;  // kText: that white space stands after a thought
  bool has_text_ = false;         // something visible was written

  // An unfinished call or section; its bytes stay in text_ until its end is known.
  std::string space_before_;
  std::size_t body_ = 0;  // kCall: where the body begins; kSection: where the next call may
  bool in_section_ = false;
  bool is_plausible_ = false;   // kCall: the body begins as a call's
  std::size_t json_begin_ = 0;  // kCall, ended by JSON: 0 until it was found
  JsonScanner json_;
  PythonQuotes quotes_;
  bool in_value_ = false;
  std::vector<ValueSpan> values_;  // in offsets from text_'s front
  std::unique_ptr<CallPreview> preview_;
  std::size_t previewed_ = 0;  // bytes of text_ that it has seen
  bool call_begun_ = false;    // its name has been passed on
};

}  // namespace kvkeep::chat::tools
