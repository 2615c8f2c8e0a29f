#pragma once

// Where the text of a rendered prompt came from, token by token (base/prompt_parts.h).
//
// Templates print members of messages and tools. Each member is a place with a number, which its printed bytes carry
// through all filters (jinja/template.h); here numbers become messages and fields, and bytes become tokens.

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <vector>

#include "base/prompt_parts.h"
#include "base/types.h"
#include "base/vocabulary.h"

namespace kvkeep::chat {

struct RenderedPrompt;

// Number n of Variable::first_place is entry n - 1: of the members of the messages, then of the tools.
struct PromptPlaces {
  std::vector<PromptPlace> members;
  std::vector<std::uint32_t> has_thoughts;  // as PromptParts
  std::uint32_t messages = 0;
  std::uint32_t tools = 0;
  std::uint32_t first_of_tools = 1;

  // Returns the place of a number; one without a number is another field of no message.
  PromptPlace at(std::uint32_t number) const {
    return number == 0 || number > members.size() ? PromptPlace{PromptField::kOther} : members[number - 1];
  }
};

// `messages` and `tools` are those that the template gets: lists of objects, or anything else without places.
PromptPlaces places_of(const nlohmann::ordered_json& messages, const nlohmann::ordered_json& tools);

// The bytes of every id's text, laid out once: asking a tokenizer for each piece would take longer. Immutable, thread
// safe; 2 bytes per id.
class PieceSizes {
 public:
  explicit PieceSizes(const Vocabulary& vocabulary);
  std::size_t of(TokenId id) const {
    return id < 0 || static_cast<std::size_t>(id) >= sizes_.size() ? 0 : sizes_[static_cast<std::size_t>(id)];
  }

 private:
  std::vector<std::uint16_t> sizes_;
};

// `ids` is the tokenized prompt, of which the first `without_text` (a BOS) are none of its text. Markers keep the two
// in step, so that a tokenizer that drops or adds blanks misplaces only tokens before the next marker. Cost: O(ids +
// spans).
PromptParts parts_of(const RenderedPrompt& prompt, TokenSpan ids, const PieceSizes& sizes,
                     std::size_t without_text = 0);

// Some turns were replaced by other ids. `from` and `to`: where the same turns begin before and after, equally many;
// a part that began within a turn begins as far after its beginning, or at its end. `end` is the new number of ids.
void move_parts(PromptParts& parts, const std::vector<Position>& from, const std::vector<Position>& to, Position end);

}  // namespace kvkeep::chat
