// What differs between a prompt and the nearest known one, and which kind of break that is.
//
// Each prompt is a list of parts: texts of messages and tools, with the template's words between them. The difference
// lies in the part that this prompt has there; where this prompt has the template's words and the known one goes on
// with a text, in that text, of which this prompt leaves out the end.

#include <algorithm>
#include <array>
#include <map>
#include <utility>
#include <vector>

#include "explain/cache_break.h"

namespace kvkeep::explain {
namespace {

// Changed stretches up to this length may be a line that changes each time.
constexpr std::size_t kShortChange = 96;
// Two messages of which less than one part in so many is the same are not two forms of one message.
constexpr std::size_t kSameShare = 4;
// So much text left out by a template is words of its own, and no message, as far as the known prompt's parts are not
// known.
constexpr std::size_t kTemplateWords = 16;
// Calls are compared by so many tokens of each side that the other one has nowhere.
constexpr std::size_t kCallTokens = 1'024;

// ---- words ----

bool is_word(char c) {
  return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' ||
         static_cast<unsigned char>(c) >= 0x80;
}

// Letters after a backslash are escapes of JSON, and no words.
std::vector<std::string_view> words_of(std::string_view text) {
  std::vector<std::string_view> words;
  for (std::size_t at = 0; at < text.size();) {
    if (text[at] == '\\' && at + 1 < text.size()) {
      at += 2;
      continue;
    }
    std::size_t end = at;
    while (end < text.size() && is_word(text[end])) ++end;
    if (end > at) words.push_back(text.substr(at, end - at));
    at = std::max(end, at + 1);
  }
  std::ranges::sort(words);
  return words;
}

// The known words are all there, whatever their order: added defaults say nothing. In another conversation the model
// may have called again, with more words or fewer.
bool says_the_same(const CallWords& calls, KnownFrom from) {
  const auto mine = words_of(calls.here);
  const auto known = words_of(calls.there);
  if (from == KnownFrom::kAnother) return mine == known;
  return std::ranges::includes(mine, known) || std::ranges::includes(known, mine);
}

bool is_blank(std::string_view text) { return text.find_first_not_of(" \n\t") == std::string_view::npos; }

// One text is the beginning of the other one, up to a whole word: a token may join the last sign that stays with what
// is put in after it.
bool begins_with_other(std::string_view text, std::string_view other) {
  if (text.size() < other.size()) std::swap(text, other);
  if (other.empty() || !text.starts_with(other)) return false;
  return text.size() == other.size() || !is_word(other.back()) || !is_word(text[other.size()]);
}

bool contains(std::string_view text, std::string_view words) { return !words.empty() && text.contains(words); }

// ---- parts ----

Position end_of(const PromptParts& prompt, std::size_t part, Position end) {
  return part + 1 < prompt.parts.size() ? prompt.parts[part + 1].begin : end;
}

// One of the two prompts: the tokens before the difference are those of both.
struct Side {
  const PromptParts& parts;
  TokenSpan tokens;  // up to the difference, or further
  TokenSpan rest;    // from the difference on
  Position at;       // of the difference
  Position end;      // of the prompt; a reply may follow it
};

struct FieldText {
  PromptPlace place;
  TokenSpan text;
  bool operator==(const FieldText& other) const { return place == other.place && std::ranges::equal(text, other.text); }
};

// Returns the texts of messages and tools among the first tokens after the difference.
std::vector<FieldText> texts_within(const Side& side, std::size_t gap) {
  std::vector<FieldText> found;
  const Position last = std::min(side.at + gap, side.end);
  for (std::size_t i = side.parts.find(side.at); i < side.parts.parts.size(); ++i) {
    const PromptPart& part = side.parts.parts[i];
    const Position begin = std::max(part.begin, side.at);
    const Position end = std::min(end_of(side.parts, i, side.end), last);
    if (begin >= last) break;
    if (part.place.field == PromptField::kTemplate || begin >= end) continue;
    const std::size_t from = std::min<std::size_t>(begin - side.at, side.rest.size());
    found.push_back({part.place, side.rest.subspan(from, std::min<std::size_t>(end - begin, side.rest.size() - from))});
  }
  return found;
}

// Returns a hash of each tool, in their order; nothing if the tokens do not reach to their end. The last token may hold
// the template's words after the tool as well.
std::vector<std::uint64_t> hashes_of_tools(const Side& side) {
  constexpr std::uint64_t kPrime = 0x100000001B3;
  std::vector<std::uint64_t> hashes;
  const Position known = side.at + side.rest.size();
  for (std::size_t i = 0; i < side.parts.parts.size(); ++i) {
    const PromptPart& part = side.parts.parts[i];
    if (part.place.field != PromptField::kTool) continue;
    const Position end = end_of(side.parts, i, side.end);
    if (end > known) return {};
    std::uint64_t hash = 0xCBF29CE484222325;
    for (Position at = part.begin; at + 1 < end; at = at + 1) {
      const TokenId token = at < side.at ? side.tokens[at.value()] : side.rest[at - side.at];
      hash = (hash ^ static_cast<std::uint64_t>(token)) * kPrime;
    }
    hashes.push_back(hash);
  }
  return hashes;
}

bool in_other_order(std::vector<std::uint64_t> mine, std::vector<std::uint64_t> other) {
  if (mine == other) return false;
  std::ranges::sort(mine);
  std::ranges::sort(other);
  return mine == other;
}

// ---- calls ----

// Offsets after the difference, up to which both sides have the calls that differ.
struct CallEnds {
  std::size_t here;
  std::size_t there;
};

// The text that goes on after the calls is on both sides: there the known calls end as well.
CallEnds aligned_ends(const Comparison& comparison, std::size_t here, std::size_t known) {
  for (const CommonRun& run : comparison.runs) {
    if (run.moved || run.here + run.size <= here) continue;
    const std::size_t within = here - std::min<std::size_t>(here, run.here);
    return {here, run.there + within};
  }
  return {here, known};
}

// Returns the text of those among the first tokens that are not the same on the other side.
std::string text_apart(TokenSpan tokens, const std::vector<bool>& same, const TextOfRun& text) {
  std::string all;
  std::size_t left = kCallTokens;
  for (std::size_t at = 0; at < same.size() && left > 0;) {
    std::size_t end = at;
    while (end < same.size() && !same[end] && end - at < left) ++end;
    if (end > at) all += text(tokens.subspan(at, end - at)) + ' ';
    left -= end - at;
    at = std::max(end, at + 1);
  }
  return all;
}

// The words of the calls from the difference on, without those in stretches that both sides have.
CallWords call_words(const BreakFacts& facts, CallEnds ends, const TextOfRun& text) {
  const TokenSpan here = facts.tokens.subspan(facts.at->value());
  std::vector<bool> same_here(std::min(ends.here, here.size()));
  std::vector<bool> same_there(std::min(ends.there, facts.known_rest.size()));
  for (const CommonRun& run : facts.comparison.runs) {
    for (std::size_t i = 0; i < run.size; ++i) {
      if (run.here + i >= same_here.size() || run.there + i >= same_there.size()) break;
      if (same_there[run.there + i]) continue;  // this prompt has twice what the known one has once
      same_here[run.here + i] = same_there[run.there + i] = true;
    }
  }
  // Both go on from the same word.
  std::size_t begin = facts.text.before.size();
  while (begin > 0 && is_word(facts.text.before[begin - 1])) --begin;
  const std::string word = facts.text.before.substr(begin);
  return {word + text_apart(here, same_here, text), word + text_apart(facts.known_rest, same_there, text)};
}

// ---- one difference ----

// Returns the tool whose description begins at a difference, or after the template's words there; null if none does.
// The first token may have the end of other text as well as words of the template.
const PromptPart* tool_at(const PromptParts& prompt, Position at) {
  const std::vector<PromptPart>& parts = prompt.parts;
  std::size_t own = prompt.find(at);
  while (own + 1 < parts.size() && (parts[own].place.field == PromptField::kTemplate || parts[own + 1].begin <= at + 1))
    ++own;
  return own < parts.size() && parts[own].place.field == PromptField::kTool ? &parts[own] : nullptr;
}

// A number as filters write them, or the rest of one.
bool begins_with_value(std::string_view text) {
  text.remove_prefix(std::min(text.find_first_not_of(' '), text.size()));
  if (text.empty()) return false;
  if (text.front() == '.' || (text.front() >= '0' && text.front() <= '9')) return true;
  constexpr std::array<std::string_view, 6> kWords = {"true", "false", "null", "True", "False", "None"};
  return std::ranges::any_of(kWords, [&](std::string_view word) { return text.starts_with(word); });
}

class Difference {
 public:
  explicit Difference(const BreakFacts& facts) : facts_(facts) {
    if (facts_.parts == nullptr || facts_.parts->parts.empty()) return;
    const std::vector<PromptPart>& parts = facts_.parts->parts;
    const std::size_t own = facts_.parts->find(*facts_.at);
    place_ = parts[own].place;
    if (own > 0) previous_ = parts[own - 1].place;
    if (own + 1 < parts.size()) next_ = parts[own + 1].place;
    has_place_ = true;
    in_template_ = place_.field == PromptField::kTemplate;
    settle_text(parts, own);
    settle_place();
    settle_text_left_out(parts, own);
    if (const PromptPart* tool = place_.field == PromptField::kTool ? nullptr : tool_put_in_or_left_out()) {
      place_ = tool->place;
    }
  }

