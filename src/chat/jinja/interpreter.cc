#include "chat/jinja/interpreter.h"

#include <algorithm>
#include <vector>

#include "chat/jinja/builtins.h"
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

// Attributes, elements, slices, and iteration.

namespace {

Value element(std::span<const Value> items, std::int64_t index, Kind owner) {
  const auto size = static_cast<std::int64_t>(items.size());
  if (index < 0) index += size;
  if (index < 0 || index >= size) return Value::undefined({}, Absence::kElement, owner);
  return items[static_cast<std::size_t>(index)];
}

std::int64_t slice_bound(const Value& value, std::int64_t absent) {
  if (value.is_undefined() || value.is(Kind::kNone)) return absent;
  if (!value.is_integral()) fail("slice indices must be integers or None or have an __index__ method");
  return value.as_integer();
}

}  // namespace

Value Interpreter::attribute(const Value& object, const Value& name, Builtin dict_method) {
  switch (object.kind()) {
    case Kind::kUndefined: fail(object.absence());
    case Kind::kDict:
      if (dict_method != nullptr) return method(name.as_view(), dict_method, object);
      if (const Value* value = object.as_dict().find(name.as_view())) return *value;
      break;
    case Kind::kNamespace:
      if (const Value* value = object.as_namespace().attributes.find(name.as_view())) return *value;
      break;
    case Kind::kLoop:
      if (const auto value = object.as_loop().attribute(*this, name.as_view())) return *value;
      break;
    default:
      if (const auto value = find_attribute(*this, object, name.as_view())) return *value;
      break;
  }
  return Value::undefined(name.as_view(), Absence::kAttribute, object.kind());
}

Value Interpreter::item(const Value& object, const Value& index) {
  if (object.is_undefined()) fail(object.absence());
  if (object.is_dict()) {
    const bool hashable = !index.is(Kind::kList) && !index.is_dict();
    const Value* value = hashable ? object.as_dict().find(index) : nullptr;
    if (value != nullptr) return *value;
  } else if (index.is_integral()) {
    if (object.is_sequence()) return element(object.items(), index.as_integer(), object.kind());
    if (object.is_text()) {
      const std::int64_t place = index.as_integer();
      const Text text = object.as_text();
      const std::size_t size = place < 0 || !text.ascii() ? length_of(object) : text.size();
      const std::int64_t at = place < 0 ? place + static_cast<std::int64_t>(size) : place;
      if (at < 0 || at >= static_cast<std::int64_t>(size)) return Value::undefined({}, Absence::kElement, Kind::kText);
      return character(text, static_cast<std::size_t>(at));
    }
    if (object.is(Kind::kRange)) return element(numbers_of(object.as_range()), index.as_integer(), object.kind());
  }
  if (!index.is_text()) return Value::undefined({}, Absence::kElement, object.kind());
  return attribute(object, index, object.is_dict() ? find_dict_method(index.as_view()) : nullptr);
}

Value Interpreter::character(const Text& text, std::size_t index) {
  if (text.ascii()) return Value::text(text.part(index, 1));
  charge_bytes(text.size());
  const std::size_t at = offset_of(text.view(), index);
  return Value::text(text.part(at, character_at(text.view(), at).bytes));
}

Value Interpreter::slice(const Value& object, const Value& start, const Value& stop, const Value& step) {
  if (object.is_undefined()) fail(object.absence());
  if (!object.is_text() && !object.is_sequence() && !object.is(Kind::kRange)) {
    if (object.is_dict()) fail("unhashable type: 'slice'");
    fail("'", type_name(object), "' object is not subscriptable");
  }
  const std::int64_t stride = slice_bound(step, 1);
  if (stride == 0) fail("slice step cannot be zero");
  const auto size = static_cast<std::int64_t>(length_of(object));
  const auto placed = [&](std::int64_t place) {
    if (place < 0) place = place < -size ? -1 : place + size;
    if (place < 0) return stride < 0 ? std::int64_t{-1} : std::int64_t{0};
    return std::min(place, stride < 0 ? size - 1 : size);
  };
  const bool open_start = start.is_undefined() || start.is(Kind::kNone);
  const bool open_stop = stop.is_undefined() || stop.is(Kind::kNone);
  const std::int64_t first = open_start ? (stride < 0 ? size - 1 : 0) : placed(slice_bound(start, 0));
  const std::int64_t last = open_stop ? (stride < 0 ? -1 : size) : placed(slice_bound(stop, 0));
  const std::int64_t distance = stride > 0 ? last - first : first - last;
  // Strides larger than the size are all alike, and -stride cannot overflow.
  const std::int64_t pace = std::clamp<std::int64_t>(stride, -size - 1, size + 1);
  const std::int64_t count = distance <= 0 ? 0 : (distance + std::abs(pace) - 1) / std::abs(pace);
  if (object.is(Kind::kRange)) {
    const Range& range = object.as_range();
    const std::int64_t end = count == 0 ? first : last;
    return Value::range(
        arena_.make<Range>(range.start + first * range.step, range.start + end * range.step, range.step * pace));
  }
  return object.is_text() ? slice_text(object.as_text(), first, count, pace) : slice_items(object, first, count, pace);
}

