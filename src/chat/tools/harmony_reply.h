#pragma once

// Reads harmony, the format of gpt-oss: a reply is a run of messages, each with a header that names its channel and,
// for calls, its recipient:
//   <|channel|>analysis<|message|>thought<|end|><|start|>assistant<|channel|>commentary to=functions.f
//   <|constrain|>json<|message|>{...}<|call|>
// `analysis` is thinking, every other message without a recipient is text, every message to a recipient is a call.

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>

#include "chat/tools/call_preview.h"
#include "chat/tools/reply_parser.h"

namespace kvkeep::chat::tools {

class HarmonyReply : public ReplyReader {
 public:
  // All references outlive it.
  HarmonyReply(const ReplyFormat& format, const ToolSet& tools, const ReplyOptions& options, ReplySink& sink);
  void feed(std::string_view text, bool is_marker) override;
  void finish(bool cut_off) override;

 private:
  enum class Mode { kHeader, kThought, kText, kCall };
  enum class Step { kWait, kOn };

  Step read_header();
  Step read_body();
  // Returns false if the text cannot be a header: models that were trained otherwise write none.
  Match begins_header() const;
  void open_message(std::size_t header_bytes);
  void pass_on(std::size_t count);
  void close_message(std::size_t body_bytes, std::size_t tag_bytes, bool cut_off = false);
  void close_call(std::size_t body_bytes, bool cut_off);
  void preview(std::size_t end);
  void drop(std::size_t count);

  const ReplyFormat& format_;
  const ToolSet& tools_;
  const bool wants_calls_;
  ReplySink& sink_;

  MarkedText text_;
  std::size_t scanned_ = 0;
  Mode mode_ = Mode::kHeader;
  std::string header_;                    // kCall: as it was written
  std::string name_;                      // kCall: the tool's
  std::unique_ptr<CallPreview> preview_;  // kCall
  std::size_t previewed_ = 0;             // bytes of text_ that it has seen
  bool call_begun_ = false;               // its name has been passed on
};

}  // namespace kvkeep::chat::tools
