#pragma once

// Exact replay: an assistant's turn that a client sends back is put into the prompt as it was sampled.
//
// A model samples ids; the client gets text and JSON, and sends back its own form of them: arguments written anew, a
// default added, thinking left out. Rendered and tokenized these give other ids, and everything computed from there on
// would be lost. So the ids are remembered under the prompt for which they were sampled, and the rule is:
//
//   A turn in a rendered prompt is replaced by sampled ids if and only if the ids before it are those for which they
//   were sampled, and both say the same (turn_meaning.h).
//
// The replaced part of a turn ends before the first token of the rendering that ends generation, before the next
// speaker
// begins. That token stays, however the reply ended: by another such token, a stop string, or its length. So the
// template's own end closes every turn. Two more rules hold:
//
// - No marker is placed where the client knows text: a turn whose text, thinking or arguments spell a marker that
//   stands in it, as sampled or as rendered, stays as rendered. Half a call that the length cut short is such text.
// - A turn that ended otherwise than the template ends it must leave no thought or call open: text after it is text.
//
// The template decides: if it writes a turn without its thinking, the turn does not say the same, and stays as
// rendered.
// Thinking that only the client left out is reported, so that the prompt can be rendered with it. As the prompt decides
// which turns are found, the caller must know beforehand which turns' thinking the template would write.

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

// Reads ids of an assistant's turn, from after its opening (TurnOpenings::assistant) to before its end, sampled or
// rendered alike. `behind`: text as if it followed them. Returns nullopt if these are not one turn (a turn ends within
// them).
using ReadTurn = std::function<std::optional<TurnMeaning>(TokenSpan ids, std::string_view behind)>;
using EndsGeneration = std::function<bool(TokenId)>;
using FindTurns = std::function<std::vector<TurnMemory::Turn>(const PrefixHash& before)>;

// The parts of an assistant's message that the client sent and that are not rendered.
struct EchoedMessage {
  bool has_reasoning = false;
  bool would_have_reasoning = false;  // with its thinking, it would be rendered with it
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
  std::size_t matched = 0;  // turns that say the same as sampled
  std::size_t turns = 0;    // of these, those that were rendered otherwise
  // A turn stays as rendered only for its thinking, which the client left out and which may not be rendered.
  bool lacks_thoughts = false;
  // Thinking that the client left out and that would be rendered: number of the assistant's message, text. If there is
  // any, `ids` are not the prompt: render again with it.
  struct Thought {
    std::size_t message = 0;
    std::string text;
  };
  std::vector<Thought> thoughts = {};
};

// Cost: O(prompt) for hashing, and reading the remembered turns.
Replayed replay_turns(const ReplayInput& input, const FindTurns& find, const ReadTurn& read);

// The place where the answer to a prompt opens, and the hash of the ids before it, under which the turn is remembered;
// nullopt if the template's openings are unknown.
struct OpenTurn {
  PrefixHash before;
  Position begin;
};
std::optional<OpenTurn> open_turn(TokenSpan prompt, const TurnOpenings& openings, const FingerprintHash& key);

}  // namespace kvkeep::chat
