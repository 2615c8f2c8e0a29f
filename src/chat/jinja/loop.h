#pragma once

// The value of `loop` inside a for loop. Items are filtered one by one as the loop goes on, because a body may change
// values that the filter reads; only a request for the length (or for values that depend on it) filters the rest at
// once.

#include <optional>
#include <span>
#include <string_view>

#include "chat/jinja/interpreter.h"

namespace kvkeep::chat::jinja {

class LoopState {
 public:
  LoopState(const For& node, std::span<const Value> items, Scope* outside, int depth)
      : node_(&node), items_(items), outside_(outside), depth_(depth) {}

  // The next item; nullopt if there is none.
  bool advance(Interpreter& in);
  const Value& current() const { return current_; }
  std::optional<Value> attribute(Interpreter& in, std::string_view name);
  std::size_t length(Interpreter& in);
  // Prints the body over other items, one level deeper.
  Text recurse(Interpreter& in, const Value& items);

 private:
  friend Value loop_changed(Interpreter& in, const Value& self, const Arguments& arguments);
  friend Value loop_cycle(Interpreter& in, const Value& self, const Arguments& arguments);
  bool pull(Interpreter& in, Value& item);
  bool peek(Interpreter& in);

  const For* node_;
  std::span<const Value> items_;
  Scope* outside_;
  int depth_;
  std::size_t pulled_ = 0;     // of items_
  std::int64_t index0_ = -1;   // of the current item
  bool filtered_ = false;      // items_ have passed the filter
  bool looked_ahead_ = false;  // `after_` is the next item
  std::optional<std::size_t> length_ = std::nullopt;
  Value after_;
  Value current_;
  Value before_;
  Value changed_;
  bool was_asked_ = false;
};

}  // namespace kvkeep::chat::jinja
