#include "chat/jinja/ast.h"
#include "chat/jinja/interpreter.h"
#include "chat/jinja/loop.h"
#include "chat/jinja/written.h"

namespace kvkeep::chat::jinja {
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
