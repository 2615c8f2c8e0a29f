#pragma once

// Ends a thought that is as long as it may be: after so many tokens its closing tag is put in the model's mouth, and
// the model goes on behind it. What llama-server calls the reasoning budget.
//
// Tokens between the tags count. A code point that takes several tokens is not cut in two. Engine thread only.

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

  // The token that comes next, whatever the model would choose.
  std::optional<TokenId> forced() const;
  // A token of the reply, sampled or forced, and its bytes.
  void accept(std::string_view piece);
  // Neither a limit nor a thought is there any more: accept() has nothing to see.
  bool is_done() const { return state_ == State::kDone; }

 private:
  enum class State { kBefore, kThinking, kClosing, kDone };

  void begin();
  void look_for_beginning(std::string_view piece);
  void count(std::string_view piece);

  const ThinkingParams params_;
  State state_ = State::kDone;
  std::string text_;            // kBefore: all of the reply; kThinking: its end, where the closing tag may stand
  std::size_t tokens_ = 0;      // kThinking: of the thought
  std::size_t closing_at_ = 0;  // kClosing: the next of close_tokens
};

}  // namespace kvkeep::engine
