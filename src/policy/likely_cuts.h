#pragma once

// Where prompts of a client are likely to branch off from each other, read from their text. Pure.
//
// Two sessions of an agent differ in few lines until the user's task: the date, the state of a repository, the agent's
// description of its environment. A sub-agent has some tools less. A point where such a line begins saves prefill
// already for the first prompt that branches off there. A wrong guess costs time, never correctness.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <list>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
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

// Returns true if it holds a date, a time or a repository's state, or opens an agent's description of its environment.
bool tells_state(std::string_view line);
// Returns true if it begins the declaration of a tool, as chat templates write it.
bool declares_tool(std::string_view line);
// Returns true if it ends the text that an agent puts before its user's words.
bool ends_reminder(std::string_view line);

struct LikelyCuts {
  std::vector<Position> lines;  // ascending, at most kMostLikelyLines
  std::vector<Position> tools;  // ascending
};
inline constexpr std::size_t kMostLikelyLines = 16;

// Returns true if prompts differed in such lines before; `before`: the line before it, or empty.
using ChangedBefore = std::function<bool(std::string_view line, std::string_view before)>;
// If several lines in a row tell a state (a log, a listing), only the first counts. Tools and the user's words are
// looked for only before `first_answer`: after it, text that looks like them is a tool's result.
LikelyCuts find_likely_cuts(std::span<const TextLine> lines, Position first_answer, const ChangedBefore& changed);

// Remembers how lines began in which prompts of a client differed, so that a point is cut there in its next
// conversation, whose path is another. Not thread safe; lives as long as the process.
//
// Remembers the common part of a line in which two prompts differ, up to the last whole word and without
// numbers, which change. If nothing is left of it, the line before is: the one after such a line differs.
class ChangedLines {
 public:
  // Each of `clients` has at most `heads`; the ones used least recently are forgotten.
  explicit ChangedLines(std::size_t clients = 64, std::size_t heads = 32) : clients_(clients), heads_(heads) {}

  // Two prompts of the client differ in a line. `shared`: what both have of it. `before`: the line before it.
  void learn(std::uint64_t client, std::string_view shared, std::string_view before);
  // Returns true if prompts of the client differed in such a line, or in one after such as `before`.
  bool holds(std::uint64_t client, std::string_view line, std::string_view before);

  std::size_t clients() const { return known_.size(); }
  std::size_t heads(std::uint64_t client) const;

 private:
  struct Head {
    std::string text;
    bool next_line = false;  // the line after one that begins so
    bool operator==(const Head&) const = default;
  };
  using Heads = std::list<Head>;  // used last comes first
  struct Client {
    std::uint64_t id = 0;
    Heads heads;
  };

  Client& use(std::uint64_t id);

  const std::size_t clients_;
  const std::size_t heads_;
  std::list<Client> order_;  // used last comes first
  std::unordered_map<std::uint64_t, std::list<Client>::iterator> known_;
};

}  // namespace kvkeep::policy
