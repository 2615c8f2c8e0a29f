#pragma once

// Ends a thought that has reached its limit, or that a client wants to end: its closing tag is inserted, and the model
// continues after it. llama-server calls the limit the reasoning budget.
//
// Counts the tokens between the tags. A code point that takes several tokens is not cut in two. Engine thread only.

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "base/types.h"
#include "engine/sampling.h"

namespace kvkeep::engine {

class ThinkingLimit {
 public:
  explicit ThinkingLimit(ThinkingParams params);

  // Returns the token that comes next, whatever the model would choose.
  std::optional<TokenId> forced();
  // Takes the bytes of a token of the reply, sampled or forced.
  void accept(std::string_view piece);
  // Returns true if nothing can end a thought, or there is none any more: accept() need not be called.
  bool is_done() const { return state_ == State::kDone; }

 private:
  enum class State { kBefore, kThinking, kClosing, kDone };

  void begin();
  void look_for_beginning(std::string_view piece);
  void count(std::string_view piece);
  bool may_close(bool wanted);

  const ThinkingParams params_;
  State state_ = State::kDone;
  std::string text_;            // kBefore: all of the reply; kThinking: its end, where the closing tag may be
  std::size_t tokens_ = 0;      // kThinking: tokens of the thought
  std::size_t waited_ = 0;      // kThinking: times that a code point was not cut
  std::size_t closing_at_ = 0;  // kClosing: the next of close_tokens
};

}  // namespace kvkeep::engine