  // Returns the number of tokens from the difference to the end of the calls that it lies in.
  std::optional<std::size_t> calls_go_on() const {
    if (place_.field != PromptField::kCalls) return std::nullopt;
    const std::vector<PromptPart>& parts = facts_.parts->parts;
    for (std::size_t i = facts_.parts->find(*facts_.at); i < parts.size(); ++i) {
      const bool is_other = parts[i].place.field != PromptField::kTemplate && parts[i].place != place_;
      if (is_other && parts[i].begin > *facts_.at) return parts[i].begin - *facts_.at;
    }
    return facts_.prompt_tokens - facts_.at->value();
  }

  CacheBreak find() {
    CacheBreak found{.at = facts_.at, .has_place = has_place_, .place = place_, .differs = true};
    found.lost_tokens = significant() ? facts_.comparison.common : 0;
    found.what = volatile_text({facts_.text.before, facts_.text.here, facts_.text.there, facts_.text.after});
    found.kind = kind(found.what);
    if (found.kind != BreakKind::kVolatileText) found.what = VolatileText::kNone;
    // A message that begins there is what changed, not the words before it.
    const bool begins = found.kind == BreakKind::kMessageChanged || found.kind == BreakKind::kNewContent;
    if (begins && place_.field == PromptField::kTemplate) found.place = message_after_words();
    if (found.kind == BreakKind::kThinkingDropped && answer().role == PromptRole::kAssistant) {
      found.place = answer();
      found.place.field = PromptField::kThinking;
    }
    return found;
  }

