#pragma once

// Where prompts of a client are likely to part, told from their text. Pure.
//
// Two sessions of an agent differ in few lines until the user's task: the date, the state of a repository, what the
// agent tells of its environment. A sub-agent has some tools less. Where such a line begins a point is worth its bytes,
// before any prompt has parted there. What is told here costs or saves time, never correctness.

#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/types.h"

namespace kvkeep::policy {

// A line of a prompt's text, as far as it decides anything.
struct TextLine {
  Position at;       // of the token in which it begins
  std::string text;  // its first kLineBytes at most, without white space around
  bool operator==(const TextLine&) const = default;
};
inline constexpr std::size_t kLineBytes = 96;

// The bytes of an id; empty for markers, at which lines end, too.
using TextOf = std::function<std::string_view(TokenId)>;
// The lines of prompt[from, until) that are not blank. Cost: O(until - from).
std::vector<TextLine> lines_of(TokenSpan prompt, TokenRange range, const TextOf& text_of);

// It holds a date or a time, the state of a repository, or opens what an agent tells of its environment.
bool tells_state(std::string_view line);
// It begins the declaration of a tool, as chat templates write it.
bool declares_tool(std::string_view line);
// It ends what an agent puts before its user's words.
bool ends_reminder(std::string_view line);

struct LikelyPartings {
  std::vector<Position> lines;  // ascending, at most kMostLikelyLines
  std::vector<Position> tools;  // ascending
};
inline constexpr std::size_t kMostLikelyLines = 16;

// True if prompts parted on such lines before; `before`: the line before it, or empty.
using PartedBefore = std::function<bool(std::string_view line, std::string_view before)>;
// Of lines that tell a state one after the other (a log, a listing), the first counts. Tools and user's words are
// looked for before `first_answer` alone: after it, text that looks like them is a tool's result.
LikelyPartings likely_partings(std::span<const TextLine> lines, Position first_answer, const PartedBefore& parted);

}  // namespace kvkeep::policy
