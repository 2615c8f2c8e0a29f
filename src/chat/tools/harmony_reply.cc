#include "chat/tools/harmony_reply.h"

#include <algorithm>
#include <utility>

#include "base/assert.h"

namespace kvkeep::chat::tools {
namespace {

constexpr std::size_t kLongestHeaderBytes = 512;
constexpr std::string_view kChannel = "<|channel|>";
constexpr std::string_view kRecipient = "to=";
constexpr std::string_view kFunctions = "functions.";

// The word after `sign` in a header.
std::string_view word_behind(std::string_view header, std::string_view sign) {
  const std::size_t at = header.find(sign);
  if (at == std::string_view::npos) return {};
  const std::string_view word = header.substr(at + sign.size());
  return word.substr(0, word.find_first_of(" \t\r\n<"));
}

}  // namespace

HarmonyReply::HarmonyReply(const ReplyFormat& format, const ToolSet& tools, const ReplyOptions& options,
                           ReplySink& sink)
    : format_(format), tools_(tools), wants_calls_(options.calls), sink_(sink) {
  if (options.thinking_open) mode_ = Mode::kThought;
}

void HarmonyReply::feed(std::string_view text, bool is_marker) {
  text_.append(text, is_marker);
  while (!text_.empty() && !sink_.ended()) {
    if ((mode_ == Mode::kHeader ? read_header() : read_body()) == Step::kWait) break;
  }
}

void HarmonyReply::finish(bool cut_off) {
  if (mode_ == Mode::kHeader) {
    sink_.text(text_.text());  // a header without a message
  } else {
    close_message(text_.size(), 0, cut_off);
  }
  drop(text_.size());
}

Match HarmonyReply::begins_header() const {
  const std::size_t first = text_.text().find_first_not_of(" \t\r\n");
  if (first == std::string_view::npos) return Match::kOpen;
  const std::string_view rest = text_.text().substr(first);
  if (rest.starts_with(kRecipient)) return Match::kYes;
  const Match addressed = kRecipient.starts_with(rest) ? Match::kOpen : Match::kNo;
  return std::max({addressed, format_.channel.match(text_, first), format_.start.match(text_, first)});
}

HarmonyReply::Step HarmonyReply::read_header() {
  const Match begins = begins_header();
  if (begins == Match::kOpen) return Step::kWait;
  if (begins == Match::kNo) {
    mode_ = Mode::kText;
    return Step::kOn;
  }
  for (; scanned_ < text_.size(); ++scanned_) {
    const Match match = format_.message.match(text_, scanned_);
    if (match == Match::kOpen) return Step::kWait;
    if (match == Match::kYes) {
      open_message(scanned_ + format_.message.size());
      return Step::kOn;
    }
    if (scanned_ < kLongestHeaderBytes) continue;
    mode_ = Mode::kText;  // as everything before: the tag that begins it would begin the same header again
    return Step::kOn;
  }
  return Step::kWait;
}

void HarmonyReply::open_message(std::size_t header_bytes) {
  const std::string_view header = text_.text().substr(0, header_bytes);
  std::string_view recipient = word_behind(header, kRecipient);
  if (!recipient.empty()) {
    mode_ = Mode::kCall;
    header_ = header;
    if (recipient.starts_with(kFunctions)) recipient.remove_prefix(kFunctions.size());
    name_ = recipient;
    preview_ = make_named_preview(name_);
    previewed_ = 0;
  } else if (word_behind(header, kChannel) == "analysis") {
    mode_ = Mode::kThought;
    sink_.thinking_tag(header);
  } else {
    mode_ = Mode::kText;
  }
  drop(header_bytes);
}

HarmonyReply::Step HarmonyReply::read_body() {
  const bool is_call = mode_ == Mode::kCall;
  for (; scanned_ < text_.size(); ++scanned_) {
    if (text_.text()[scanned_] != '<') continue;
    Match best = Match::kNo;
    for (const Tag* tag : {&format_.end, &format_.call, &format_.result, &format_.start, &format_.channel}) {
      const Match match = tag->match(text_, scanned_);
      best = std::max(best, match);
      if (match != Match::kYes) continue;
      // The last two begin the next header.
      const bool is_header = tag == &format_.start || tag == &format_.channel;
      close_message(scanned_, is_header ? 0 : tag->size());
      return Step::kOn;
    }
    if (best == Match::kOpen) break;
  }
  if (is_call) {
    preview(scanned_);
  } else {
    pass_on(scanned_);
  }
  return Step::kWait;
}

void HarmonyReply::pass_on(std::size_t count) {
  const std::string_view text = text_.text().substr(0, count);
  if (mode_ == Mode::kThought) {
    sink_.reasoning(text);
  } else {
    sink_.text(text);
  }
  drop(count);
}

void HarmonyReply::preview(std::size_t end) {
  preview_->text(text_.text().substr(previewed_, end - previewed_));
  previewed_ = end;
  if (!wants_calls_ || !preview_->call() || !tools_.may_be_called(name_)) return;
  if (!std::exchange(call_begun_, true)) sink_.begin_call(*preview_->call());
  sink_.call_arguments(preview_->take());
}

void HarmonyReply::close_message(std::size_t body_bytes, std::size_t tag_bytes, bool cut_off) {
  if (mode_ == Mode::kCall) {
    close_call(body_bytes, cut_off);
  } else {
    pass_on(body_bytes);
  }
  if (mode_ == Mode::kThought) sink_.thinking_tag(text_.text().substr(0, tag_bytes));
  drop(tag_bytes);
  mode_ = Mode::kHeader;
}

void HarmonyReply::close_call(std::size_t body_bytes, bool cut_off) {
  preview(body_bytes);
  const bool was_begun = std::exchange(call_begun_, false);
  const bool may_call = wants_calls_ && tools_.may_be_called(name_);
  auto call = may_call ? named_call(name_, text_.text().substr(0, body_bytes)) : std::nullopt;
  if (call && was_begun) {
    const auto rest = preview_->rest_of(*call);
    KVKEEP_ASSERT(rest.has_value(), "name and arguments are the previewed ones");
    sink_.end_call(*rest, true);
  } else if (call) {
    sink_.calls({&*call, 1});
  } else {
    if (was_begun) sink_.end_call({}, false);
    if (!was_begun || !cut_off) {
      sink_.text(header_);
      return pass_on(body_bytes);
    }
  }
  drop(body_bytes);
}

void HarmonyReply::drop(std::size_t count) {
  text_.drop(count);
  scanned_ = 0;
}

}  // namespace kvkeep::chat::tools
