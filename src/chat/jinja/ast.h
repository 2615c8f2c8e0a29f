#pragma once

// A parsed template: a tree that evaluates itself. Immutable, so any number of threads may run it.
//
// Names are numbers (symbols) given out by the parser. The evaluate() of each expression and the execute() of each
// statement are in nodes.cc.

#include <cstdint>
#include <memory>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "chat/jinja/arena.h"
#include "chat/jinja/value.h"

namespace kvkeep::chat::jinja {

using Symbol = std::uint32_t;

struct Expression {
  int line = 0;
  int height = 1;  // of the tree below: the parser bounds it, and with it how deep evaluation goes
  virtual ~Expression() = default;
  virtual Value evaluate(Interpreter& in) const = 0;
};
using ExpressionPointer = std::unique_ptr<const Expression>;

struct Constant : Expression {
  Value value;
  Value evaluate(Interpreter& in) const override;
};

struct Name : Expression {
  Symbol symbol = 0;
  std::string_view name;  // in the template's arena, as all names are
  Value evaluate(Interpreter& in) const override;
};

struct ListLiteral : Expression {
  Kind kind = Kind::kList;  // or kTuple
  std::vector<ExpressionPointer> items;
  Value evaluate(Interpreter& in) const override;
};

struct DictLiteral : Expression {
  std::vector<std::pair<ExpressionPointer, ExpressionPointer>> entries;
  Value evaluate(Interpreter& in) const override;
};

struct GetAttribute : Expression {
  ExpressionPointer object;
  Value name;
  Builtin dict_method = nullptr;  // the method of this name, which a dict has before any key
  Value evaluate(Interpreter& in) const override;
};

struct GetItem : Expression {
  ExpressionPointer object;
  ExpressionPointer index;
  Value evaluate(Interpreter& in) const override;
};

struct GetSlice : Expression {
  ExpressionPointer object;
  ExpressionPointer start;  // these three: null if left out
  ExpressionPointer stop;
  ExpressionPointer step;
  Value evaluate(Interpreter& in) const override;
};

struct CallArguments {
  std::vector<ExpressionPointer> positional;
  std::vector<std::pair<Value, ExpressionPointer>> named;
  ExpressionPointer more_positional;  // *x
  ExpressionPointer more_named;       // **x
  Arguments evaluate(Interpreter& in) const;
};

struct Call : Expression {
  ExpressionPointer callee;
  CallArguments arguments;
  Value evaluate(Interpreter& in) const override;
};

// A filter, or a test that is not negated.
struct Applied : Expression {
  ExpressionPointer value;  // null in front of a block: the block's text
  std::string_view name;
  Builtin builtin = nullptr;  // null: no such name, which matters only if it is evaluated
  bool is_test = false;
  CallArguments arguments;
  Value evaluate(Interpreter& in) const override;
  Value apply(Interpreter& in, const Value& to) const;
  // `given` replaces the innermost missing value.
  Value evaluate_on(Interpreter& in, const Value& given) const;
};

enum class BinaryOperator : std::uint8_t { kAdd, kSubtract, kMultiply, kDivide, kFloorDivide, kRemainder, kPower };

struct Binary : Expression {
  BinaryOperator sign = BinaryOperator::kAdd;
  ExpressionPointer left;
  ExpressionPointer right;
  Value evaluate(Interpreter& in) const override;
};

enum class UnaryOperator : std::uint8_t { kNegative, kPositive, kNot };

struct Unary : Expression {
  UnaryOperator sign = UnaryOperator::kNot;
  ExpressionPointer operand;
  Value evaluate(Interpreter& in) const override;
};

struct Logical : Expression {
  bool is_and = true;
  ExpressionPointer left;
  ExpressionPointer right;
  Value evaluate(Interpreter& in) const override;
};

enum class Comparator : std::uint8_t { kEqual, kNotEqual, kLess, kLessEqual, kGreater, kGreaterEqual, kIn, kNotIn };

struct Comparison : Expression {  // a < b < c: each side is evaluated once
  ExpressionPointer first;
  std::vector<std::pair<Comparator, ExpressionPointer>> rest;
  Value evaluate(Interpreter& in) const override;
};

struct Concatenation : Expression {
  std::vector<ExpressionPointer> parts;
  Value evaluate(Interpreter& in) const override;
};

struct Conditional : Expression {
  ExpressionPointer test;
  ExpressionPointer when_true;
  ExpressionPointer otherwise;  // null: undefined
  Value evaluate(Interpreter& in) const override;
};

// The next step after a statement.
enum class Flow : std::uint8_t { kNext, kBreak, kContinue };

struct Statement {
  int line = 0;
  virtual ~Statement() = default;
  virtual Flow execute(Interpreter& in) const = 0;
};
using Body = std::vector<std::unique_ptr<const Statement>>;

struct Target {
  enum class Form : std::uint8_t { kName, kNamespaceAttribute, kTuple };
  Form form = Form::kName;
  Symbol symbol = 0;  // a name, or the namespace's
  std::string_view name;
  Value attribute;
  std::vector<Target> parts;
};

struct PrintData : Statement {
  Text text;
  Flow execute(Interpreter& in) const override;
};

struct Print : Statement {
  ExpressionPointer expression;
  Flow execute(Interpreter& in) const override;
};

struct Evaluate : Statement {  // {% do %}
  ExpressionPointer expression;
  Flow execute(Interpreter& in) const override;
};

struct For : Statement {
  Target target;
  ExpressionPointer items;
  ExpressionPointer filter;  // null without one
  bool recursive = false;
  bool uses_loop = false;  // the body, or something in it, mentions `loop`
  Symbol loop_symbol = 0;
  Body body;
  Body otherwise;
  Flow execute(Interpreter& in) const override;
  // Runs over `items`; `depth` counts recursive loops.
  Flow run(Interpreter& in, const Value& items, int depth) const;
};

struct If : Statement {
  std::vector<std::pair<ExpressionPointer, Body>> branches;
  Body otherwise;
  Flow execute(Interpreter& in) const override;
};

struct Set : Statement {
  Target target;
  ExpressionPointer value;
  Flow execute(Interpreter& in) const override;
};

struct SetBlock : Statement {
  Target target;
  std::unique_ptr<const Expression> filter;  // an Applied without a value, or null
  Body body;
  Flow execute(Interpreter& in) const override;
};

struct Parameter {
  Symbol symbol;
  Value name;
  ExpressionPointer fallback;  // null: none
};

struct MacroBody {
  std::string_view name;
  std::vector<Parameter> parameters;
  Body body;
  bool uses_caller = false;
  bool uses_varargs = false;
  bool uses_kwargs = false;
  Symbol caller = 0;
  Symbol varargs = 0;
  Symbol kwargs = 0;
};

struct Macro : Statement {
  Symbol symbol = 0;
  MacroBody macro;
  Flow execute(Interpreter& in) const override;
};

struct CallBlock : Statement {
  std::unique_ptr<const Call> call;
  MacroBody macro;
  Flow execute(Interpreter& in) const override;
};

struct FilterBlock : Statement {
  ExpressionPointer filter;  // an Applied without a value
  Body body;
  Flow execute(Interpreter& in) const override;
};

struct With : Statement {  // also {% generation %}: a scope of its own
  std::vector<std::pair<Target, ExpressionPointer>> variables;
  Body body;
  Flow execute(Interpreter& in) const override;
};

struct Jump : Statement {
  Flow flow = Flow::kBreak;
  Flow execute(Interpreter& in) const override;
};

// A whole template.
struct Program {
  explicit Program(std::size_t limit_bytes) : arena(limit_bytes) {}

  Arena arena;  // names and constants
  std::vector<std::string_view> symbols;
  std::unordered_map<std::string_view, Symbol> symbol_of;
  Body body;
};

}  // namespace kvkeep::chat::jinja
