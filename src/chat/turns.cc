#include "chat/turns.h"

#include <algorithm>
#include <iterator>
#include <optional>
#include <string>
#include <string_view>

#include "chat/synthetic.h"
#include "chat/tokenize.h"

namespace kvkeep::chat {
namespace {

constexpr std::string_view kFirstQuestion = "kvkeepquestionone";
constexpr std::string_view kAnswerText = "kvkeepanswerone";
constexpr std::string_view kSecondQuestion = "kvkeepquestiontwo";
constexpr std::string_view kBlanks = " \t\r\n";

// A marker, or the text between two.
struct Unit {
  TokenId marker = -1;
  std::string text;
  bool is_marker() const { return marker >= 0; }
  bool operator==(const Unit&) const = default;
};
using Units = std::vector<Unit>;

Units units_of(const RenderedPrompt& prompt) {
  Units units;
  for (const PromptSpan& span : prompt.spans) {
    if (span.kind == SpanKind::kMarker) {
      units.push_back({span.marker, {}});
    } else if (units.empty() || units.back().is_marker()) {
      units.push_back({-1, span.text});
    } else {
      units.back().text += span.text;
    }
  }
  return units;
}

// The template's text before, between and after the three messages.
struct Example {
  Units before_first;   // ... first question
  Units before_answer;  // first question ... answer
  Units before_second;  // answer ... second question
  Units generation;     // second question ... end
};

// Takes the units up to a content, and drops the text around the content.
std::optional<Units> take_until(Units& rest, std::string_view content) {
  Units taken;
  for (std::size_t i = 0; i < rest.size(); ++i) {
    const std::size_t at = rest[i].is_marker() ? std::string::npos : rest[i].text.find(content);
    if (at == std::string::npos) {
      taken.push_back(rest[i]);
      continue;
    }
    if (at > 0) taken.push_back({-1, rest[i].text.substr(0, at)});
    rest[i].text.erase(0, at + content.size());
    rest.erase(rest.begin(), rest.begin() + static_cast<std::ptrdiff_t>(i + (rest[i].text.empty() ? 1 : 0)));
    return taken;
  }
  return std::nullopt;
}

std::optional<RenderedPrompt> render_example(const ChatTemplate& chat_template, const MarkerSet& markers) {
  RenderInput input;
  input.messages = {synthetic::message("user", kFirstQuestion), synthetic::message("assistant", kAnswerText),
                    synthetic::message("user", kSecondQuestion)};
  auto rendered = render_prompt(chat_template, markers, std::move(input));
  if (!rendered) return std::nullopt;
  return std::move(*rendered);
}

std::optional<Example> read_example(const RenderedPrompt& prompt) {
  Units rest = units_of(prompt);
  Example example;
  for (const auto& [part, content] :
       {std::pair(&Example::before_first, kFirstQuestion), std::pair(&Example::before_answer, kAnswerText),
        std::pair(&Example::before_second, kSecondQuestion)}) {
    auto taken = take_until(rest, content);
    if (!taken) return std::nullopt;
    example.*part = std::move(*taken);
  }
  example.generation = std::move(rest);
  return example;
}

Units from(const Units& units, std::size_t begin) {
  return {units.begin() + static_cast<std::ptrdiff_t>(std::min(begin, units.size())), units.end()};
}

std::size_t common_head(const Units& a, const Units& b) {
  return static_cast<std::size_t>(std::ranges::mismatch(a, b).in1 - a.begin());
}

Units common_tail(const Units& a, const Units& b) {
  std::size_t count = 0;
  while (count < std::min(a.size(), b.size()) && a[a.size() - 1 - count] == b[b.size() - 1 - count]) ++count;
  return from(a, a.size() - count);
}

// Turns end alike and open differently: the opening begins with the last marker before the difference.
Units without_closing(const Units& opening, const Units& other) {
  std::size_t begin = std::min(common_head(opening, other), opening.size());
  while (begin > 0 && (begin == opening.size() || !opening[begin].is_marker())) --begin;
  return from(opening, begin);
}

Units from_first_marker(const Units& units) {
  const auto first = std::ranges::find_if(units, &Unit::is_marker);
  return {first, units.end()};
}

// The common head: whole units, and the common beginning of the texts where the openings part.
Units common_opening(const Units& a, const Units& b) {
  const std::size_t count = common_head(a, b);
  Units common(a.begin(), a.begin() + static_cast<std::ptrdiff_t>(count));
  if (count < a.size() && count < b.size() && !a[count].is_marker() && !b[count].is_marker()) {
    const std::string& text = a[count].text;
    const auto end = std::ranges::mismatch(text, b[count].text).in1;
    common.push_back({-1, std::string(text.begin(), end)});
  }
  return common;
}

std::vector<TokenId> ids_of(Units units, const MarkerSet& markers, const Vocabulary& vocabulary) {
  if (!units.empty() && !units.back().is_marker()) {
    std::string& text = units.back().text;
    text.erase(text.find_last_not_of(kBlanks) + 1);
  }
  std::vector<TokenId> ids;
  for (const Unit& unit : units) {
    if (unit.is_marker()) {
      ids.push_back(unit.marker);
    } else if (const auto text = tokenize_plain(vocabulary, markers, unit.text); text) {
      ids.insert(ids.end(), text->begin(), text->end());
    }
  }
  return ids;
}

std::vector<Position> occurrences(TokenSpan prompt, const std::vector<TokenId>& opening) {
  std::vector<Position> found;
  if (opening.empty()) return found;
  for (auto at = prompt.begin();;) {
    const auto match = std::search(at, prompt.end(), opening.begin(), opening.end());
    if (match == prompt.end()) return found;
    found.push_back(Position{} + static_cast<std::size_t>(match - prompt.begin()));
    at = match + 1;
  }
}

// The common opening of all results, whatever their text, if they open like a user turn.
std::vector<TokenId> learn_tool_result(const ChatTemplate& chat_template, const MarkerSet& markers,
                                       const Vocabulary& vocabulary, const std::vector<TokenId>& user) {
  std::vector<TokenId> opening;
  for (const std::string_view content : {"kvkeepresult", "{\"kvkeep\": 1}", "7", "\n- kvkeep"}) {
    RenderInput input;
    input.messages = {synthetic::message("user", kFirstQuestion), synthetic::call("", synthetic::Thinking::kField),
                      synthetic::result(content)};
    input.tools = synthetic::tools("kvkeepdescription");
    const auto rendered = render_prompt(chat_template, markers, std::move(input));
    const auto ids = rendered ? tokenize_prompt(vocabulary, markers, *rendered) : unsupported("not rendered");
    const std::vector<Position> places = ids ? occurrences(*ids, user) : std::vector<Position>{};
    if (places.size() < 2) return {};
    const TokenSpan result = TokenSpan(*ids).subspan(places.back().value());
    opening.resize(opening.empty() ? result.size() : common_prefix(opening, result));
    std::ranges::copy(result.first(opening.size()), opening.begin());
    // The question must not look like a result.
    if (occurrences(*ids, opening).size() != 1) return {};
  }
  return opening;
}

// The units between a result and the answer to it, from the first marker on. Empty if every answer opens like that, or
// if no user message could be mistaken for it.
std::vector<TokenId> learn_answer_to_result(const ChatTemplate& chat_template, const MarkerSet& markers,
                                            const Vocabulary& vocabulary, const std::vector<TokenId>& answer) {
  constexpr std::string_view kToolResult = "kvkeepresult";
  RenderInput input;
  input.messages = {synthetic::message("user", kFirstQuestion), synthetic::call("", synthetic::Thinking::kField),
                    synthetic::result(kToolResult)};
  input.tools = synthetic::tools("kvkeepdescription");
  const auto rendered = render_prompt(chat_template, markers, std::move(input));
  if (!rendered) return {};
  Units rest = units_of(*rendered);
  if (!take_until(rest, kToolResult)) return {};
  std::vector<TokenId> opening = ids_of(from_first_marker(rest), markers, vocabulary);
  return occurrences(opening, answer).empty() ? opening : std::vector<TokenId>{};
}

// Two prompts of the same form whose texts differ from the first letter on share only what the template writes.
std::vector<std::vector<TokenId>> learn_beginnings(const ChatTemplate& chat_template, const MarkerSet& markers,
                                                   const Vocabulary& vocabulary) {
  const auto prompt = [&](std::string_view text, bool has_system, bool has_tools) {
    RenderInput input;
    if (has_system) input.messages.push_back(synthetic::message("system", text));
    input.messages.push_back(synthetic::message("user", text));
    if (has_tools) input.tools = synthetic::tools(text);
    const auto rendered = render_prompt(chat_template, markers, std::move(input));
    const auto ids = rendered ? tokenize_prompt(vocabulary, markers, *rendered) : unsupported("not rendered");
    return ids ? *ids : std::vector<TokenId>{};
  };
  std::vector<std::vector<TokenId>> beginnings;
  if (const auto bos = vocabulary.bos()) beginnings.push_back({*bos});
  for (const auto& [has_system, has_tools] : {std::pair(false, false), std::pair(true, false), std::pair(true, true)}) {
    std::vector<TokenId> ids = prompt("apples", has_system, has_tools);
    ids.resize(common_prefix(ids, prompt("zebras", has_system, has_tools)));
    beginnings.push_back(std::move(ids));
  }
  return beginnings;
}

// The first marker after an answer.
std::optional<TokenId> first_marker(const Units& units) {
  const auto first = std::ranges::find_if(units, &Unit::is_marker);
  return first == units.end() ? std::nullopt : std::optional(first->marker);
}

}  // namespace

TurnOpenings learn_turn_openings(const ChatTemplate& chat_template, const MarkerSet& markers,
                                 const Vocabulary& vocabulary) {
  const auto rendered = render_example(chat_template, markers);
  const auto example = rendered ? read_example(*rendered) : std::nullopt;
  TurnOpenings openings{.beginnings = learn_beginnings(chat_template, markers, vocabulary)};
  if (!example) return openings;
  const Units user = from_first_marker(common_tail(example->before_first, example->before_second));
  const Units assistant = from_first_marker(without_closing(example->before_answer, example->before_second));
  const Units second = from_first_marker(without_closing(example->before_second, example->before_answer));
  const Units generation = from_first_marker(without_closing(example->generation, example->before_second));
  openings.user = ids_of(user.size() < second.size() ? user : second, markers, vocabulary);
  openings.assistant = ids_of(common_opening(assistant, generation), markers, vocabulary);
  // An opening that does not find the turns of the example itself is useless.
  const auto ids = tokenize_prompt(vocabulary, markers, *rendered);
  const PromptTurns turns = ids ? find_turns(*ids, openings) : PromptTurns{};
  if (turns.user.size() != 2) openings.user.clear();
  if (turns.assistant.size() != 2) openings.assistant.clear();
  openings.tool_result = learn_tool_result(chat_template, markers, vocabulary, openings.user);
  if (!openings.assistant.empty()) {
    openings.answer_to_result = learn_answer_to_result(chat_template, markers, vocabulary, openings.assistant);
    openings.end = first_marker(example->before_second);
  }
  return openings;
}

std::size_t beginning_size(TokenSpan prompt, const TurnOpenings& openings) {
  std::size_t size = 0;
  for (const std::vector<TokenId>& beginning : openings.beginnings) {
    size = std::max(size, common_prefix(beginning, prompt));
  }
  return size;
}

std::size_t answer_opening_size(TokenSpan ids, const TurnOpenings& openings) {
  const std::vector<TokenId>& other = openings.answer_to_result;
  const bool is_other =
      !other.empty() && ids.size() >= other.size() && std::ranges::equal(ids.first(other.size()), other);
  return is_other ? other.size() : openings.assistant.size();
}

PromptTurns find_turns(TokenSpan prompt, const TurnOpenings& openings) {
  PromptTurns turns{{}, {}, Position{} + prompt.size()};
  std::ranges::merge(occurrences(prompt, openings.assistant), occurrences(prompt, openings.answer_to_result),
                     std::back_inserter(turns.assistant));
  const std::vector<Position> asked = occurrences(prompt, openings.user);
  turns.tool_results = occurrences(prompt, openings.tool_result);
  std::ranges::set_difference(asked, turns.tool_results, std::back_inserter(turns.user));
  const bool answer_opened = !turns.assistant.empty() && (asked.empty() || asked.back() < turns.assistant.back());
  if (answer_opened) turns.stable_end = turns.assistant.back();
  return turns;
}

TokenSpan from_last_user_text(TokenSpan ids, const TurnOpenings& openings) {
  const std::vector<Position> users = find_turns(ids, openings).user;
  return users.empty() ? ids : ids.subspan(users.back().value() + openings.user.size());
}

}  // namespace kvkeep::chat
