#include "chat/jinja/value.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <functional>
#include <string>

#include "chat/jinja/failure.h"

namespace kvkeep::chat::jinja {

std::size_t Range::size() const {
  const std::int64_t span = step > 0 ? stop - start : start - stop;
  const std::int64_t stride = step > 0 ? step : -step;
  return span <= 0 ? 0 : static_cast<std::size_t>((span + stride - 1) / stride);
}

Value Value::undefined(std::string_view name, Absence absence, Kind of) {
  Value value(Kind::kUndefined);
  value.absence_ = absence;
  value.owner_ = of;
  value.payload_.name = name.data();
  value.size_ = static_cast<std::uint32_t>(name.size());
  return value;
}

Value Value::text(const Text& text) {
  Value value(Kind::kText);
  value.payload_.text = text.buffer();
  value.begin_ = static_cast<std::uint32_t>(text.begin());
  value.size_ = static_cast<std::uint32_t>(text.size());
  return value;
}

Value Value::list(ListBuffer* buffer, std::size_t begin, std::size_t size, Kind kind) {
  Value value(kind);
  value.payload_.list = buffer;
  value.begin_ = static_cast<std::uint32_t>(begin);
  value.size_ = static_cast<std::uint32_t>(size);
  return value;
}

std::span<const Value> Value::items() const {
  return size_ == 0 ? std::span<const Value>() : std::span<const Value>(payload_.list->items + begin_, size_);
}

std::string Value::absence() const {
  const std::string name = size_ == 0 ? std::string() : std::string(payload_.name, size_);
  switch (absence_) {
    case Absence::kMessage: return name;
    case Absence::kVariable: return say("'", name, "' is undefined");
    case Absence::kAttribute:
    case Absence::kElement: break;
  }
  Value owner(owner_);
  if (absence_ == Absence::kElement) return say("'", type_name(owner), " object' has no such element");
  return say("'", type_name(owner), " object' has no attribute '", name, "'");
}

bool Value::same_as(const Value& other) const {
  if (kind_ != other.kind_) return false;
  switch (kind_) {
    case Kind::kUndefined: return false;
    case Kind::kNone: return true;
    case Kind::kFloat: return payload_.number == other.payload_.number;
    case Kind::kText:
      // Python keeps one object of a short string, mostly; content is what templates mean.
      return as_view() == other.as_view();
    case Kind::kList:
    case Kind::kTuple: return payload_.list == other.payload_.list && begin_ == other.begin_ && size_ == other.size_;
    default: return payload_.integer == other.payload_.integer;
  }
}

std::string_view type_name(const Value& value) {
  switch (value.kind()) {
    case Kind::kUndefined: return "Undefined";
    case Kind::kNone: return "NoneType";
    case Kind::kBool: return "bool";
    case Kind::kInteger: return "int";
    case Kind::kFloat: return "float";
    case Kind::kText: return "str";
    case Kind::kList: return "list";
    case Kind::kTuple: return "tuple";
    case Kind::kRange: return "range";
    case Kind::kView: return "generator";
    case Kind::kDict: return "dict";
    case Kind::kNamespace: return "Namespace";
    case Kind::kFunction: return "function";
    case Kind::kLoop: return "LoopContext";
    case Kind::kCycler: return "Cycler";
  }
  return "object";
}

bool is_true(const Value& value) {
  switch (value.kind()) {
    case Kind::kUndefined:
    case Kind::kNone: return false;
    case Kind::kBool:
    case Kind::kInteger: return value.as_integer() != 0;
    case Kind::kFloat: return value.as_double() != 0;
    case Kind::kText: return !value.as_text().empty();
    case Kind::kList:
    case Kind::kTuple: return !value.items().empty();
    case Kind::kRange: return value.as_range().size() != 0;
    case Kind::kView: {
      const View& view = value.as_view_object();
      return view.of == View::Of::kGenerator || !view.items.empty();
    }
    case Kind::kDict: return value.as_dict().size != 0;
    default: return true;
  }
}

// ---- equality, order, hashes and dicts ----

namespace {

constexpr int kDeepestValue = 400;
constexpr std::uint32_t kSearchedThrough = 12;

void check_depth(int depth) {
  if (depth > kDeepestValue) fail_unsupported("values nested more than ", kDeepestValue, " deep");
}

bool equal_dicts(const Dict& a, const Dict& b, int depth) {
  if (a.size != b.size) return false;
  return std::ranges::all_of(a.all(), [&](const Entry& entry) {
    const Value* other = b.find(entry.key);
    return other != nullptr && equals(entry.value, *other, depth + 1);
  });
}

// Exact also for integers with more digits than a double.
int compare_numbers(const Value& a, const Value& b) {
  if (a.is_integral() && b.is_integral()) return a.as_integer() < b.as_integer() ? -1 : a.as_integer() > b.as_integer();
  const double x = a.as_double();
  const double y = b.as_double();
  if (std::isnan(x) || std::isnan(y)) return 2;
  return x < y ? -1 : x > y;
}

std::uint32_t* slot_of(const Dict& dict, std::size_t hash, const auto& is_key) {
  for (std::size_t at = hash;; ++at) {
    std::uint32_t& slot = dict.slots[at & (dict.slot_count - 1)];
    if (slot == 0 || is_key(dict.entries[slot - 1].key)) return &slot;
  }
}

void rebuild_slots(Arena& arena, Dict& dict) {
  dict.slot_count = std::bit_ceil(dict.capacity * 2);
  dict.slots = arena.make_array<std::uint32_t>(dict.slot_count);
  std::fill_n(dict.slots, dict.slot_count, 0U);
  for (std::uint32_t i = 0; i < dict.size; ++i) {
    *slot_of(dict, hash_of(dict.entries[i].key), [](const Value&) { return false; }) = i + 1;
  }
}

std::size_t hash_text(std::string_view text) { return std::hash<std::string_view>()(text); }

}  // namespace

bool equals(const Value& a, const Value& b, int depth) {
  check_depth(depth);
  if (a.is_number() && b.is_number()) return compare_numbers(a, b) == 0;
  if (a.kind() != b.kind()) return false;
  switch (a.kind()) {
    case Kind::kUndefined:
    case Kind::kNone: return true;
    case Kind::kText: return a.as_view() == b.as_view();
    case Kind::kList:
    case Kind::kTuple:
      return std::ranges::equal(a.items(), b.items(),
                                [&](const Value& x, const Value& y) { return equals(x, y, depth + 1); });
    case Kind::kRange: {
      const Range& x = a.as_range();
      const Range& y = b.as_range();
      const std::size_t size = x.size();
      return size == y.size() && (size == 0 || (x.start == y.start && (size == 1 || x.step == y.step)));
    }
    case Kind::kDict: return equal_dicts(a.as_dict(), b.as_dict(), depth);
    default: return a.same_as(b);
  }
}

bool less_than(const Value& a, const Value& b, std::string_view sign, int depth) {
  check_depth(depth);
  if (a.is_number() && b.is_number()) return compare_numbers(a, b) == -1;
  if (a.is_undefined()) fail(a.absence());
  if (b.is_undefined()) fail(b.absence());
  if (a.is_text() && b.is_text()) return a.as_view() < b.as_view();
  if (a.kind() == b.kind() && a.is_sequence()) {
    const auto [x, y] = std::ranges::mismatch(
        a.items(), b.items(), [&](const Value& left, const Value& right) { return equals(left, right, depth + 1); });
    if (x == a.items().end() || y == b.items().end()) return a.items().size() < b.items().size();
    return less_than(*x, *y, sign, depth + 1);
  }
  fail("'", sign, "' not supported between instances of '", type_name(a), "' and '", type_name(b), "'");
}

std::size_t hash_of(const Value& value, int depth) {
  check_depth(depth);
  switch (value.kind()) {
    case Kind::kUndefined:
    case Kind::kNone: return 1;
    case Kind::kBool:
    case Kind::kInteger:
    case Kind::kFloat: return std::hash<double>()(value.as_double() == 0 ? 0 : value.as_double());
    case Kind::kText: return hash_text(value.as_view());
    case Kind::kTuple: {
      std::size_t hash = 17;
      for (const Value& item : value.items()) hash = hash * 31 + hash_of(item, depth + 1);
      return hash;
    }
    case Kind::kList:
    case Kind::kDict: fail("unhashable type: '", type_name(value), "'");
    default: return 3;
  }
}

const Value* Dict::find(const Value& key) const {
  if (key.is_text()) return find(key.as_view());
  const std::size_t hash = hash_of(key);  // also fails on values that cannot be keys
  if (slots == nullptr) {
    for (const Entry& entry : all()) {
      if (equals(entry.key, key)) return &entry.value;
    }
    return nullptr;
  }
  const std::uint32_t slot = *slot_of(*this, hash, [&](const Value& other) { return equals(other, key); });
  return slot == 0 ? nullptr : &entries[slot - 1].value;
}

const Value* Dict::find(std::string_view key) const {
  const auto is_key = [&](const Value& other) { return other.is_text() && other.as_view() == key; };
  if (slots == nullptr) {
    for (const Entry& entry : all()) {
      if (is_key(entry.key)) return &entry.value;
    }
    return nullptr;
  }
  const std::uint32_t slot = *slot_of(*this, hash_text(key), is_key);
  return slot == 0 ? nullptr : &entries[slot - 1].value;
}

void Dict::set(Arena& arena, const Value& key, const Value& value) {
  if (const Value* present = find(key)) {
    *const_cast<Value*>(present) = value;  // NOLINT: our own entry, found through a const look-up
    return;
  }
  if (size == capacity) {
    capacity = std::max<std::uint32_t>(4, capacity * 2);
    Entry* larger = arena.make_array<Entry>(capacity);
    std::copy_n(entries, size, larger);
    entries = larger;
    if (capacity > kSearchedThrough) rebuild_slots(arena, *this);
  }
  entries[size++] = {key, value};
  if (slots != nullptr) *slot_of(*this, hash_of(key), [](const Value&) { return false; }) = size;
}

}  // namespace kvkeep::chat::jinja
