// Attributes, elements, slices, and iteration.

#include <algorithm>

#include "chat/jinja/builtins.h"
#include "chat/jinja/interpreter.h"
#include "chat/jinja/loop.h"

namespace kvkeep::chat::jinja {
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

}  // namespace kvkeep::chat::jinja
