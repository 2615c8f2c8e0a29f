#pragma once

// A workload: conversations whose lengths are fixed in tokens; words.h makes their words. Text format, one statement
// per line, '#' begins a comment, the first line is "# " and the title:
//
//   context N                        -c of the server
//   small-context N                  -c that holds any one session, but not all
//   reply N                          tokens of each reply (greedy)
//   choices N                        optional: replies to each request, 1 to 64; the first joins the conversation
//   point-bound RATIO                optional: most of what may be prefilled / new, for models restored at points
//   system NAME N                    a system prompt of N tokens
//   open CONVERSATION SYSTEM         a conversation that begins with that system prompt
//   turn CONVERSATION N              a user message of N tokens; the reply joins the conversation
//   show CONVERSATION N PICTURE      the same, and a picture before the text (pictures.h)
//   branch NEW CONVERSATION N        NEW begins with the first N turns of CONVERSATION
//   quote NEW SYSTEM CONVERSATION N  one request: SYSTEM, then the last N turns of CONVERSATION as quoted text
//   kill SECONDS                     wait, kill -9, start again
//
// Names are words of at most 64 bytes without '#'; systems, conversations and pictures may share them, a quote's name
// is one of a conversation. A name of a picture stands for the same file in all conversations. Token counts go from 1
// to 10,000,000, seconds from 0 to 3600, ratios from 1 to 100.

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/result.h"

namespace kvkeep::bench {

struct DefineSystem {
  std::string name;
  std::uint32_t tokens;
  bool operator==(const DefineSystem&) const = default;
};
struct OpenConversation {
  std::string name;
  std::string system;
  bool operator==(const OpenConversation&) const = default;
};
struct Turn {
  std::string conversation;
  std::uint32_t tokens;
  bool operator==(const Turn&) const = default;
};
struct Show {
  std::string conversation;
  std::uint32_t tokens;
  std::string picture;
  bool operator==(const Show&) const = default;
};
struct Branch {
  std::string name;
  std::string origin;
  std::uint32_t turns;
  bool operator==(const Branch&) const = default;
};
struct Quote {
  std::string name;
  std::string system;
  std::string origin;
  std::uint32_t turns;
  bool operator==(const Quote&) const = default;
};
struct KillServer {
  double wait_seconds;
  bool operator==(const KillServer&) const = default;
};
using Step = std::variant<DefineSystem, OpenConversation, Turn, Show, Branch, Quote, KillServer>;

struct Workload {
  std::string name;   // of the file, without folder and extension
  std::string title;  // one line of UTF-8, without control characters
  std::uint32_t context_tokens = 0;
  std::uint32_t small_context_tokens = 0;
  std::uint32_t reply_tokens = 0;
  std::uint32_t choices = 1;
  std::optional<double> point_bound = {};  // replaces the usual one for models restored only at points
  std::vector<Step> steps;

  std::size_t requests() const;  // turns, with a picture or without, and quotes
  std::size_t kills() const;
  std::size_t pictures() const;  // different ones
};

// kInvalid with "NAME:LINE: reason" for text that cannot be parsed: unknown statements (the nearest one is suggested),
// wrong numbers of arguments, numbers out of range, names used before they are made or made twice, a branch or quote of
// more turns than there are, a quote continued, a quote of pictures, settings given twice or not at all, a small
// context above the large one, no request at all (errors about the whole text name the last line). At most 1 MiB of
// text and 100,000 steps.
Result<Workload> parse_workload(const std::string& name, std::string_view text);

// The workloads that come with the program (bench/workloads/*.txt), in the order of their names. Thread safe.
const std::vector<Workload>& builtin_workloads();

// A file of bench/workloads, which the build puts into the program (cmake/BuiltinTexts.cmake).
struct BuiltinText {
  std::string_view name;  // of the file, without folder and extension
  std::string_view text;
};

std::span<const BuiltinText> builtin_texts();

}  // namespace kvkeep::bench
