#include "explain/cache_break.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <vector>

namespace kvkeep::explain {
namespace {

// A restart so little before the difference is none of the reasons.
constexpr std::size_t kSmallGap = 16;

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
  const bool damaged = is_damage(facts.lost->cause);
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

std::string_view advice_on_volatile(VolatileText what) {
  if (what == VolatileText::kBillingLine) {
    return "Do not switch off --stabilize billing-line, which leaves this line out.";
  }
  if (what == VolatileText::kNone) {
    return "The client sent at least three different texts here: put what changes at the end of the prompt or into the "
           "last message.";
  }
  return what == VolatileText::kTime
             ? "Put the text that changes at the end of the prompt or into the last message, or make it coarser (a "
               "date without the time)."
             : "Put the text that changes at the end of the prompt or into the last message.";
}

std::string_view advice_on_changed(const CacheBreak& found) {
  if (!found.has_place || found.place.role == PromptRole::kSystem) {
    return "A text before text that stayed the same was changed, which costs this prefill once. If it changes often, "
           "put it at the end of the prompt.";
  }
  return "The client changed, inserted or left out an earlier message. Append instead, and shorten a conversation "
         "rarely and in one step.";
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
    CacheBreak found = find_difference(facts);
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
    case kVolatileText: return advice_on_volatile(found.what);
    case kMessageChanged: return advice_on_changed(found);
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
      if (found.lost && found.lost->cause == LossCause::kRefused) {
        return "Look at the log: the model's memory did not take stored state whose bytes were whole, so that no disk "
               "is at fault. The state was dropped and computed anew; if that happens again, report it with the log.";
      }
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
