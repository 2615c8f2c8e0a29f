#include "explain/cache_break.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <vector>

namespace kvkeep::explain {
namespace {

// A restart so little before the difference is none of the reasons.
constexpr std::size_t kSmallGap = 16;
// Changed stretches up to this length may be a line that changes each time.
constexpr std::size_t kShortChange = 96;
// Two messages of which less than one part in so many is the same are not two forms of one message.
constexpr std::size_t kSameShare = 4;
// So much text left out by a template is words of its own, and no message.
constexpr std::size_t kTemplateWords = 16;

constexpr std::array kKindNames = std::to_array<std::string_view>({"none",
                                                                   "new-content",
                                                                   "nothing-known",
                                                                   "volatile-text",
                                                                   "message-changed",
                                                                   "tools-reordered",
                                                                   "tools-changed",
                                                                   "call-reserialised",
                                                                   "thinking-dropped",
                                                                   "template-rewrote-history",
                                                                   "other-settings",
                                                                   "other-salt",
                                                                   "evicted",
                                                                   "damaged",
                                                                   "load-failed",
                                                                   "load-too-slow",
                                                                   "no-room",
                                                                   "no-point",
                                                                   "cache-off",
                                                                   "prompt-scored",
                                                                   "not-cacheable"});
static_assert(kKindNames.size() == kBreakKinds);

std::optional<BreakKind> kind_of(Hindrance hindrance) {
  switch (hindrance) {
    case Hindrance::kNone: return std::nullopt;
    case Hindrance::kCacheOff: return BreakKind::kCacheOff;
    case Hindrance::kPromptScored: return BreakKind::kPromptScored;
    case Hindrance::kNotCacheable: return BreakKind::kNotCacheable;
    case Hindrance::kDamaged: return BreakKind::kDamaged;
    case Hindrance::kLoadFailed: return BreakKind::kLoadFailed;
    case Hindrance::kLoadTooSlow: return BreakKind::kLoadTooSlow;
    case Hindrance::kNoRoom: return BreakKind::kNoRoom;
  }
  return std::nullopt;
}

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

// The known words are all there, whatever their order: added defaults say nothing.
bool says_the_same(std::string_view here, std::string_view there) {
  const auto mine = words_of(here);
  const auto known = words_of(there);
  return std::ranges::includes(mine, known) || std::ranges::includes(known, mine);
}

bool contains(std::string_view text, std::string_view words) { return !words.empty() && text.contains(words); }

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
    if (const PromptPart* tool = place_.field == PromptField::kTool ? nullptr : tool_put_in_or_left_out()) {
      place_ = tool->place;
    }
  }