 private:
  bool significant() const { return facts_.comparison.common >= kLeastLost; }
  bool is_short() const {
    return facts_.comparison.here_gap <= kShortChange && facts_.comparison.there_gap <= kShortChange;
  }
  bool replaced() const { return facts_.comparison.here_gap > 0 && facts_.comparison.there_gap > 0; }
  // Both sides have text of their own there: none was only put in or left out.
  bool has_other_text() const { return replaced() && !begins_with_other(facts_.text.here, facts_.text.there); }
  bool was_cut() const {
    return facts_.comparison.here_gap <= kShortChange && facts_.comparison.there_gap > kShortChange;
  }
  // A short text in place of others, which were different each time.
  bool is_one_of_many() const { return is_short() && replaced() && facts_.other_values >= kLeastValues; }
  bool in(KnownFrom conversation) const { return facts_.known_from == conversation; }
  // The same field goes on after the change, for more than a full stop.
  bool goes_on() const { return *facts_.at + facts_.comparison.here_gap + kLeastRun <= part_end_; }

  // Blocks of one field are one text, though there are words of the template between them.
  void settle_text(const std::vector<PromptPart>& parts, std::size_t own) {
    const auto joins = [&](std::size_t words, std::size_t block) {
      return !in_template_ && parts[words].place.field == PromptField::kTemplate && parts[block].place == place_;
    };
    std::size_t first = own;
    std::size_t last = own;
    while (first >= 2 && joins(first - 1, first - 2)) first -= 2;
    while (last + 2 < parts.size() && joins(last + 1, last + 2)) last += 2;
    part_begin_ = parts[first].begin;
    part_end_ = last + 1 < parts.size() ? parts[last + 1].begin : Position{} + facts_.prompt_tokens;
  }

