#include "chat/jinja/interpreter.h"

#include <algorithm>

#include "chat/jinja/builtins.h"
#include "chat/jinja/loop.h"
#include "chat/jinja/parser.h"
#include "chat/jinja/value_text.h"

namespace kvkeep::chat::jinja {

const Value* Scope::find(Symbol symbol) const {
  for (std::uint32_t i = 0; i < size; ++i) {
    if (bindings[i].symbol == symbol) return &bindings[i].value;
  }
  return nullptr;
}

void Scope::set(Arena& arena, Symbol symbol, const Value& value) {
  for (std::uint32_t i = 0; i < size; ++i) {
    if (bindings[i].symbol == symbol) {
      bindings[i].value = value;
      return;
    }
  }
  if (size == capacity) {
    capacity = std::max<std::uint32_t>(4, capacity * 2);
    auto* larger = arena.make_array<Binding>(capacity);
    std::copy_n(bindings, size, larger);
    bindings = larger;
  }
  bindings[size++] = {symbol, value};
}

Interpreter::Interpreter(const Program& program, const Budget& budget, std::int64_t local_time_s)
    : program_(program),
      budget_(budget),
      local_time_s_(local_time_s),
      arena_(budget.memory_bytes),
      steps_left_(budget.steps),
      printed_(arena_, 4096) {
  root_.parent = &context_;
}

void Interpreter::out_of_steps() const { fail_unsupported("it takes more than ", budget_.steps, " steps"); }

void Interpreter::check_depth(int depth) const {
  if (depth > budget_.depth) fail_unsupported("calls and values nested more than ", budget_.depth, " deep");
}

Text Interpreter::run() {
  execute(program_.body);
  return printed_.finish();
}

Value Interpreter::evaluate(const Expression& expression) {
  charge(1);
  const Deeper deeper(*this);
  return expression.evaluate(*this);
}

Flow Interpreter::execute(const Body& body) {
  const Deeper deeper(*this);
  for (const auto& statement : body) {
    charge(1);
    line_ = statement->line;
    if (const Flow flow = statement->execute(*this); flow != Flow::kNext) return flow;
  }
  return Flow::kNext;
}

Text Interpreter::capture(const Body& body) {
  TextBuilder builder(arena_);
  TextBuilder* before = std::exchange(out_, &builder);
  execute(body);
  out_ = before;
  return builder.finish();
}

Text Interpreter::capture_loop(const For& loop, const Value& items, int depth) {
  const Deeper deeper(*this);
  TextBuilder builder(arena_);
  TextBuilder* before = std::exchange(out_, &builder);
  loop.run(*this, items, depth);
  out_ = before;
  return builder.finish();
}

Value Interpreter::lookup(Symbol symbol, std::string_view name) const {
  for (const Scope* scope = scope_; scope != nullptr; scope = scope->parent) {
    if (const Value* value = scope->find(symbol)) return *value;
  }
  return Value::undefined(name, Absence::kVariable);
}

void Interpreter::assign(const Target& target, const Value& value) {
  if (target.form == Target::Form::kName) return assign(target.symbol, value);
  if (target.form == Target::Form::kNamespaceAttribute) {
    const Value space = lookup(target.symbol, target.name);
    if (!space.is(Kind::kNamespace)) fail("cannot assign attribute on non-namespace object");
    return space.as_namespace().attributes.set(arena_, target.attribute, value);
  }
  const std::span<const Value> items = items_of(value);
  if (items.size() != target.parts.size()) {
    const std::string expected = std::to_string(target.parts.size());
    if (items.size() > target.parts.size()) fail("too many values to unpack (expected ", expected, ")");
    fail("not enough values to unpack (expected ", expected, ", got ", items.size(), ")");
  }
  for (std::size_t i = 0; i < items.size(); ++i) assign(target.parts[i], items[i]);
}

void Interpreter::print(const Text& text) {
  charge_bytes(text.size());
  out_->append(text);
  if (out_->size() > budget_.output_bytes) {
    fail_unsupported("it prints more than ", budget_.output_bytes >> 20, " MiB");
  }
}

void Interpreter::print(const Value& value) {
  if (value.is_text()) return print(value.as_text());
  if (!value.is_undefined()) print(written(*this, value));
}

Value Interpreter::call(const Value& callee, const Arguments& arguments) {
  if (callee.is(Kind::kFunction)) {
    const Function& function = callee.as_function();
    if (function.macro != nullptr) return call_macro(function, arguments);
    return function.builtin(*this, function.self, arguments);
  }
  if (callee.is(Kind::kLoop)) {
    if (arguments.positional.size() != 1 || !arguments.named.empty()) fail("loop() takes one argument");
    return Value::text(callee.as_loop().recurse(*this, arguments.positional.front()));
  }
  if (callee.is(Kind::kCycler)) {
    Cycler& joiner = callee.as_cycler();
    return joiner.at++ == 0 ? Value::text({}) : joiner.items.front();
  }
  if (callee.is_undefined()) fail(callee.absence());
  fail("'", type_name(callee), "' object is not callable");
}

// Which argument each parameter gets; null: none.
std::vector<const Value*> Interpreter::place_arguments(const MacroBody& macro, const Arguments& arguments) {
  const auto name = [&] { return say("macro '", macro.name, "' "); };
  std::vector<const Value*> given(macro.parameters.size(), nullptr);
  for (std::size_t i = 0; i < std::min(given.size(), arguments.positional.size()); ++i) {
    given[i] = &arguments.positional[i];
  }
  Value caller = Value::undefined("No caller defined", Absence::kMessage);
  Dict others;
  for (const Entry& entry : arguments.named) {
    const std::string_view key = entry.key.as_view();
    const auto place = std::ranges::find_if(
        macro.parameters, [&](const Parameter& parameter) { return parameter.name.as_view() == key; });
    if (place != macro.parameters.end()) {
      const auto index = static_cast<std::size_t>(place - macro.parameters.begin());
      if (given[index] != nullptr) fail(name(), "got multiple values for argument '", key, "'");
      given[index] = &entry.value;
    } else if (macro.uses_caller && key == "caller") {
      caller = entry.value;
    } else if (macro.uses_kwargs) {
      others.set(arena_, entry.key, entry.value);
    } else {
      fail(name(), "takes no keyword argument '", key, "'");
    }
  }
  if (macro.uses_caller) assign(macro.caller, caller);
  if (macro.uses_kwargs) assign(macro.kwargs, Value::dict(arena_.make<Dict>(others)));
  return given;
}

Value Interpreter::call_macro(const Function& function, const Arguments& arguments) {
  const MacroBody& macro = *function.macro;
  const InScope inside(*this, make_scope(function.scope));
  const std::vector<const Value*> given = place_arguments(macro, arguments);
  for (std::size_t i = 0; i < given.size(); ++i) {
    const Parameter& parameter = macro.parameters[i];
    if (given[i] != nullptr) {
      assign(parameter.symbol, *given[i]);
    } else if (parameter.fallback != nullptr) {
      assign(parameter.symbol, evaluate(*parameter.fallback));
    } else {
      assign(parameter.symbol, Value::undefined(parameter.name.as_view(), Absence::kVariable));
    }
  }
  const std::span<const Value> positional(arguments.positional);
  const std::size_t surplus = positional.size() > given.size() ? positional.size() - given.size() : 0;
  if (macro.uses_varargs) {
    assign(macro.varargs, list(positional.last(surplus), Kind::kTuple));
  } else if (surplus > 0) {
    fail("macro '", macro.name, "' takes not more than ", given.size(), " argument(s)");
  }
  return Value::text(capture(macro.body));
}

Scope* Interpreter::make_scope(Scope* parent) {
  auto* scope = arena_.make<Scope>();
  scope->parent = parent;
  return scope;
}

Value Interpreter::text(std::string_view bytes, Origin origin) {
  TextBuilder builder(arena_, bytes.size());
  builder.append(bytes, origin);
  return Value::text(builder.finish());
}

Value Interpreter::list(std::span<const Value> items, Kind kind) {
  charge(items.size() / 4);
  auto* buffer = arena_.make<ListBuffer>();
  buffer->items = arena_.make_array<Value>(items.size());
  std::ranges::copy(items, buffer->items);
  buffer->used = buffer->capacity = static_cast<std::uint32_t>(items.size());
  return Value::list(buffer, 0, items.size(), kind);
}

Value Interpreter::list_of_two(const Value& first, const Value& second) {
  const Value both[] = {first, second};
  return list(both, Kind::kTuple);
}

Value Interpreter::generator(std::span<const Value> items, View::Of of) {
  return Value::view(arena_.make<View>(of, false, list(items).items()));
}

Value Interpreter::method(std::string_view name, Builtin builtin, const Value& self) {
  return Value::function(arena_.make<Function>(name, builtin, self));
}

}  // namespace kvkeep::chat::jinja
