#include "chat/tools/tagged_reply.h"

#include <algorithm>
#include <utility>

namespace kvkeep::chat::tools {
namespace {

// By then may_be_call_body() has seen all it looks at.
constexpr std::size_t kTellingBytes = 64;
// Between an opening and its JSON: a name, an id and tags.
constexpr std::size_t kLongestTagBytes = 512;

}  // namespace

TaggedReply::TaggedReply(const ReplyFormat& format, const ToolSet& tools, const ReplyOptions& options, ReplySink& sink)
    : format_(format),
      row_(format.row()),
      tools_(tools),
      wants_calls_(options.calls && format.kind != FormatKind::kNone),
      sink_(sink) {
  if (!options.thinking_open) return;
  mode_ = Mode::kThinking;
  skips_space_ = true;
  if (options.reasoning == ReasoningFormat::kDeepSeekLegacy) sink_.thinking_tag(format.thinking_open.spelling());
}

void TaggedReply::feed(std::string_view text, bool is_marker) {
  text_.append(text, is_marker);
  while (!text_.empty() && !sink_.ended() && step() == Step::kOn) {}
}

void TaggedReply::finish(bool cut_off) {
  const std::string_view rest = text_.text();
  switch (mode_) {
    case Mode::kBegin:
    case Mode::kText: sink_.text(rest); break;
    case Mode::kThinking:
      emit_before(rest.size(), true);
      sink_.thinking_tag(text_.text());
      break;
    case Mode::kSection:
      if (body_ > 0 || !trimmed(rest).empty()) give_up(rest.size());
      break;
    case Mode::kCall:
      if (row_.end == CallEnd::kTag && !in_value_ && is_whole_without_tag(format_.kind, rest.substr(body_))) {
        end_call(rest.size(), rest.size(), cut_off);
      } else {
        break_call(rest.size(), cut_off);
      }
      break;
  }
}

TaggedReply::Step TaggedReply::step() {
  switch (mode_) {
    case Mode::kBegin: return read_begin();
    case Mode::kThinking: return read_thinking();
    case Mode::kText: return read_text();
    case Mode::kSection: return read_section();
    case Mode::kCall: return read_call();
  }
  return Step::kWait;
}

// A thought stands only at the beginning: later, its tag is text that the model writes about.
TaggedReply::Step TaggedReply::read_begin() {
  const Tag& open = format_.thinking_open;
  const std::size_t first = text_.text().find_first_not_of(" \t\r\n");
  if (open.exists() && first == std::string_view::npos) return Step::kWait;
  const Match match = open.exists() ? open.match(text_, first) : Match::kNo;
  if (match == Match::kOpen) return Step::kWait;
  mode_ = match == Match::kYes ? Mode::kThinking : Mode::kText;
  if (match == Match::kNo) return Step::kOn;
  sink_.thinking_tag(text_.text().substr(0, first + open.size()));
  drop(first + open.size());
  skips_space_ = true;
  return Step::kOn;
}

TaggedReply::Step TaggedReply::read_thinking() {
  if (skips_space_ && !drop_space(true)) return Step::kWait;
  const Tag& close = format_.thinking_close;
  std::size_t at = scanned_;
  for (; at < text_.size(); ++at) {
    const Match closing = close.starts_with(text_.text()[at]) ? close.match(text_, at) : Match::kNo;
    const Match opening = closing == Match::kNo ? match_opening(at) : Match::kNo;
    if (closing == Match::kOpen || opening == Match::kOpen) break;
    if (closing == Match::kNo && opening == Match::kNo) continue;
    emit_before(at, true);
    const std::size_t tag_end = text_.text().find_first_not_of(" \t\r\n") + (closing == Match::kYes ? close.size() : 0);
    sink_.thinking_tag(text_.text().substr(0, tag_end));
    drop(tag_end);
    enter_text(true);
    return Step::kOn;
  }
  emit_before(at, true);
  return Step::kWait;
}

TaggedReply::Step TaggedReply::read_text() {
  if (skips_space_ && !drop_space(behind_thinking_)) return Step::kWait;
  if (!wants_calls_ && !format_.text_open.exists()) {
    sink_.text(text_.text());
    drop(text_.size());
    return Step::kWait;
  }
  std::size_t at = scanned_;
  for (; at < text_.size(); ++at) {
    std::size_t tag_size = 0;
    const Match around = format_.match_text_tag(text_, at, tag_size);
    if (around == Match::kYes) {
      emit_before(at, false);
      drop(text_.text().find_first_not_of(" \t\r\n") + tag_size);
      enter_text(false);
      return Step::kOn;
    }
    const Match match = around == Match::kOpen ? around : match_opening(at);
    if (match == Match::kOpen) break;
    if (match == Match::kNo) {
      has_text_ |= !is_white(text_.text()[at]);
      continue;
    }
    emit_before(at, false);
    open_call(text_.text().find_first_not_of(" \t\r\n"));
    return Step::kOn;
  }
  emit_before(at, false);
  return Step::kWait;
}

TaggedReply::Step TaggedReply::read_section() {
  const std::string_view text = text_.text();
  std::size_t at = body_;
  while (at < text.size() && is_white(text[at])) ++at;
  if (at == text.size()) return Step::kWait;
  const Match call = format_.call_open.match(text_, at);
  const Match close = format_.section_close.match(text_, at);
  if (call == Match::kYes) {
    begin_body(at + format_.call_open.size());
  } else if (close == Match::kYes && body_ == 0) {
    drop(at + format_.section_close.size());
    enter_text(false);
  } else if (call == Match::kOpen || close == Match::kOpen) {
    return Step::kWait;
  } else if (body_ == 0) {
    enter_text(false);
  } else {
    give_up(at);
    mode_ = Mode::kText;
  }
  return Step::kOn;
}

TaggedReply::Step TaggedReply::read_call() {
  if (!is_plausible_) {
    const std::string_view body = text_.text().substr(body_);
    if (!may_be_call_body(format_.kind, body)) {
      give_up(body_);
      mode_ = Mode::kText;
      return Step::kOn;
    }
    is_plausible_ = body.size() >= kTellingBytes;
  }
  return row_.end == CallEnd::kTag ? scan_to_tag() : scan_to_json_end();
}

// The closing tag counts only outside of strings and values: models write about tags, too.
TaggedReply::Step TaggedReply::scan_to_tag() {
  const bool has_values = format_.value_open.exists();
  while (scanned_ < text_.size()) {
    const std::size_t at = scanned_;
    const Tag& value_tag = in_value_ ? format_.value_close : format_.value_open;
    const Match value = has_values ? value_tag.match(text_, at) : Match::kNo;
    const bool may_close = !in_value_ && !json_.in_string() && !quotes_.in_string();
    const Match close = may_close ? format_.call_close.match(text_, at) : Match::kNo;
    if (close == Match::kYes) {
      end_call(at, at + format_.call_close.size());
      return Step::kOn;
    }
    if (value == Match::kOpen || close == Match::kOpen) break;
    if (value == Match::kYes) {
      pass_value_tag(at, at + value_tag.size());
      continue;
    }
    if (row_.body == CallBody::kPython) {
      quotes_.feed(text_.text()[at]);
    } else if (!has_values) {
      json_.feed(text_.text()[at]);
    }
    ++scanned_;
  }
  preview(scanned_);
  return Step::kWait;
}

void TaggedReply::pass_value_tag(std::size_t begin, std::size_t after) {
  preview(begin);
  if (in_value_) {
    values_.back().end = begin;
    values_.back().after = after;
    preview_->close_value();
  } else {
    values_.push_back({.open = begin, .begin = after});
    preview_->open_value();
  }
  in_value_ = !in_value_;
  scanned_ = after;
  previewed_ = after;
}

TaggedReply::Step TaggedReply::find_json() {
  for (; scanned_ < text_.size(); ++scanned_) {
    const char byte = text_.text()[scanned_];
    if (scanned_ - body_ > kLongestTagBytes || (format_.kind == FormatKind::kLlama && byte != '{' && !is_white(byte))) {
      give_up(body_);
      mode_ = Mode::kText;
      return Step::kOn;
    }
    if (byte == '{') break;
    if (byte != '[') continue;
    const Match separator = format_.separator.match(text_, scanned_);
    const Match call_id = format_.call_id.match(text_, scanned_);
    if (separator == Match::kYes || call_id == Match::kYes) continue;
    if (separator == Match::kOpen || call_id == Match::kOpen) return Step::kWait;
    break;
  }
  if (scanned_ == text_.size()) return Step::kWait;
  json_begin_ = scanned_ + 1;
  return Step::kOn;
}

TaggedReply::Step TaggedReply::scan_to_json_end() {
  if (json_begin_ == 0) return find_json();
  while (scanned_ < text_.size()) {
    json_.feed(text_.text()[scanned_++]);
    if (json_.depth() > 0 || json_.in_string()) continue;
    end_call(scanned_, scanned_);
    return Step::kOn;
  }
  preview(scanned_);
  return Step::kWait;
}

void TaggedReply::preview(std::size_t end) {
  const std::string_view bytes = text_.text().substr(previewed_, end - previewed_);
  previewed_ = end;
  if (in_value_) {
    preview_->value(bytes);
  } else {
    preview_->text(bytes);
  }
  if (!preview_->call() || !tools_.may_be_called(preview_->call()->name)) return;
  if (!std::exchange(call_begun_, true)) {
    space_before_.clear();
    sink_.begin_call(*preview_->call());
  }
  sink_.call_arguments(preview_->take());
}

bool TaggedReply::drop_space(bool beside_thinking) {
  const std::string_view text = text_.text();
  std::size_t count = 0;
  while (count < text.size() && (is_white(text[count]) || (!beside_thinking && is_space(text[count])))) ++count;
  if (beside_thinking) sink_.thinking_tag(text.substr(0, count));
  drop(count);
  skips_space_ = text_.empty();
  return !skips_space_;
}

void TaggedReply::emit_before(std::size_t end, bool is_thinking) {
  const std::string_view fresh = text_.text().substr(scanned_, end - scanned_);
  scanned_ = end;
  const std::size_t last = fresh.find_last_not_of(" \t\r\n");
  if (last == std::string_view::npos) return;
  const std::size_t certain = end - fresh.size() + last + 1;
  if (is_thinking) {
    sink_.reasoning(text_.text().substr(0, certain));
  } else {
    sink_.text(text_.text().substr(0, certain));
  }
  text_.drop(certain);
  scanned_ -= certain;
}

Match TaggedReply::match_opening(std::size_t at) const {
  if (!wants_calls_) return Match::kNo;
  const bool in_thought = mode_ == Mode::kThinking;
  const char first = text_.text()[at];
  if (format_.kind == FormatKind::kLlama && first == '{' && !has_text_ && !in_thought) return Match::kYes;
  Match best = Match::kNo;
  for (const Tag* tag : {&format_.section_open, &format_.call_open}) {
    if (!tag->starts_with(first)) continue;
    // Without its section a call's tag may be any XML; within a thought, anything may be a quotation.
    const bool stands_alone = tag == &format_.section_open || !format_.section_open.exists();
    if (!tag->is_unforgeable() && (in_thought || !stands_alone)) continue;
    best = std::max(best, tag->match(text_, at));
  }
  return best;
}

void TaggedReply::enter_text(bool behind_thinking) {
  mode_ = Mode::kText;
  skips_space_ = true;
  behind_thinking_ = behind_thinking;
  in_section_ = false;
}

void TaggedReply::open_call(std::size_t at) {
  space_before_ = text_.text().substr(0, at);
  drop(at);
  if (format_.section_open.exists() && format_.section_open.match(text_, 0) == Match::kYes) {
    mode_ = Mode::kSection;
    in_section_ = true;
    body_ = format_.section_open.size();
    return;
  }
  begin_body(format_.call_open.match(text_, 0) == Match::kYes ? format_.call_open.size() : 0);
}

void TaggedReply::begin_body(std::size_t body) {
  mode_ = Mode::kCall;
  body_ = body;
  scanned_ = body;
  is_plausible_ = false;
  json_begin_ = 0;
  json_ = {};
  quotes_ = {};
  in_value_ = false;
  values_.clear();
  preview_ = make_preview(format_.kind, tools_, is_bare());
  previewed_ = body;
  call_begun_ = false;
}

void TaggedReply::end_call(std::size_t body_end, std::size_t block_end, bool cut_off) {
  preview(body_end);
  for (ValueSpan& span : values_) {
    span = {span.open - body_, span.begin - body_, span.end - body_, span.after - body_};
  }
  const std::string_view body = text_.text().substr(body_, body_end - body_);
  auto calls = parse_call_body(format_.kind, {.body = body, .values = values_, .is_bare = is_bare()}, tools_);
  const auto is_forbidden = [&](const ParsedCall& call) { return !tools_.may_be_called(call.name); };
  if (calls && std::ranges::any_of(*calls, is_forbidden)) calls.reset();
  const auto rest = calls && call_begun_ ? preview_->rest_of(calls->front()) : std::nullopt;
  if (!calls || (call_begun_ && !rest)) {
    break_call(block_end, cut_off);
    body_ = 0;
    mode_ = in_section_ ? Mode::kSection : Mode::kText;
    return;
  }
  has_text_ = false;
  space_before_.clear();
  if (rest) sink_.end_call(*rest, true);
  sink_.calls(std::span(*calls).subspan(rest ? 1 : 0));
  drop(block_end);
  leave_call();
}

void TaggedReply::break_call(std::size_t count, bool cut_off) {
  const bool was_begun = std::exchange(call_begun_, false);
  if (was_begun) sink_.end_call({}, false);
  if (was_begun && cut_off) return drop(count);  // the client has what there is of it
  give_up(count);
}

void TaggedReply::leave_call() {
  body_ = 0;
  mode_ = Mode::kSection;
  if (!in_section_) enter_text(false);
}

void TaggedReply::give_up(std::size_t count) {
  sink_.text(std::exchange(space_before_, {}));
  sink_.text(text_.text().substr(0, count));
  has_text_ = true;
  drop(count);
}

void TaggedReply::drop(std::size_t count) {
  text_.drop(count);
  scanned_ = 0;
}

// A call without a tag before it.
bool TaggedReply::is_bare() const { return format_.kind == FormatKind::kLlama && body_ == 0; }

// Between calls of Llama models.
bool TaggedReply::is_space(char byte) const { return format_.kind == FormatKind::kLlama && byte == ';'; }

}  // namespace kvkeep::chat::tools