  // The template's signs within calls and tools belong to them, and so do numbers at their end, which filters write.
  void settle_place() {
    if (!in_template_) return;
    for (const PromptField field : {PromptField::kTool, PromptField::kCalls}) {
      if (previous_.field != field) continue;
      if (begins_with_value(facts_.text.here) || begins_with_value(facts_.text.there)) {
        place_ = previous_;
      } else if (next_.field == field) {
        place_ = next_;
      }
    }
  }

  // This prompt has the template's words where the known one has text of a message: the text ends earlier, or is empty.
  // A thought or a tool that is left out as a whole is told by other signs.
  void settle_text_left_out(const std::vector<PromptPart>& parts, std::size_t own) {
    const std::optional<PromptPlace> known = known_text();
    if (place_.field != PromptField::kTemplate || !known) return;
    const bool ends = previous_ == *known;
    if (!ends && (known->field == PromptField::kThinking || known->field == PromptField::kTool)) return;
    place_ = *known;
    in_template_ = false;
    part_begin_ = part_end_ = *facts_.at;
    if (ends) settle_text(parts, own - 1);
  }
  // Returns the place of the known prompt's text at the difference; nothing if the template's words are there. A blank
  // at the end of a reply is none: the template leaves it out.
  std::optional<PromptPlace> known_text() const {
    if (!has_known_parts()) return std::nullopt;
    const PromptParts& known = *facts_.known_parts;
    if (*facts_.at >= known_end()) return is_blank(facts_.text.there) ? std::nullopt : std::optional(reply());
    const PromptPlace& place = known.parts[known.find(*facts_.at)].place;
    return place.field == PromptField::kTemplate ? std::nullopt : std::optional(place);
  }
  bool has_known_parts() const {
    return has_place_ && facts_.known_parts != nullptr && !facts_.known_parts->parts.empty();
  }
  Position known_end() const { return Position{} + facts_.known_prompt_tokens; }
  // The place of the reply to the known prompt, or of that field of it that this prompt has there.
  PromptPlace reply() const {
    const std::uint32_t number = facts_.known_parts->messages;
    const bool is_there = previous_.role == PromptRole::kAssistant && previous_.index == number;
    return is_there ? previous_ : PromptPlace{PromptField::kContent, PromptRole::kAssistant, number};
  }

  // Only one side has a tool in its changed text. A template that writes the same tools at another place puts none in.
  const PromptPart* tool_put_in_or_left_out() const {
    const PromptParts* known = facts_.known_parts;
    if (!significant() || (known != nullptr && known->tools == facts_.parts->tools)) return nullptr;
    const auto in_gap = [&](const PromptParts* parts, std::size_t gap) -> const PromptPart* {
      const PromptPart* tool = parts == nullptr ? nullptr : tool_at(*parts, *facts_.at);
      return tool != nullptr && tool->begin < *facts_.at + gap ? tool : nullptr;
    };
    const PromptPart* here = in_gap(facts_.parts, facts_.comparison.here_gap);
    return here != nullptr ? here : in_gap(known, facts_.comparison.there_gap);
  }

  BreakKind kind(VolatileText what) const {
    if (place_.field == PromptField::kTool) return kind_in_tools(what);
    if (lost_a_thought()) return sent_the_thought() ? BreakKind::kTemplateRewrote : BreakKind::kThinkingDropped;
    if (place_.field == PromptField::kCalls && says_the_same(calls(), facts_.known_from)) {
      return BreakKind::kCallReserialised;
    }
    if (!significant()) return BreakKind::kNewContent;
    if (!has_place_) return kind_without_messages(what);
    return in_template_ && place_.field == PromptField::kTemplate ? kind_between_messages(what) : kind_in_message(what);
  }

  BreakKind kind_in_tools(VolatileText what) const {
    if (a_tool_moved()) return BreakKind::kToolsReordered;
    const bool changes = what != VolatileText::kNone && is_short() && replaced() && significant();
    return changes ? BreakKind::kVolatileText : BreakKind::kToolsChanged;
  }

  // The whole calls, or their first words that differ if no more is known.
  CallWords calls() const { return facts_.calls.value_or(CallWords{facts_.text.here, facts_.text.there}); }

