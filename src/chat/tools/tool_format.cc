#include "chat/tools/tool_format.h"

#include <algorithm>
#include <array>

#include "chat/tools/json_text.h"

namespace kvkeep::chat::tools {

void MarkedText::append(std::string_view text, bool is_marker) {
  const std::size_t begin = dropped_ + bytes_.size();
  bytes_ += text;
  if (is_marker && !text.empty()) markers_.emplace_back(begin, begin + text.size());
}

bool MarkedText::is_marker(std::size_t begin, std::size_t end) const {
  const std::size_t origin = dropped_ + front_;
  return std::ranges::binary_search(markers_, std::pair(origin + begin, origin + end));
}

void MarkedText::drop(std::size_t count) {
  front_ += count;
  while (!markers_.empty() && markers_.front().second <= dropped_ + front_) markers_.pop_front();
  if (front_ < bytes_.size() - front_) return;  // kept bytes are moved at most once per dropped byte
  bytes_.erase(0, front_);
  dropped_ += front_;
  front_ = 0;
}

Tag::Tag(std::string_view spelling, const MarkerSet& markers) : spelling_(spelling) {
  std::size_t from = 0;
  while (const auto found = markers.next(spelling, from)) {
    markers_.push_back({found->begin, found->end, found->marker->id});
    from = found->end;
  }
}

Match Tag::match(const MarkedText& text, std::size_t at) const {
  const std::string_view rest = text.text().substr(at);
  const std::size_t known = std::min(rest.size(), spelling_.size());
  if (known == 0 || rest.substr(0, known) != std::string_view(spelling_).substr(0, known)) return Match::kNo;
  for (const TagMarker& marker : markers_) {
    if (marker.begin < known && !text.is_marker(at + marker.begin, at + marker.end)) return Match::kNo;
  }
  return known == spelling_.size() ? Match::kYes : Match::kOpen;
}

namespace {

constexpr std::array kFirstRows = std::to_array<FormatRow>({
    {.kind = FormatKind::kNone, .name = "none"},
    {.kind = FormatKind::kHermes, .name = "hermes", .call_open = "<tool_call>", .call_close = "</tool_call>"},
    {.kind = FormatKind::kQwenCoder,
     .name = "qwen3-coder",
     .call_open = "<tool_call>",
     .call_close = "</tool_call>",
     .body = CallBody::kParameters,
     .value_open = "<parameter=",
     .value_close = "</parameter>"},
    {.kind = FormatKind::kLlama, .name = "llama3", .call_open = "<|python_tag|>", .end = CallEnd::kJson},
    {.kind = FormatKind::kMistral,
     .name = "mistral",
     .call_open = "[TOOL_CALLS]",
     .end = CallEnd::kJson,
     .separator = "[ARGS]"},
    {.kind = FormatKind::kDeepSeek,
     .name = "deepseek",
     .section_open = "<｜tool▁calls▁begin｜>",
     .section_close = "<｜tool▁calls▁end｜>",
     .call_open = "<｜tool▁call▁begin｜>",
     .call_close = "<｜tool▁call▁end｜>",
     .body = CallBody::kNamedJson,
     .separator = "<｜tool▁sep｜>"},
    {.kind = FormatKind::kDsml,
     .name = "dsml",
     .section_open = "<｜DSML｜tool_calls>",
     .section_close = "</｜DSML｜tool_calls>",
     .call_open = "<｜DSML｜invoke",
     .call_close = "</｜DSML｜invoke>",
     .body = CallBody::kParameters,
     .value_open = "<｜DSML｜parameter",
     .value_close = "</｜DSML｜parameter>"},
    {.kind = FormatKind::kDsmlV3,
     .name = "dsml-v3.2",
     .section_open = "<｜DSML｜function_calls>",
     .section_close = "</｜DSML｜function_calls>",
     .call_open = "<｜DSML｜invoke",
     .call_close = "</｜DSML｜invoke>",
     .body = CallBody::kParameters,
     .value_open = "<｜DSML｜parameter",
     .value_close = "</｜DSML｜parameter>"},
});

constexpr std::array kLastRows = std::to_array<FormatRow>({
    {.kind = FormatKind::kHarmony, .name = "harmony"},
    {.kind = FormatKind::kGlm,
     .name = "glm",
     .call_open = "<tool_call>",
     .call_close = "</tool_call>",
     .body = CallBody::kKeyValues,
     .value_open = "<arg_value>",
     .value_close = "</arg_value>"},
    {.kind = FormatKind::kKimi,
     .name = "kimi",
     .section_open = "<|tool_calls_section_begin|>",
     .section_close = "<|tool_calls_section_end|>",
     .call_open = "<|tool_call_begin|>",
     .call_close = "<|tool_call_end|>",
     .body = CallBody::kNamedJson,
     .separator = "<|tool_call_argument_begin|>"},
    {.kind = FormatKind::kMiniMax,
     .name = "minimax",
     .section_open = "<minimax:tool_call>",
     .section_close = "</minimax:tool_call>",
     .call_open = "<invoke",
     .call_close = "</invoke>",
     .body = CallBody::kParameters,
     .value_open = "<parameter",
     .value_close = "</parameter>"},
    {.kind = FormatKind::kLfm2,
     .name = "lfm2",
     .call_open = "<|tool_call_start|>",
     .call_close = "<|tool_call_end|>",
     .body = CallBody::kPython},
    {.kind = FormatKind::kCommandR, .name = "command-r", .call_open = "Action: ```json", .call_close = "```"},
    {.kind = FormatKind::kCommandA,
     .name = "command-a",
     .call_open = "<|START_ACTION|>",
     .call_close = "<|END_ACTION|>",
     .text_open = "<|START_RESPONSE|>",
     .text_close = "<|END_RESPONSE|>"},
    {.kind = FormatKind::kGemma4,
     .name = "gemma4",
     .call_open = "<|tool_call>",
     .call_close = "<tool_call|>",
     .body = CallBody::kGemma,
     .value_open = "<|\"|>",
     .value_close = "<|\"|>"},
});

// In the order of the enumeration.
const std::vector<FormatRow>& rows() {
  static const std::vector<FormatRow> all = [] {
    std::vector<FormatRow> joined(kFirstRows.begin(), kFirstRows.end());
    joined.insert(joined.end(), kLastRows.begin(), kLastRows.end());
    return joined;
  }();
  return all;
}

struct Sign {
  std::string_view in_template;
  FormatKind kind;
};
// The first row that a template contains decides: later ones are also parts of other formats' templates.
constexpr std::array kSigns = std::to_array<Sign>({
    {"<|channel|>", FormatKind::kHarmony},
    {"｜DSML｜", FormatKind::kDsml},
    {"<｜tool▁calls▁begin｜>", FormatKind::kDeepSeek},
    {"<|tool_calls_section_begin|>", FormatKind::kKimi},
    {"<minimax:tool_call>", FormatKind::kMiniMax},
    {"<|tool_call_start|>", FormatKind::kLfm2},
    {"<|START_ACTION|>", FormatKind::kCommandA},
    {"Action: ```json", FormatKind::kCommandR},
    {"<|tool_call>", FormatKind::kGemma4},
    {"[TOOL_CALLS]", FormatKind::kMistral},
    {"<arg_key>", FormatKind::kGlm},
    {"<function=", FormatKind::kQwenCoder},
    {"<tool_call>", FormatKind::kHermes},
    {"<|python_tag|>", FormatKind::kLlama},
    {"\"parameters\":", FormatKind::kLlama},
});

constexpr std::string_view kAnalysis = "analysis";  // harmony's channel for thoughts

constexpr std::array kThinking = std::to_array<ThinkingTags>({
    {"<think>", "</think>"},
    {"[THINK]", "[/THINK]"},
    {"<seed:think>", "</seed:think>"},
    {"<|channel>thought", "<channel|>"},
    {"<reasoning>", "</reasoning>"},
    {"<|START_THINKING|>", "<|END_THINKING|>"},
});

bool contains(std::string_view text, std::string_view part) { return text.find(part) != std::string_view::npos; }

void bind_harmony(ReplyFormat& format, const MarkerSet& markers) {
  format.start = Tag("<|start|>", markers);
  format.channel = Tag("<|channel|>", markers);
  format.message = Tag("<|message|>", markers);
  format.constrain = Tag("<|constrain|>", markers);
  format.end = Tag("<|end|>", markers);
  format.call = Tag("<|call|>", markers);
  format.result = Tag("<|return|>", markers);
}

}  // namespace

std::string_view to_string(FormatKind kind) { return row_of(kind).name; }

std::optional<FormatKind> format_named(std::string_view name) {
  const auto found = std::ranges::find(rows(), name, &FormatRow::name);
  return found == rows().end() ? std::nullopt : std::optional(found->kind);
}

std::vector<std::string> format_names() {
  std::vector<std::string> names;
  for (const FormatRow& row : rows()) names.emplace_back(row.name);
  return names;
}

const FormatRow& row_of(FormatKind kind) { return *std::ranges::find(rows(), kind, &FormatRow::kind); }

FormatKind detect_format(std::string_view template_source) {
  if (!contains(template_source, "tools") && !contains(template_source, "tool_calls")) return FormatKind::kNone;
  const auto sign =
      std::ranges::find_if(kSigns, [&](const Sign& one) { return contains(template_source, one.in_template); });
  if (sign == kSigns.end()) return FormatKind::kNone;
  if (sign->kind == FormatKind::kDsml && contains(template_source, "function_calls")) return FormatKind::kDsmlV3;
  return sign->kind;
}

ThinkingTags detect_thinking(std::string_view template_source) {
  for (const ThinkingTags& tags : kThinking) {
    if (contains(template_source, tags.open)) return tags;
    // Some templates mention thoughts only to cut them out of history.
    if (contains(template_source, tags.close)) return tags;
  }
  return {};
}

Match ReplyFormat::match_text_tag(const MarkedText& text, std::size_t at, std::size_t& size) const {
  Match best = Match::kNo;
  for (const Tag* tag : {&text_open, &text_close}) {
    if (!tag->starts_with(text.text()[at])) continue;
    const Match match = tag->match(text, at);
    if (match == Match::kYes) size = tag->size();
    best = std::max(best, match);
  }
  return best;
}

ReplyFormat bind_format(FormatKind kind, ThinkingTags thinking, const MarkerSet& markers) {
  const FormatRow& row = row_of(kind);
  ReplyFormat format;
  format.kind = kind;
  format.section_open = Tag(row.section_open, markers);
  format.section_close = Tag(row.section_close, markers);
  format.call_open = Tag(row.call_open, markers);
  format.call_close = Tag(row.call_close, markers);
  format.separator = Tag(row.separator, markers);
  format.value_open = Tag(row.value_open, markers);
  format.value_close = Tag(row.value_close, markers);
  format.text_open = Tag(row.text_open, markers);
  format.text_close = Tag(row.text_close, markers);
  if (kind == FormatKind::kMistral) format.call_id = Tag("[CALL_ID]", markers);
  if (kind == FormatKind::kGlm) {
    format.key_open = Tag("<arg_key>", markers);
    format.key_close = Tag("</arg_key>", markers);
  }
  if (kind == FormatKind::kHarmony) {
    bind_harmony(format, markers);
  } else {
    format.thinking_open = Tag(thinking.open, markers);
    format.thinking_close = Tag(thinking.close, markers);
  }
  return format;
}

namespace {

// Returns true if the header of a thought ends the prompt, an answer's beginning aside.
bool analysis_is_open(const ReplyFormat& format, const RenderedPrompt& prompt) {
  std::string tail;
  for (auto span = prompt.spans.rbegin(); span != prompt.spans.rend(); ++span) {
    if (span->kind == SpanKind::kMessageText && tail.empty()) continue;
    tail.insert(0, span->text);
    if (tail.size() > format.message.size() + kAnalysis.size()) break;
  }
  return tail.ends_with(std::string(kAnalysis).append(format.message.spelling()));
}

}  // namespace

bool thinking_is_open(const ReplyFormat& format, const RenderedPrompt& prompt) {
  if (format.kind == FormatKind::kHarmony) return analysis_is_open(format, prompt);
  const Tag& open = format.thinking_open;
  if (!open.exists()) return false;
  for (auto span = prompt.spans.rbegin(); span != prompt.spans.rend(); ++span) {
    if (span->kind == SpanKind::kMarker) return span->text == open.spelling();
    if (open.is_unforgeable() || span->kind == SpanKind::kMessageText) continue;  // the answer's beginning
    return trimmed(span->text).ends_with(open.spelling());
  }
  return false;
}

}  // namespace kvkeep::chat::tools
