// How each node of a template is evaluated.

#include <algorithm>
#include <string>

#include "chat/jinja/ast.h"
#include "chat/jinja/builtins.h"
#include "chat/jinja/interpreter.h"
#include "chat/jinja/operators.h"
#include "chat/jinja/value_text.h"

namespace kvkeep::chat::jinja {

// ---- expressions ----

Value Constant::evaluate(Interpreter& /*in*/) const { return value; }

Value Name::evaluate(Interpreter& in) const { return in.lookup(symbol, name); }

Value ListLiteral::evaluate(Interpreter& in) const {
  std::vector<Value> values;
  values.reserve(items.size());
  for (const ExpressionPointer& item : items) values.push_back(in.evaluate(*item));
  return in.list(values, kind);
}

Value DictLiteral::evaluate(Interpreter& in) const {
  auto* dict = in.arena().make<Dict>();
  for (const auto& [key, value] : entries) {
    const Value key_value = in.evaluate(*key);
    dict->set(in.arena(), key_value, in.evaluate(*value));
  }
  return Value::dict(dict);
}

Value GetAttribute::evaluate(Interpreter& in) const { return in.attribute(in.evaluate(*object), name, dict_method); }

Value GetItem::evaluate(Interpreter& in) const {
  const Value value = in.evaluate(*object);
  return in.item(value, in.evaluate(*index));
}

Value GetSlice::evaluate(Interpreter& in) const {
  const auto bound = [&](const ExpressionPointer& expression) {
    return expression == nullptr ? Value::none() : in.evaluate(*expression);
  };
  const Value value = in.evaluate(*object);
  const Value from = bound(start);
  const Value to = bound(stop);
  return in.slice(value, from, to, bound(step));
}

Arguments CallArguments::evaluate(Interpreter& in) const {
  Arguments arguments;
  arguments.positional.reserve(positional.size());
  for (const ExpressionPointer& argument : positional) arguments.positional.push_back(in.evaluate(*argument));
  for (const auto& [name, argument] : named) arguments.named.push_back({name, in.evaluate(*argument)});
  if (more_positional != nullptr) {
    const std::span<const Value> more = in.items_of(in.evaluate(*more_positional));
    arguments.positional.insert(arguments.positional.end(), more.begin(), more.end());
  }
  if (more_named != nullptr) {
    const Value more = in.evaluate(*more_named);
    if (!more.is_dict()) fail("argument after ** must be a mapping, not ", type_name(more));
    for (const Entry& entry : more.as_dict().all()) {
      if (!entry.key.is_text()) fail("keywords must be strings");
      arguments.named.push_back(entry);
    }
  }
  return arguments;
}

Value Call::evaluate(Interpreter& in) const {
  const Value function = in.evaluate(*callee);
  return in.call(function, arguments.evaluate(in));
}

Value Applied::apply(Interpreter& in, const Value& to) const {
  if (builtin == nullptr) {
    fail_unsupported("No ", (is_test ? "test" : "filter"), " named '", name, "'");
  }
  return builtin(in, to, arguments.evaluate(in));
}

Value Applied::evaluate(Interpreter& in) const { return apply(in, value == nullptr ? Value() : in.evaluate(*value)); }

Value Applied::evaluate_on(Interpreter& in, const Value& given) const {
  const auto* inner = static_cast<const Applied*>(value.get());  // filters of a block stand after filters only
  return apply(in, inner == nullptr ? given : inner->evaluate_on(in, given));
}

Value Binary::evaluate(Interpreter& in) const {
  const Value first = in.evaluate(*left);
  return binary(in, sign, first, in.evaluate(*right));
}

Value Unary::evaluate(Interpreter& in) const {
  const Value value = in.evaluate(*operand);
  switch (sign) {
    case UnaryOperator::kNegative: return negative(value);
    case UnaryOperator::kPositive: return positive(value);
    case UnaryOperator::kNot: return Value::boolean(!is_true(value));
  }
  return value;
}

Value Logical::evaluate(Interpreter& in) const {
  const Value first = in.evaluate(*left);
  return is_true(first) == is_and ? in.evaluate(*right) : first;
}

Value Comparison::evaluate(Interpreter& in) const {
  Value left = in.evaluate(*first);
  for (const auto& [comparator, side] : rest) {
    const Value right = in.evaluate(*side);
    if (!compare(in, comparator, left, right)) return Value::boolean(false);
    left = right;
  }
  return Value::boolean(true);
}

Value Concatenation::evaluate(Interpreter& in) const {
  Value result = in.evaluate(*parts.front());
  Text text = written(in, result);
  for (std::size_t i = 1; i < parts.size(); ++i) {
    text = joined(in, text, written(in, in.evaluate(*parts[i]))).as_text();
  }
  return Value::text(text);
}

Value Conditional::evaluate(Interpreter& in) const {
  if (is_true(in.evaluate(*test))) return in.evaluate(*when_true);
  if (otherwise != nullptr) return in.evaluate(*otherwise);
  return Value::undefined("the inline if-expression evaluated to false and no else section was defined.",
                          Absence::kMessage);
}

// ---- statements ----

namespace {

Value macro_value(Interpreter& in, const MacroBody& macro) {
  // A scope that the macro may read later must not be reused for another turn of a loop.
  for (Scope* scope = in.scope(); scope != nullptr && !scope->captured; scope = scope->parent) scope->captured = true;
  return Value::function(in.arena().make<Function>(macro.name, nullptr, Value(), &macro, in.scope()));
}

}  // namespace

Flow PrintData::execute(Interpreter& in) const {
  in.print(text);
  return Flow::kNext;
}

Flow Print::execute(Interpreter& in) const {
  in.print(in.evaluate(*expression));
  return Flow::kNext;
}

Flow Evaluate::execute(Interpreter& in) const {
  in.evaluate(*expression);
  return Flow::kNext;
}

Flow For::execute(Interpreter& in) const { return run(in, in.evaluate(*items), 0); }

Flow For::run(Interpreter& in, const Value& over, int depth) const {
  if (over.is_undefined()) in.charge(1);
  LoopState* loop = in.arena().make<LoopState>(*this, in.items_of(over), in.scope(), depth);
  Scope* scope = in.make_scope(in.scope());
  bool ran = false;  // to the end of the body: jinja2's `else` runs, too, if every turn jumped out of it
  while (loop->advance(in)) {
    in.charge(1);
    if (scope->captured) scope = in.make_scope(in.scope());
    scope->size = 0;
    const InScope inside(in, scope);
    if (uses_loop) in.assign(loop_symbol, Value::loop(loop));
    in.assign(target, loop->current());
    const Flow flow = in.execute(body);
    if (flow == Flow::kBreak) break;
    ran |= flow == Flow::kNext;
  }
  if (ran || otherwise.empty()) return Flow::kNext;
  const InScope inside(in, in.make_scope(in.scope()));
  return in.execute(otherwise);
}

Flow If::execute(Interpreter& in) const {
  for (const auto& [test, body] : branches) {
    if (is_true(in.evaluate(*test))) return in.execute(body);
  }
  return in.execute(otherwise);
}

Flow Set::execute(Interpreter& in) const {
  in.assign(target, in.evaluate(*value));
  return Flow::kNext;
}

Flow SetBlock::execute(Interpreter& in) const {
  Value printed;
  {
    const InScope inside(in, in.make_scope(in.scope()));
    printed = Value::text(in.capture(body));
  }
  if (filter != nullptr) printed = static_cast<const Applied&>(*filter).evaluate_on(in, printed);
  in.assign(target, printed);
  return Flow::kNext;
}

Flow Macro::execute(Interpreter& in) const {
  in.assign(symbol, macro_value(in, macro));
  return Flow::kNext;
}

Flow CallBlock::execute(Interpreter& in) const {
  const Value callee = in.evaluate(*call->callee);
  Arguments arguments = call->arguments.evaluate(in);
  arguments.named.push_back({in.text("caller"), macro_value(in, macro)});
  in.print(in.call(callee, arguments));
  return Flow::kNext;
}

Flow FilterBlock::execute(Interpreter& in) const {
  const InScope inside(in, in.make_scope(in.scope()));
  const Value printed = Value::text(in.capture(body));
  const Value filtered = static_cast<const Applied&>(*filter).evaluate_on(in, printed);
  if (!filtered.is_text()) fail("expected str instance, ", type_name(filtered), " found");
  in.print(filtered.as_text());
  return Flow::kNext;
}

Flow With::execute(Interpreter& in) const {
  std::vector<Value> values;
  for (const auto& [target, value] : variables) values.push_back(in.evaluate(*value));
  const InScope inside(in, in.make_scope(in.scope()));
  for (std::size_t i = 0; i < values.size(); ++i) in.assign(variables[i].first, values[i]);
  return in.execute(body);
}

Flow Jump::execute(Interpreter& /*in*/) const { return flow; }

}  // namespace kvkeep::chat::jinja
