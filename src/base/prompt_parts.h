#pragma once

// Which message and field each token of a prompt came from: kept from rendering until the prompt was looked up, so that
// a miss can be explained (src/explain). A few bytes for each stretch of tokens, not for each token.

#include <algorithm>
#include <cstdint>
#include <vector>

#include "base/types.h"

namespace kvkeep {

enum class PromptField : std::uint8_t {
  kTemplate,  // the template's own words
  kContent,   // the text of a message
  kThinking,
  kCalls,  // names and arguments of tool calls
  kTool,   // the description of a tool
  kOther,  // another field of a message, or the template's variables
};

enum class PromptRole : std::uint8_t { kNone, kSystem, kUser, kAssistant, kTool };

struct PromptPlace {
  PromptField field = PromptField::kTemplate;
  PromptRole role = PromptRole::kNone;  // of the message; kNone: it belongs to no message
  std::uint32_t index = 0;              // of the message or the tool, from 0 on
  bool operator==(const PromptPlace&) const = default;
};

// A stretch of tokens, up to the beginning of the next one.
struct PromptPart {
  Position begin;
  PromptPlace place;
  bool operator==(const PromptPart&) const = default;
};

// The parts ascend. A token that has bytes of two places belongs to the place of its first byte.
struct PromptParts {
  std::vector<PromptPart> parts = {};            // empty: the prompt has no messages
  std::vector<std::uint32_t> has_thoughts = {};  // messages that the client sent with thinking, ascending
  std::uint32_t messages = 0;
  std::uint32_t tools = 0;

  // Returns the number of the part that the token lies in. Precondition: there are parts.
  std::size_t find(Position at) const {
    const auto after = std::ranges::upper_bound(parts, at, {}, &PromptPart::begin);
    return after == parts.begin() ? 0 : static_cast<std::size_t>(after - parts.begin()) - 1;
  }
  bool sent_thoughts(std::uint32_t message) const { return std::ranges::binary_search(has_thoughts, message); }
};

}  // namespace kvkeep
