#pragma once

// Exact replay: an assistant's turn that a client sends back is put into the prompt as it was sampled.
//
// A model samples ids; the client gets text and JSON, and sends back what it makes of them: arguments written anew, a
// default added, thinking left out. Rendered and tokenized these give other ids, and all that was computed from there
// on would be lost. So the ids are remembered under the prompt they were sampled after, and the rule is:
//
//   A turn in a rendered prompt is replaced by sampled ids if and only if the ids before it are those that they were
//   sampled after, and both say the same (turn_meaning.h).
//
// What is replaced is what the turn says: up to the first token of the rendering that ends generation, before anybody
// else speaks. That token stays, whatever ended the reply: another such token, a stop string, or its length. So no turn
// is ended by what the template would not end it with. Two things are no matter of what is said, and hold besides:
//
// - No marker is placed where the client knows text: a turn whose text, thinking or arguments spell a marker that
//   stands in it, as sampled or as rendered, stays as rendered. Half a call that the length cut short is such text.
// - What ended otherwise than the template ends it must leave nothing open, neither a thought nor a call: text that
//   followed it would be text.
//
// The template has the last word: where it writes a turn without its thinking, the turn does not say the same, and
// stays as rendered. Thinking that only the client left out is told, so that the prompt can be rendered with it. As the
// prompt decides what is found, which turns' thinking the template would write is to be known before it is told.

#include <cstddef>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/hash.h"
#include "base/types.h"
#include "chat/marker_set.h"
#include "chat/replay/turn_meaning.h"
#include "chat/replay/turn_memory.h"
#include "chat/turns.h"

namespace kvkeep::chat {

// Reads ids of an assistant's turn, from after its opening (TurnOpenings::assistant) to before its end: the same for
// what was sampled and for what was rendered. `behind`: text as if it followed them. Nothing: these are not one turn (a
// turn ends within them).
using ReadTurn = std::function<std::optional<TurnMeaning>(TokenSpan ids, std::string_view behind)>;
using EndsGeneration = std::function<bool(TokenId)>;
using FindTurns = std::function<std::vector<TurnMemory::Turn>(const PrefixHash& before)>;

// What the client sent of an assistant's message, beyond what is rendered.
struct EchoedMessage {
  bool has_reasoning = false;
  bool would_have_reasoning = false;  // sent with thinking, it would be rendered with it
  std::vector<std::string> call_ids = {};
};

struct ReplayInput {
  TokenSpan rendered;  // ends with the opening for a new answer
  const TurnOpenings& openings;
  const MarkerSet& markers;
  const EndsGeneration& ends;
  FingerprintHash key;                      // of the prefix hashes
  std::span<const EchoedMessage> messages;  // the assistant's, in order
};

struct Replayed {
  std::vector<TokenId> ids;
  std::size_t matched = 0;  // turns that say what was sampled
  std::size_t turns = 0;    // of these, those that were rendered otherwise
  // A turn stays as rendered for nothing but its thinking, which the client left out and nobody said would be rendered.
  bool lacks_thoughts = false;
  // Thinking that the client left out and that would be rendered: number of the assistant's message, text. If there is
  // any, `ids` are not the prompt: render again with it.
  struct Thought {
    std::size_t message = 0;
    std::string text;
  };
  std::vector<Thought> thoughts = {};
};

// Cost: O(prompt) for hashing, and reading the turns that are remembered.
Replayed replay_turns(const ReplayInput& input, const FindTurns& find, const ReadTurn& read);

// Where the answer to a prompt opens, and the hash of what lies before: the turn is remembered under it. Nothing: the
// template's openings are not known.
struct OpenTurn {
  PrefixHash before;
  Position begin;
};
std::optional<OpenTurn> open_turn(TokenSpan prompt, const TurnOpenings& openings, const FingerprintHash& key);

}  // namespace kvkeep::chat
