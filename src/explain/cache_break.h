#pragma once

// Why a prompt reused no more: the kind of the break, its place, its price and an advice. docs/explain.md has the kinds
// for users.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "base/prompt_parts.h"
#include "base/types.h"
#include "explain/comparison.h"
#include "explain/loss.h"

namespace kvkeep::explain {

enum class BreakKind : std::uint8_t {
  kNone,              // the whole prompt was reused
  kNewContent,        // the rest came for the first time
  kNothingKnown,      // no known prompt begins like it
  kVolatileText,      // a text that changes again and again stands before text that stayed the same
  kMessageChanged,    // a text was edited, put in or left out before text that stayed the same
  kToolsReordered,    // the same tools in another order
  kToolsChanged,      // tools were described anew, put in or left out
  kCallReserialised,  // a call came back with the same arguments in other words
  kThinkingDropped,   // the client sent a turn back without its thinking
  kTemplateRewrote,   // the template writes an earlier turn otherwise than before
  kOtherSettings,     // known for another model or other flags only
  kOtherSalt,         // the same session sent it with another cache_salt
  kEvicted,           // known once; its rows left all tiers
  kDamaged,
  kLoadFailed,
  kLoadTooSlow,
  kNoRoom,   // in the model's memory
  kNoPoint,  // the model goes on only from points, and no deeper one is kept
  kCacheOff,
  kPromptScored,
  kNotCacheable,
};
// Fewer tokens that two prompts share after their difference are no loss; fewer lost tokens of any kind are no offence.
inline constexpr std::size_t kLeastLost = 32;
// A text changes again and again if its client sent so many others in its place: one other may be an edit.
inline constexpr std::size_t kLeastValues = 2;
inline constexpr std::size_t kBreakKinds = static_cast<std::size_t>(BreakKind::kNotCacheable) + 1;
std::string_view to_string(BreakKind kind);  // "volatile-text"
// The request or the server does not use the cache: nothing was looked up, and the whole prompt counts as lost.
constexpr bool bypasses_cache(BreakKind kind) {
  return kind == BreakKind::kCacheOff || kind == BreakKind::kPromptScored || kind == BreakKind::kNotCacheable;
}

// ---- texts that programs put into prompts and that change each time: volatile_text.cc ----

enum class VolatileText : std::uint8_t {
  kNone,         // nothing that is known to change
  kBillingLine,  // of Claude Code
  kGitStatus,    // branch, changed files, recent commits
  kDate,
  kTime,    // of day
  kNumber,  // digits, also of hexadecimal numbers and UUIDs
};
std::string_view to_string(VolatileText text);  // "date"; "text" for kNone

// A place where two texts differ.
struct ChangedText {
  std::string_view before;  // shared text before the change; a few lines are enough
  std::string_view here;    // up to where both go on alike, or less
  std::string_view there;
  std::string_view after;  // shared text after it, if there is any; a line is enough
};

// Decides by the changed words and the line around them, for git by the lines above it.
VolatileText volatile_text(const ChangedText& text);

// The line in which the texts differ, as far as both have it: from its beginning up to the change, at most `most` bytes
// of its end.
std::string_view line_before(std::string_view before, std::size_t most = 80);

// ---- the facts, and what follows from them ----

// The obstacle that kept known state from being used.
enum class Hindrance : std::uint8_t {
  kNone,
  kCacheOff,
  kPromptScored,
  kNotCacheable,
  kDamaged,
  kLoadFailed,
  kLoadTooSlow,
  kNoRoom,
};

// Text on both sides of the first difference. Bytes may be cut in the middle of a character.
struct BreakText {
  std::string before;  // shared
  std::string here;    // from the difference on, up to where both go on alike, or less
  std::string there;
  std::string after;  // shared text after that, if there is any
};

// Words of the calls in which a difference lies, from the difference to their end; what both have alike may be left
// out.
struct CallWords {
  std::string here;
  std::string there;
};

// Spellings with which the model's thoughts begin and end; "": it has none.
struct ThoughtTags {
  std::string open;
  std::string close;
};

// The conversation in which the known text was sent, as far as clients name their conversations.
enum class KnownFrom : std::uint8_t {
  kUnknown,
  kSameConversation,  // the client sent other text at this place before
  kAnother,           // another conversation of the same client
};

struct BreakFacts {
  std::size_t prompt_tokens = 0;
  std::size_t cached_tokens = 0;
  std::size_t known_tokens = 0;      // were computed once, though their state may be gone
  std::size_t beginning_tokens = 0;  // with which the template begins every prompt
  Hindrance hindrance = Hindrance::kNone;
  std::optional<Position> at = {};  // the first token that differs from the nearest known prompt; empty: none differs
  Comparison comparison = {};       // from there on
  const PromptParts* parts = nullptr;          // null: the prompt has no messages
  const PromptParts* known_parts = nullptr;    // of the nearest known prompt; null: not known
  std::size_t known_prompt_tokens = SIZE_MAX;  // of that prompt; the reply to it may follow
  TokenSpan tokens = {};                       // of the prompt, with a known prompt's parts
  TokenSpan known_rest = {};                   // the known prompt from the difference on
  BreakText text = {};
  std::optional<CallWords> calls = {};  // by add_calls()
  KnownFrom known_from = KnownFrom::kUnknown;
  ThoughtTags thoughts = {};
  std::optional<LostState> lost = {};
  std::size_t other_values = 0;  // texts that the client sent at the place of the difference, without this prompt's own
  bool other_settings = false;   // the directory has this prompt for another model or other flags
  bool other_salt = false;       // the session sent a prompt that begins like it with another salt
};

struct CacheBreak {
  BreakKind kind = BreakKind::kNone;
  std::optional<Position> at = {};  // the first token that is not reused for this reason
  bool has_place = false;
  PromptPlace place = {};  // of that token
  VolatileText what = VolatileText::kNone;
  std::size_t lost_tokens = 0;  // prefilled although they were computed before, as far as that is known
  std::optional<LostState> lost = {};
  bool differs = false;  // `at` is a difference: the facts' texts belong to it
};

// Returns the bytes of a run of tokens.
using TextOfRun = std::function<std::string(TokenSpan)>;
// Call it after all other facts of a difference. Cost: detokenizes 1,024 tokens of each side at most.
void add_calls(BreakFacts& facts, const TextOfRun& text);

// Cost: a few scans of the facts' texts, and one of the tools if the prompts differ there.
CacheBreak find_break(const BreakFacts& facts);
// The same of a prompt that differs from a known one and lost nothing: difference.cc.
CacheBreak find_difference(const BreakFacts& facts);

// "system", "tool 3", "message 7 (user)", "calls of message 8", "thinking of message 8", "the template's own words".
// Numbers count from 1.
std::string place_name(const CacheBreak& found);
// Returns one or two sentences about the remedy; "" if nothing needs doing.
std::string_view advice(const CacheBreak& found);

}  // namespace kvkeep::explain
