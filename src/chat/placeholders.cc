#include "chat/placeholders.h"

#include <algorithm>
#include <array>
#include <charconv>

namespace kvkeep::chat {
namespace {

using nlohmann::ordered_json;

constexpr std::size_t kNonceDigits = 24;
constexpr std::size_t kIndexDigits = 6;
constexpr std::size_t kDamageWindow = 10;  // this many digits of the nonce alone mean that a placeholder was cut
constexpr std::string_view kWhiteSpace = " \t\r\n";

// Keys of the chat format, which templates look up by name.
constexpr std::array kFormatKeys = std::to_array<std::string_view>({
    "additionalProperties",
    "anyOf",
    "arguments",
    "content",
    "default",
    "description",
    "enum",
    "format",
    "function",
    "id",
    "index",
    "items",
    "name",
    "parameters",
    "properties",
    "reasoning_content",
    "required",
    "role",
    "strict",
    "text",
    "thinking",
    "title",
    "tool_call_id",
    "tool_calls",
    "type",
});
constexpr std::array kRoles =
    std::to_array<std::string_view>({"assistant", "developer", "function", "system", "tool", "user"});
constexpr std::array kTypes = std::to_array<std::string_view>({
    "array",
    "boolean",
    "function",
    "integer",
    "null",
    "number",
    "object",
    "string",
    "text",
});

template <typename List>
bool lists(const List& list, std::string_view word) {
  return std::ranges::find(list, word) != list.end();
}

// A value that templates compare with their own words.
bool is_format_word(std::string_view key, std::string_view value) {
  return (key == "role" && lists(kRoles, value)) || (key == "type" && lists(kTypes, value));
}

std::string nonce_digits(const ModelHash& seed) {
  std::string digits;
  for (std::size_t i = 0; i < kNonceDigits; ++i) digits.push_back(static_cast<char>('0' + seed.bytes[i] % 10));
  return digits;
}

std::string fixed_width(std::size_t index) {
  std::string digits = std::to_string(index);
  return std::string(kIndexDigits - std::min(kIndexDigits, digits.size()), '0') + digits;
}

void append_text(RenderedPrompt& prompt, SpanKind kind, std::string_view text) {
  if (text.empty()) return;
  if (!prompt.spans.empty() && prompt.spans.back().kind == kind) {
    prompt.spans.back().text += text;
  } else {
    prompt.spans.push_back({.kind = kind, .marker = -1, .text = std::string(text)});
  }
}

}  // namespace

Placeholders::Placeholders(const MarkerSet& markers, const ModelHash& seed, Caution caution)
    : markers_(markers), caution_(caution), nonce_(nonce_digits(seed)) {}

std::string Placeholders::placeholder_for(std::string_view fragment) {
  const auto [place, fresh] = index_of_.try_emplace(std::string(fragment), fragments_.size());
  if (fresh) fragments_.emplace_back(fragment);
  return nonce_ + fixed_width(place->second);
}

void Placeholders::protect(ordered_json& value) {
  if (value.is_string()) {
    value = protect(value.get_ref<const std::string&>());
  } else if (value.is_array()) {
    for (ordered_json& element : value) protect(element);
  } else if (value.is_object()) {
    protect_object(value);
  }
}

void Placeholders::protect_object(ordered_json& object) {
  ordered_json result = ordered_json::object();
  for (auto& [key, value] : object.items()) {
    const bool keep = value.is_string() && is_format_word(key, value.get_ref<const std::string&>());
    if (!keep) protect(value);
    // Keys are unique already: no look-up, which would make large objects quadratic.
    auto& members = result.get_ref<ordered_json::object_t&>();
    static_cast<ordered_json::object_t::Container&>(members).emplace_back(lists(kFormatKeys, key) ? key : protect(key),
                                                                          std::move(value));
  }
  object = std::move(result);
}

std::string Placeholders::protect(std::string_view text) {
  // White space at the ends is looked past, because templates trim it.
  const std::size_t begin = text.find_first_not_of(kWhiteSpace);
  if (begin == std::string_view::npos) return std::string(text);
  const std::size_t end = text.find_last_not_of(kWhiteSpace) + 1;
  const std::string_view core = text.substr(begin, end - begin);
  std::string result(text.substr(0, begin));
  if (markers_.is_fragment(core)) {
    result += placeholder_for(core);
  } else {
    const std::size_t head = markers_.open_head(core);
    if (head > 0) result += placeholder_for(core.substr(0, head));
    const std::size_t tail = markers_.open_tail(core.substr(head));
    result += protect_inside(core.substr(head, core.size() - head - tail));
    if (tail > 0) result += placeholder_for(core.substr(core.size() - tail));
  }
  return result += text.substr(end);
}

std::string Placeholders::protect_inside(std::string_view text) {
  std::string result;
  std::size_t at = 0;
  while (at < text.size()) {
    const auto match = markers_.next(text, at);
    const std::size_t plain_end = match ? match->begin : text.size();
    for (; at < plain_end; ++at) {
      const bool risky = caution_ == Caution::kEveryStart && markers_.starts_marker(text[at]);
      risky ? result += placeholder_for(text.substr(at, 1)) : result += text[at];
    }
    if (!match) break;
    result += placeholder_for(text.substr(match->begin, match->end - match->begin));
    at = match->end;
  }
  return result;
}

Result<RenderedPrompt> Placeholders::restore(std::string_view printed) const {
  RenderedPrompt prompt;
  std::size_t at = 0;
  while (true) {
    const std::size_t found = fragments_.empty() ? std::string_view::npos : printed.find(nonce_, at);
    if (found == std::string_view::npos) break;
    TRY(append_printed(printed.substr(at, found - at), prompt));
    const std::string_view digits = printed.substr(found + nonce_.size(), kIndexDigits);
    std::size_t index = fragments_.size();
    std::from_chars(digits.data(), digits.data() + digits.size(), index);
    if (digits.size() != kIndexDigits || index >= fragments_.size()) {
      return unsupported("chat template: it changes message text that spells a special token");
    }
    append_text(prompt, SpanKind::kMessageText, fragments_[index]);
    at = found + nonce_.size() + kIndexDigits;
  }
  TRY(append_printed(printed.substr(at), prompt));
  return prompt;
}

Status Placeholders::append_printed(std::string_view printed, RenderedPrompt& prompt) const {
  for (std::size_t i = 0; !fragments_.empty() && i + kDamageWindow <= nonce_.size(); ++i) {
    if (printed.find(std::string_view(nonce_).substr(i, kDamageWindow)) != std::string_view::npos) {
      return unsupported("chat template: it cuts message text that spells a special token");
    }
  }
  std::size_t at = 0;
  while (const auto match = markers_.next(printed, at)) {
    append_text(prompt, SpanKind::kText, printed.substr(at, match->begin - at));
    prompt.spans.push_back({.kind = SpanKind::kMarker, .marker = match->marker->id, .text = match->marker->spelling});
    at = match->end;
  }
  append_text(prompt, SpanKind::kText, printed.substr(at));
  return {};
}

}  // namespace kvkeep::chat