Value Interpreter::slice_items(const Value& object, std::int64_t start, std::int64_t count, std::int64_t step) {
  if (object.is_sequence() && step == 1) {
    return Value::list(object.list_buffer(), object.list_begin() + static_cast<std::size_t>(start),
                       static_cast<std::size_t>(count), object.kind());
  }
  const std::span<const Value> items = items_of(object);
  std::vector<Value> chosen;
  charge(static_cast<std::size_t>(count));
  for (std::int64_t i = 0; i < count; ++i) chosen.push_back(items[static_cast<std::size_t>(start + i * step)]);
  return list(chosen, object.is(Kind::kTuple) ? Kind::kTuple : Kind::kList);
}

Value Interpreter::slice_text(const Text& text, std::int64_t start, std::int64_t count, std::int64_t step) {
  if (count == 0) return Value::text({});
  if (step == 1) {
    const auto first = static_cast<std::size_t>(start);
    const auto size = static_cast<std::size_t>(count);
    if (text.ascii()) return Value::text(text.part(first, size));
    charge_bytes(text.size());
    const std::size_t begin = offset_of(text.view(), first);
    return Value::text(text.part(begin, offset_of(text.view().substr(begin), size)));
  }
  const std::span<const Value> characters = characters_of(text);
  TextBuilder builder(arena_, static_cast<std::size_t>(count));
  charge(static_cast<std::size_t>(count));
  for (std::int64_t i = 0; i < count; ++i) {
    builder.append(characters[static_cast<std::size_t>(start + i * step)].as_text());
  }
  return Value::text(builder.finish());
}

std::span<const Value> Interpreter::characters_of(const Text& text) {
  charge(text.size());
  std::vector<Value> characters;
  characters.reserve(text.size());
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t bytes = character_at(text.view(), at).bytes;
    characters.push_back(Value::text(text.part(at, bytes)));
    at += bytes;
  }
  return list(characters).items();
}

std::span<const Value> Interpreter::numbers_of(const Range& range) {
  const std::size_t size = range.size();
  charge(size);
  std::vector<Value> numbers;
  numbers.reserve(size);
  for (std::size_t i = 0; i < size; ++i) {
    numbers.push_back(Value::integer(range.start + static_cast<std::int64_t>(i) * range.step));
  }
  return list(numbers).items();
}

std::span<const Value> Interpreter::items_of(const Value& value) {
  switch (value.kind()) {
    case Kind::kUndefined: return {};
    case Kind::kList:
    case Kind::kTuple: return value.items();
    case Kind::kText: return characters_of(value.as_text());
    case Kind::kRange: return numbers_of(value.as_range());
    case Kind::kView: {
      View& view = value.as_view_object();
      if (view.of != View::Of::kGenerator) return view.items;
      return std::exchange(view.used, true) ? std::span<const Value>() : view.items;
    }
    case Kind::kDict: {
      const Dict& dict = value.as_dict();
      charge(dict.size);
      std::vector<Value> keys;
      keys.reserve(dict.size);
      for (const Entry& entry : dict.all()) keys.push_back(entry.key);
      return list(keys).items();
    }
    default: fail("'", type_name(value), "' object is not iterable");
  }
}