  bool a_tool_moved() const {
    if (facts_.parts == nullptr) return false;
    if (!has_known_parts() || facts_.tokens.empty()) return most_of_a_tool_moved();
    return in_other_order(hashes_of_tools(this_side()), hashes_of_tools(known_side()));
  }
  Side this_side() const {
    const TokenSpan tokens = facts_.tokens;
    return {*facts_.parts, tokens, tokens.subspan(std::min<std::size_t>(facts_.at->value(), tokens.size())), *facts_.at,
            Position{} + facts_.prompt_tokens};
  }
  Side known_side() const { return {*facts_.known_parts, facts_.tokens, facts_.known_rest, *facts_.at, known_end()}; }
  // As far as the known prompt's parts are not known. Phrases that several tools have are found at other places as
  // well: most of a tool must have moved.
  bool most_of_a_tool_moved() const {
    if (facts_.comparison.moved < kLeastLost) return false;
    std::map<std::uint32_t, std::pair<std::size_t, std::size_t>> tools;  // by number: tokens that moved, and all
    const std::vector<PromptPart>& parts = facts_.parts->parts;
    for (std::size_t i = facts_.parts->find(*facts_.at); i < parts.size(); ++i) {
      if (parts[i].place.field != PromptField::kTool) continue;
      const Position end = i + 1 < parts.size() ? parts[i + 1].begin : Position{} + facts_.prompt_tokens;
      auto& [moved, all] = tools[parts[i].place.index];
      moved += common_between(parts[i].begin, end, true);
      all += end - parts[i].begin;
    }
    return std::ranges::any_of(tools, [](const auto& tool) { return tool.second.first * 2 > tool.second.second; });
  }
  // Tokens of the prompt in a range after the difference that the known prompt has as well; with `moved` only those
  // that come in another order.
  std::size_t common_between(Position begin, Position end, bool moved) const {
    std::size_t sum = 0;
    for (const CommonRun& run : facts_.comparison.runs) {
      if (moved && !run.moved) continue;
      const Position first = std::max(begin, *facts_.at + run.here);
      const Position last = std::min(end, *facts_.at + run.here + run.size);
      if (first < last) sum += last - first;
    }
    return sum;
  }

  BreakKind kind_without_messages(VolatileText what) const {
    if (is_one_of_many() || (is_short() && what != VolatileText::kNone)) return BreakKind::kVolatileText;
    // Nothing names what was edited: a prompt of which less than half stayed is another one.
    const std::size_t rest = facts_.prompt_tokens - facts_.at->value();
    return facts_.comparison.common * 2 < rest ? BreakKind::kNewContent : BreakKind::kMessageChanged;
  }

  BreakKind kind_in_message(VolatileText what) const {
    if (place_.role == PromptRole::kSystem && is_another_message()) return BreakKind::kNewContent;
    if (place_.role == PromptRole::kTool || place_.role == PromptRole::kAssistant) return kind_in_answer(what);
    if (what == VolatileText::kBillingLine || what == VolatileText::kGitStatus) return BreakKind::kVolatileText;
    if (is_short() && what != VolatileText::kNone) return BreakKind::kVolatileText;
    if (is_one_of_many() && goes_on()) return BreakKind::kVolatileText;
    // Another task before text that stayed: nothing of it was there before.
    const bool task = place_.role == PromptRole::kUser && place_.field == PromptField::kContent && !goes_on();
    const bool is_new = in(KnownFrom::kAnother) || (in(KnownFrom::kUnknown) && has_other_text());
    return task && is_new ? BreakKind::kNewContent : BreakKind::kMessageChanged;
  }
  // The instructions of another agent, before tools that both agents have.
  bool is_another_message() const {
    if (!replaced() || is_short()) return false;
    const std::size_t same = (*facts_.at - part_begin_) + common_between(*facts_.at, part_end_, false);
    return same * kSameShare < part_end_ - part_begin_;
  }
  // Tools and models say something else each time that they are asked; only within a conversation a client has changed
  // what they said.
  BreakKind kind_in_answer(VolatileText what) const {
    const bool is_tool = place_.role == PromptRole::kTool;
    if (is_tool && is_short() && (what == VolatileText::kDate || what == VolatileText::kTime))
      return BreakKind::kVolatileText;
    if (in(KnownFrom::kAnother)) return BreakKind::kNewContent;
    if (in(KnownFrom::kSameConversation) || !has_other_text() || was_cut()) return BreakKind::kMessageChanged;
    const bool is_edited = place_.field == PromptField::kContent && !is_tool && goes_on();
    return is_edited ? BreakKind::kMessageChanged : BreakKind::kNewContent;
  }

