#pragma once

// One render: its memory, its scopes, its output, and what is left of its limits.
//
// Everything here throws Failure: kInvalid if Python would raise an exception, kUnsupported at a limit. Time is counted
// in steps: one for each expression and statement, and more for work on many bytes or items, so the number of steps
// bounds the time. Not thread safe; each render has its own.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "chat/jinja/arena.h"
#include "chat/jinja/ast.h"
#include "chat/jinja/failure.h"
#include "chat/jinja/text.h"
#include "chat/jinja/value.h"

namespace kvkeep::chat::jinja {

struct Binding {
  Symbol symbol;
  Value value;
};

// Variables of a template, a loop's turn, a macro's call: so few that a search is fast.
struct Scope {
  Scope* parent = nullptr;
  Binding* bindings = nullptr;
  std::uint32_t size = 0;
  std::uint32_t capacity = 0;
  bool captured = false;  // a macro was defined here, and may read it later: the next turn gets a new one

  const Value* find(Symbol symbol) const;
  void set(Arena& arena, Symbol symbol, const Value& value);
};

struct Budget {
  std::size_t steps;
  std::size_t memory_bytes;
  std::size_t output_bytes;
  int depth;
};

class Interpreter {
 public:
  Interpreter(const Program& program, const Budget& budget, std::int64_t local_time_s);

  Arena& arena() { return arena_; }
  std::int64_t local_time_s() const { return local_time_s_; }
  // A variable around the template's own.
  void define(Symbol symbol, const Value& value) { context_.set(arena_, symbol, value); }

  Text run();

  // Counts down the steps. `work`: steps to be taken; bytes_work: bytes to be read or written.
  void charge(std::size_t work) {
    if (work > steps_left_) out_of_steps();
    steps_left_ -= work;
  }
  void charge_bytes(std::size_t bytes) { charge(bytes / kBytesPerStep); }

  Value evaluate(const Expression& expression);
  Flow execute(const Body& body);
  // Returns the output of the body instead of printing it.
  Text capture(const Body& body);
  Text capture_loop(const For& loop, const Value& items, int depth);

  Value lookup(Symbol symbol, std::string_view name) const;
  void assign(Symbol symbol, const Value& value) { scope_->set(arena_, symbol, value); }
  void assign(const Target& target, const Value& value);

  void print(const Text& text);
  void print(const Value& value);

  Value call(const Value& callee, const Arguments& arguments);
  Value call_macro(const Function& function, const Arguments& arguments);

  // object.name and object[index], as Jinja reads them: with the dot methods before keys, else keys before methods.
  Value attribute(const Value& object, const Value& name, Builtin dict_method);
  Value item(const Value& object, const Value& index);
  Value slice(const Value& object, const Value& start, const Value& stop, const Value& step);

  // Making values.
  Value text(std::string_view bytes, Origin origin = Origin::kTemplate);
  Value character(const Text& text, std::size_t index);  // by characters; undefined if out of range
  Value list(std::span<const Value> items, Kind kind = Kind::kList);
  Value list_of_two(const Value& first, const Value& second);  // a tuple
  Value generator(std::span<const Value> items, View::Of of = View::Of::kGenerator);
  Value method(std::string_view name, Builtin builtin, const Value& self);

  // The items of a value; fails if it cannot be iterated over. Uses up a generator.
  std::span<const Value> items_of(const Value& value);
  // len(); fails if Python has none.
  std::size_t length_of(const Value& value);

  Scope* scope() { return scope_; }
  void enter(Scope* scope) { scope_ = scope; }
  Scope* make_scope(Scope* parent);
  int line() const { return line_; }
  void check_depth(int depth) const;

 private:
  static constexpr std::size_t kBytesPerStep = 32;
  friend struct Deeper;
  [[noreturn]] void out_of_steps() const;
  std::vector<const Value*> place_arguments(const MacroBody& macro, const Arguments& arguments);
  std::span<const Value> characters_of(const Text& text);
  std::span<const Value> numbers_of(const Range& range);
  Value slice_items(const Value& object, std::int64_t start, std::int64_t count, std::int64_t step);
  Value slice_text(const Text& text, std::int64_t start, std::int64_t count, std::int64_t step);

  const Program& program_;
  const Budget budget_;
  const std::int64_t local_time_s_;
  Arena arena_;
  std::size_t steps_left_;
  int depth_ = 0;
  int line_ = 0;
  Scope context_;
  Scope root_;
  Scope* scope_ = &root_;
  TextBuilder printed_;
  TextBuilder* out_ = &printed_;
};

// Counts the nesting of expressions, statements and macros, as long as it lives.
struct Deeper {
  explicit Deeper(Interpreter& in) : depth(in.depth_) { in.check_depth(++depth); }
  ~Deeper() { --depth; }
  Deeper(const Deeper&) = delete;
  Deeper& operator=(const Deeper&) = delete;
  int& depth;
};

// Sets another scope as long as it lives.
class InScope {
 public:
  InScope(Interpreter& in, Scope* scope) : in_(in), before_(in.scope()) { in.enter(scope); }
  ~InScope() { in_.enter(before_); }
  InScope(const InScope&) = delete;
  InScope& operator=(const InScope&) = delete;

 private:
  Interpreter& in_;
  Scope* const before_;
};

// The value of `loop` inside a for loop. Items are filtered one by one as the loop goes on, because a body may change
// values that the filter reads; only a request for the length (or for values that depend on it) filters the rest at
// once.
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
