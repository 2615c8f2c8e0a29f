#pragma once

// Finds where turns begin in a prompt's ids.
//
// Every template opens a turn in its own way (`<|im_start|>user`, `<|User|>`, `<start_of_turn>model`), so the openings
// are learnt once per template from a rendered example. An opening starts with a marker, and text never yields a
// marker, so a match in a prompt is a turn and never part of a message. The learnt traits decide only where state is
// saved: a template from which nothing can be learnt costs time, never correctness.

#include <optional>
#include <vector>

#include "base/types.h"
#include "base/vocabulary.h"
#include "chat/marker_set.h"
#include "chat/render.h"

namespace kvkeep::chat {

// Ids that open a turn, from its first marker to the end of the role's name; empty: not learnt. White space after the
// name is left out, because tokenizers join it to the text after it.
struct TurnOpenings {
  std::vector<TokenId> user = {};
  std::vector<TokenId> assistant = {};  // as far as history and the opening for a new answer agree
  // Opens tool results that begin like user turns and go on as no user turn does (`<|im_start|>user\n<tool_response>`).
  // Empty: they open otherwise, or exactly like user turns, and count as such.
  std::vector<TokenId> tool_result = {};
  // Opens an answer after tools' results, if it begins with the results' end (`[/TOOL_RESULTS]`). Empty: as any other.
  std::vector<TokenId> answer_to_result = {};
  // Closes an answer in history; empty: not learnt, or nothing. It need not end generation (`<|end|>`).
  std::optional<TokenId> end = {};
  // Ids that all prompts begin with, whatever their texts: with a system message, without one, with tools; and BOS.
  std::vector<std::vector<TokenId>> beginnings = {};
  bool operator==(const TurnOpenings&) const = default;
};

// Renders synthetic conversations. Learns nothing from templates that refuse them or write no markers.
TurnOpenings learn_turn_openings(const ChatTemplate& chat_template, const MarkerSet& markers,
                                 const Vocabulary& vocabulary);

// The size of the opening of the assistant's turn at the front of `ids`.
std::size_t answer_opening_size(TokenSpan ids, const TurnOpenings& openings);

// Returns how many ids the template wrote before the prompt's first text: prompts that share no more have nothing in
// common.
std::size_t beginning_size(TokenSpan prompt, const TurnOpenings& openings);

struct PromptTurns {
  std::vector<Position> user;       // of each opening's marker, ascending
  std::vector<Position> assistant;  // the opening for the new answer, if the prompt ends with one, is the last
  // The end of the prompt rendered without its generation prompt: every next version of the prompt begins with all that
  // lies before, also if another role speaks in place of the answer. The end of the prompt if it opens no answer.
  Position stable_end;
  std::vector<Position> tool_results = {};  // those that open like user turns; ascending, none of them in `user`
  bool operator==(const PromptTurns&) const = default;
};

// Cost: O(prompt).
PromptTurns find_turns(TokenSpan prompt, const TurnOpenings& openings);

// Returns the ids of a part of a conversation from the text of its last user message on; all of them if none begins in
// it.
TokenSpan from_last_user_text(TokenSpan ids, const TurnOpenings& openings);

}  // namespace kvkeep::chat