std::size_t Interpreter::length_of(const Value& value) {
  switch (value.kind()) {
    case Kind::kUndefined: return 0;
    case Kind::kText: {
      const Text text = value.as_text();
      if (text.ascii()) return text.size();
      charge_bytes(text.size());
      return count_characters(text.view());
    }
    case Kind::kList:
    case Kind::kTuple: return value.items().size();
    case Kind::kRange: return value.as_range().size();
    case Kind::kDict: return value.as_dict().size;
    case Kind::kLoop: return value.as_loop().length(*this);
    case Kind::kView:
      if (value.as_view_object().of != View::Of::kGenerator) return value.as_view_object().items.size();
      break;
    default: break;
  }
  fail("object of type '", type_name(value), "' has no len()");
}

bool LoopState::pull(Interpreter& in, Value& item) {
  while (pulled_ < items_.size()) {
    item = items_[pulled_++];
    if (node_->filter == nullptr || filtered_) return true;
    const InScope inside(in, in.make_scope(outside_));
    in.assign(node_->target, item);
    if (is_true(in.evaluate(*node_->filter))) return true;
  }
  return false;
}

bool LoopState::peek(Interpreter& in) {
  if (!looked_ahead_) looked_ahead_ = pull(in, after_);
  return looked_ahead_;
}

bool LoopState::advance(Interpreter& in) {
  Value next = after_;
  if (!std::exchange(looked_ahead_, false) && !pull(in, next)) return false;
  ++index0_;
  before_ = current_;
  current_ = next;
  return true;
}

std::size_t LoopState::length(Interpreter& in) {
  if (length_) return *length_;
  if (node_->filter == nullptr) {
    length_ = items_.size();
  } else {
    std::vector<Value> rest;
    for (Value item; pull(in, item);) rest.push_back(item);
    items_ = in.list(rest).items();
    pulled_ = 0;
    filtered_ = true;
    length_ = rest.size() + static_cast<std::size_t>(index0_ + 1) + (looked_ahead_ ? 1 : 0);
  }
  return *length_;
}

Text LoopState::recurse(Interpreter& in, const Value& items) {
  if (!node_->recursive) fail("The loop must have the 'recursive' marker to be called recursively.");
  const InScope outside(in, outside_);
  return in.capture_loop(*node_, items, depth_ + 1);
}

Value loop_cycle(Interpreter& /*in*/, const Value& self, const Arguments& arguments) {
  if (arguments.positional.empty()) fail("no items for cycling given");
  const auto index = static_cast<std::size_t>(self.as_loop().index0_);
  return arguments.positional[index % arguments.positional.size()];
}

Value loop_changed(Interpreter& in, const Value& self, const Arguments& arguments) {
  LoopState& loop = self.as_loop();
  const Value now = in.list(arguments.positional, Kind::kTuple);
  const bool changed = !std::exchange(loop.was_asked_, true) || !equals(now, loop.changed_);
  if (changed) loop.changed_ = now;
  return Value::boolean(changed);
}

std::optional<Value> LoopState::attribute(Interpreter& in, std::string_view name) {
  const auto count = [](std::int64_t number) { return Value::integer(number); };
  if (name == "index0") return count(index0_);
  if (name == "index") return count(index0_ + 1);
  if (name == "first") return Value::boolean(index0_ == 0);
  if (name == "last") return Value::boolean(!peek(in));
  if (name == "length") return count(static_cast<std::int64_t>(length(in)));
  if (name == "revindex") return count(static_cast<std::int64_t>(length(in)) - index0_);
  if (name == "revindex0") return count(static_cast<std::int64_t>(length(in)) - index0_ - 1);
  if (name == "depth") return count(depth_ + 1);
  if (name == "depth0") return count(depth_);
  if (name == "previtem") {
    return index0_ == 0 ? Value::undefined("there is no previous item", Absence::kMessage) : before_;
  }
  if (name == "nextitem") {
    return peek(in) ? after_ : Value::undefined("there is no next item", Absence::kMessage);
  }
  if (name == "cycle") return in.method("cycle", loop_cycle, Value::loop(this));
  if (name == "changed") return in.method("changed", loop_changed, Value::loop(this));
  return std::nullopt;
}

}  // namespace kvkeep::chat::jinja