  CacheBreak find() {
    CacheBreak found{.at = facts_.at, .has_place = has_place_, .place = place_, .differs = true};
    found.lost_tokens = significant() ? facts_.comparison.common : 0;
    found.what = volatile_text({facts_.text.before, facts_.text.here, facts_.text.there, facts_.text.after});
    found.kind = kind(found.what);
    if (found.kind != BreakKind::kVolatileText) found.what = VolatileText::kNone;
    // A message that begins there is what changed, not the words before it.
    const bool begins = found.kind == BreakKind::kMessageChanged || found.kind == BreakKind::kNewContent;
    if (begins && place_.field == PromptField::kTemplate && next_.field != PromptField::kTemplate) found.place = next_;
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
  bool was_cut() const {
    return facts_.comparison.here_gap <= kShortChange && facts_.comparison.there_gap > kShortChange;
  }
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

  // The template's signs within calls and tools belong to them.
  void settle_place() {
    if (!in_template_) return;
    for (const PromptField field : {PromptField::kTool, PromptField::kCalls}) {
      if (previous_.field == field && next_.field == field) place_ = next_;
    }
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
    if (place_.field == PromptField::kCalls && says_the_same(facts_.text.here, facts_.text.there)) {
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

  // Phrases that several tools have are found at other places as well: most of a tool must have moved.
  bool a_tool_moved() const {
    if (facts_.comparison.moved < kLeastLost || facts_.parts == nullptr) return false;
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
    if (is_short() && (replaced() || what != VolatileText::kNone)) return BreakKind::kVolatileText;
    return BreakKind::kMessageChanged;
  }

  BreakKind kind_in_message(VolatileText what) const {
    if (place_.role == PromptRole::kSystem && is_another_message()) return BreakKind::kNewContent;
    if (place_.role == PromptRole::kTool || place_.role == PromptRole::kAssistant) return kind_in_answer(what);
    if (what == VolatileText::kBillingLine || what == VolatileText::kGitStatus) return BreakKind::kVolatileText;
    if (is_short() && what != VolatileText::kNone) return BreakKind::kVolatileText;
    if (is_short() && replaced() && goes_on()) return BreakKind::kVolatileText;
    // Another task before text that stayed: nothing of it was there before.
    const bool task = place_.role == PromptRole::kUser && place_.field == PromptField::kContent && !goes_on();
    return task && !in(KnownFrom::kSameConversation) ? BreakKind::kNewContent : BreakKind::kMessageChanged;
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
    if (in(KnownFrom::kSameConversation) || !replaced() || was_cut()) return BreakKind::kMessageChanged;
    const bool is_edited = place_.field == PromptField::kContent && !is_tool && goes_on();
    return is_edited ? BreakKind::kMessageChanged : BreakKind::kNewContent;
  }

  // A message put in or left out brings text; a template that changes its mind only words of its own.
  BreakKind kind_between_messages(VolatileText what) const {
    if (what == VolatileText::kDate || what == VolatileText::kTime) return BreakKind::kVolatileText;
    const bool own_words = !goes_on_in_text() && facts_.comparison.there_gap <= kTemplateWords;
    if (own_words) return BreakKind::kTemplateRewrote;
    return in(KnownFrom::kAnother) ? BreakKind::kNewContent : BreakKind::kMessageChanged;
  }
  bool goes_on_in_text() const { return *facts_.at + facts_.comparison.here_gap > part_end_; }

  // The known prompt has a thought here, and this one has none.
  bool lost_a_thought() const {
    const bool in_answer =
        !has_place_ || place_.role == PromptRole::kAssistant ||
        (in_template_ && (next_.role == PromptRole::kAssistant || previous_.role == PromptRole::kAssistant)) ||
        (in_template_ && facts_.comparison.there_gap > 0);
    if (!in_answer || place_.field == PromptField::kThinking) return false;
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

// ---- all facts ----

CacheBreak with_place(const BreakFacts& facts, CacheBreak found) {
  if (!found.at || facts.parts == nullptr || facts.parts->parts.empty()) return found;
  const std::vector<PromptPart>& parts = facts.parts->parts;
  const std::size_t part = facts.parts->find(*found.at);
  // New text begins with the template's words before it.
  const bool begins = parts[part].place.field == PromptField::kTemplate && part + 1 < parts.size();
  found.has_place = true;
  found.place = parts[begins ? part + 1 : part].place;
  return found;
}

CacheBreak simple(const BreakFacts& facts, BreakKind kind, std::size_t lost_tokens) {
  return with_place(facts, {.kind = kind, .at = Position{} + facts.cached_tokens, .lost_tokens = lost_tokens});
}

std::size_t unused(const BreakFacts& facts) {
  return facts.known_tokens - std::min(facts.known_tokens, facts.cached_tokens);
}

CacheBreak from_loss(const BreakFacts& facts) {
  const bool damaged = facts.lost->cause == LossCause::kDamaged;
  CacheBreak found =
      simple(facts, damaged ? BreakKind::kDamaged : BreakKind::kEvicted, facts.lost->tokens + unused(facts));
  found.lost = facts.lost;
  return found;
}

// Prompts that begin otherwise and share a part by chance are not each other's changed form.
bool shares_by_chance(const BreakFacts& facts, const CacheBreak& found) {
  const bool by_text = found.kind == BreakKind::kMessageChanged || found.kind == BreakKind::kNewContent ||
                       found.kind == BreakKind::kToolsChanged || found.kind == BreakKind::kToolsReordered ||
                       (found.kind == BreakKind::kVolatileText && found.what == VolatileText::kNone);
  // Tools that were put in are new, however many they are.
  const std::size_t put_in = found.kind == BreakKind::kToolsChanged ? facts.comparison.here_gap : 0;
  return by_text && facts.comparison.common * 2 < facts.prompt_tokens - std::min(put_in, facts.prompt_tokens);
}
// The difference tells more than that nothing is known of a prompt that begins like this one.
bool tells_more(const BreakFacts& facts, const CacheBreak& found) {
  const bool explained = facts.other_salt || facts.other_settings;
  return !shares_by_chance(facts, found) && !(explained && found.kind == BreakKind::kNewContent);
}

CacheBreak of_unknown(const BreakFacts& facts) {
  const BreakKind kind = facts.other_salt       ? BreakKind::kOtherSalt
                         : facts.other_settings ? BreakKind::kOtherSettings
                                                : BreakKind::kNothingKnown;
  const bool was_known = kind != BreakKind::kNothingKnown;
  return simple(facts, kind, was_known ? facts.prompt_tokens - facts.cached_tokens : 0);
}

}  // namespace

std::string_view to_string(BreakKind kind) { return kKindNames[static_cast<std::size_t>(kind)]; }

CacheBreak find_break(const BreakFacts& facts) {
  const std::optional<BreakKind> hindered = kind_of(facts.hindrance);
  if (hindered && bypasses_cache(*hindered)) return simple(facts, *hindered, facts.prompt_tokens - facts.cached_tokens);
  if (facts.cached_tokens + 1 >= facts.prompt_tokens) return {};
  if (hindered && unused(facts) > 0) {
    CacheBreak found = simple(facts, *hindered, unused(facts));
    if (*hindered == BreakKind::kDamaged) found.lost = facts.lost;
    return found;
  }
  if (facts.lost && facts.lost->tokens + unused(facts) >= kSmallGap) return from_loss(facts);
  // A few more tokens than the template's own are chance.
  const bool unlike = facts.known_tokens <= facts.beginning_tokens + kSmallGap;
  if (facts.at) {
    CacheBreak found = Difference(facts).find();
    if (!unlike || tells_more(facts, found)) {
      const bool is_new = found.kind == BreakKind::kNewContent;
      if (is_new && unused(facts) > kSmallGap) return simple(facts, BreakKind::kNoPoint, unused(facts));
      found.lost_tokens += unused(facts);
      return found;
    }
  }
  if (unlike) return of_unknown(facts);
  if (unused(facts) > kSmallGap) {
    // A prompt that was known to its end goes on from a point a little before it.
    return simple(facts, BreakKind::kNoPoint, unused(facts));
  }
  if (facts.known_tokens >= facts.prompt_tokens) return {};
  return simple(facts, BreakKind::kNewContent, 0);
}

std::string place_name(const CacheBreak& found) {
  if (!found.has_place) return "the prompt";
  const PromptPlace& place = found.place;
  const std::uint32_t number = place.index + 1;
  switch (place.field) {
    case PromptField::kTemplate: return "the template's own words";
    case PromptField::kTool: return fmt::format("tool {}", number);
    case PromptField::kThinking: return fmt::format("thinking of message {}", number);
    case PromptField::kCalls: return fmt::format("calls of message {}", number);
    case PromptField::kContent:
    case PromptField::kOther: break;
  }
  switch (place.role) {
    case PromptRole::kSystem: return number == 1 ? "system" : fmt::format("message {} (system)", number);
    case PromptRole::kUser: return fmt::format("message {} (user)", number);
    case PromptRole::kAssistant: return fmt::format("message {} (assistant)", number);
    case PromptRole::kTool: return fmt::format("message {} (tool result)", number);
    case PromptRole::kNone: break;
  }
  return "a variable of the template";
}

std::string_view advice(const CacheBreak& found) {
  using enum BreakKind;
  switch (found.kind) {
    case kNone: return "";
    case kNewContent:
      if (found.lost_tokens < kLeastLost) return "";
      if (found.has_place && (found.place.role == PromptRole::kTool || found.place.role == PromptRole::kAssistant)) {
        return "A tool or the model answered otherwise than the last time, before text that is the same again. There "
               "is nothing to do, unless a tool prints what need not be there, such as times or an order by chance.";
      }
      return "Text that stays the same comes after text that is new each time: put it first. For Claude Code with a "
             "model name that it does not know, --stabilize all,late-system does so.";
    case kNothingKnown: return "";
    case kVolatileText:
      return found.what == VolatileText::kBillingLine
                 ? "Do not switch off --stabilize billing-line, which leaves this line out."
                 : "Put the text that changes at the end of the prompt or into the last message, or make it coarser "
                   "(a date without the time).";
    case kMessageChanged:
      return "The client changed, inserted or left out an earlier message. Append instead, and shorten a conversation "
             "rarely and in one step.";
    case kToolsReordered: return "Send the tools in the same order each time, for instance sorted by name.";
    case kToolsChanged:
      return "Send the same tools with the same descriptions each time; tools that come and go belong at the end of "
             "the list.";
    case kCallReserialised:
      return "Send the arguments of calls back as they came. With --replay exact the sampled form is used if the "
             "arguments say the same.";
    case kThinkingDropped:
      return "Send the thinking of earlier answers back (reasoning_content, or the thinking blocks of the Messages "
             "API).";
    case kTemplateRewrote:
      return "The model's chat template writes earlier turns otherwise once others follow. With --prefill-ahead an "
             "idle server prefills that form ahead of the next request.";
    case kOtherSettings:
      return "Rows are reused only by the same model file with the same cache types, RoPE and LoRA flags. Start the "
             "server with the flags of before, or expect one prefill.";
    case kOtherSalt:
      return "Requests share cached state only with the same cache_salt (and the same key, with "
             "--cache-salt-by-key). Keep it for a conversation.";
    case kEvicted:
      if (!found.lost) {
        return "Give the cache more room or time (--cache-ram, --kv-disk-space-mb, --kv-cache-ttl-hours), or pin the "
               "prefix (kvkeep cache pin).";
      }
      if (found.lost->cause == LossCause::kExpired) return "Raise --kv-cache-ttl-hours.";
      if (found.lost->cause == LossCause::kRamBudget)
        return "Raise --cache-ram, or give the cache a disk (--kv-disk-dir, --kv-disk-space-mb).";
      if (found.lost->cause == LossCause::kDiskBudget)
        return "Raise --kv-disk-space-mb, or pin the prefix (kvkeep cache pin).";
      return "Another program, server or request removed the state.";
    case kDamaged:
      return "Look at the log: a file of the cache was damaged. Check the disk; kvkeep cache verify "
             "--repair checks the rest.";
    case kLoadFailed: return "Look at the log: the disk or the model's memory refused to give or take the state.";
    case kLoadTooSlow:
      return "The disk is slower than this prefill. Use a faster disk or more --cache-ram; --restore always loads "
             "anyway.";
    case kNoRoom: return "Raise -c, or run fewer requests at a time (-np).";
    case kNoPoint:
      return "This model goes on only from points (docs/cuts.md). More room (--cache-ram, --kv-disk-space-mb) keeps "
             "more of them.";
    case kCacheOff: return "Leave cache_prompt out of the request, and --no-cache-prompt out of the server's flags.";
    case kPromptScored: return "Ask for the probabilities of the prompt (echo with logprobs) only where they are used.";
    case kNotCacheable: return "The log says at start why this model is served without a cache.";
  }
  return "";
}

}  // namespace kvkeep::explain