  // A message put in or left out brings text; a template that changes its mind only words of its own.
  BreakKind kind_between_messages(VolatileText what) const {
    if (what == VolatileText::kDate || what == VolatileText::kTime) return BreakKind::kVolatileText;
    if (has_own_words_only()) return BreakKind::kTemplateRewrote;
    return in(KnownFrom::kAnother) ? BreakKind::kNewContent : BreakKind::kMessageChanged;
  }
  bool has_own_words_only() const {
    if (!has_known_parts()) return !goes_on_in_text() && facts_.comparison.there_gap <= kTemplateWords;
    return !known_goes_on_in_reply() && texts_here() == texts_there();
  }
  bool goes_on_in_text() const { return *facts_.at + facts_.comparison.here_gap > part_end_; }
  bool known_goes_on_in_reply() const {
    return *facts_.at + facts_.comparison.there_gap > known_end() && !is_blank(facts_.text.there);
  }
  std::vector<FieldText> texts_here() const { return texts_within(this_side(), facts_.comparison.here_gap); }
  std::vector<FieldText> texts_there() const { return texts_within(known_side(), facts_.comparison.there_gap); }
  // Of a message that was left out this prompt has no place.
  PromptPlace message_after_words() const {
    if (has_known_parts() && texts_here().empty()) {
      const std::vector<FieldText> there = texts_there();
      if (!there.empty()) return there.front().place;
    }
    return next_.field == PromptField::kTemplate ? place_ : next_;
  }

  // The known prompt has a thought here, and this one has none.
  bool lost_a_thought() const {
    const bool in_answer =
        (!has_place_ && significant()) || place_.role == PromptRole::kAssistant ||
        (in_template_ && (next_.role == PromptRole::kAssistant || previous_.role == PromptRole::kAssistant)) ||
        (in_template_ && facts_.comparison.there_gap > 0);
    // Of a thought that ends earlier the beginning is there.
    const bool has_some = place_.field == PromptField::kThinking || previous_.field == PromptField::kThinking;
    if (!in_answer || has_some) return false;
    const BreakText& text = facts_.text;
    const ThoughtTags& tags = facts_.thoughts;
    const bool opens = contains(text.there, tags.open) && !contains(text.here, tags.open);
    const bool closes = contains(text.there, tags.close) && !contains(text.here, tags.close);
    return opens || closes || (is_within_thought() && begins_with_close(text.here + text.after));
  }
  // The text before the difference opened a thought, and both sides may still close it.
  bool is_within_thought() const {
    const ThoughtTags& tags = facts_.thoughts;
    if (tags.open.empty() || tags.close.empty()) return false;
    const std::size_t open = facts_.text.before.rfind(tags.open);
    const std::size_t close = facts_.text.before.rfind(tags.close);
    return open != std::string::npos && (close == std::string::npos || close < open);
  }
  bool begins_with_close(std::string_view text) const {
    const std::size_t begin = text.find_first_not_of(" \n");
    return begin != std::string_view::npos && text.substr(begin).starts_with(facts_.thoughts.close);
  }
  bool sent_the_thought() const {
    return facts_.parts != nullptr && answer().role == PromptRole::kAssistant &&
           facts_.parts->sent_thoughts(answer().index);
  }
  // The answer whose thought differs; of another role if there is none.
  const PromptPlace& answer() const {
    if (place_.role == PromptRole::kAssistant) return place_;
    return next_.role == PromptRole::kAssistant ? next_ : previous_;
  }

  const BreakFacts& facts_;
  bool has_place_ = false;
  bool in_template_ = false;
  PromptPlace place_;
  PromptPlace previous_;
  PromptPlace next_;
  Position part_begin_;  // of the text that differs: the whole field
  Position part_end_;
};

}  // namespace

CacheBreak find_difference(const BreakFacts& facts) { return Difference(facts).find(); }

void add_calls(BreakFacts& facts, const TextOfRun& text) {
  if (!facts.at) return;
  const std::optional<std::size_t> calls = Difference(facts).calls_go_on();
  if (calls) facts.calls = call_words(facts, aligned_ends(facts.comparison, *calls, facts.known_rest.size()), text);
}

}  // namespace kvkeep::explain
