// The tests that may stand after `is`.

#include <algorithm>

#include "chat/jinja/builtins.h"
#include "chat/jinja/operators.h"
#include "chat/jinja/value_text.h"

namespace kvkeep::chat::jinja {
namespace {

// A test that looks only at the value's kind.
template <bool (*kTest)(const Value&)>
Value kind_test(Interpreter& /*in*/, const Value& self, const Arguments& arguments) {
  place<0>("test", arguments, {});
  return Value::boolean(kTest(self));
}

bool is_defined(const Value& value) { return !value.is_undefined(); }
bool is_undefined(const Value& value) { return value.is_undefined(); }
bool is_none(const Value& value) { return value.is(Kind::kNone); }
bool is_boolean(const Value& value) { return value.is(Kind::kBool); }
bool is_the_true(const Value& value) { return value.is(Kind::kBool) && value.as_bool(); }
bool is_the_false(const Value& value) { return value.is(Kind::kBool) && !value.as_bool(); }
bool is_integer(const Value& value) { return value.is(Kind::kInteger); }
bool is_float(const Value& value) { return value.is(Kind::kFloat); }
bool is_number(const Value& value) { return value.is_number(); }
bool is_string(const Value& value) { return value.is_text(); }
bool is_mapping(const Value& value) { return value.is_dict(); }
bool is_never(const Value& /*value*/) { return false; }
bool is_iterable(const Value& value) {
  switch (value.kind()) {
    case Kind::kUndefined:
    case Kind::kText:
    case Kind::kList:
    case Kind::kTuple:
    case Kind::kRange:
    case Kind::kView:
    case Kind::kDict:
    case Kind::kLoop: return true;
    default: return false;
  }
}
bool is_sequence(const Value& value) {
  return value.is_text() || value.is_sequence() || value.is_dict() || value.is(Kind::kRange) || value.is_undefined();
}
bool is_callable(const Value& value) {
  return value.is(Kind::kFunction) || value.is(Kind::kLoop) || value.is(Kind::kCycler) || value.is_undefined();
}

std::int64_t remainder_of(Interpreter& in, const Value& self, const Value& by) {
  const Value rest = binary(in, BinaryOperator::kRemainder, self, by);
  if (!rest.is_number()) return 2;
  return rest.as_double() == 0 ? 0 : rest.as_double() == 1 ? 1 : 2;
}

Value test_even(Interpreter& in, const Value& self, const Arguments& arguments) {
  place<0>("even", arguments, {});
  return Value::boolean(remainder_of(in, self, Value::integer(2)) == 0);
}
Value test_odd(Interpreter& in, const Value& self, const Arguments& arguments) {
  place<0>("odd", arguments, {});
  return Value::boolean(remainder_of(in, self, Value::integer(2)) == 1);
}
Value test_divisibleby(Interpreter& in, const Value& self, const Arguments& arguments) {
  const auto [number] = place<1>("divisibleby", arguments, {"num"}, 1);
  return Value::boolean(remainder_of(in, self, *number) == 0);
}

// Holds if all letters are of one case, and there is one.
bool all_cased(Interpreter& in, const Text& text, bool upper) {
  in.charge_bytes(text.size() * 4);
  bool any = false;
  for (std::size_t at = 0; at < text.size();) {
    const Character character = character_at(text.view(), at);
    if (is_title(character.code) || (upper ? is_lower(character.code) : is_upper(character.code))) return false;
    any |= is_cased(character.code);
    at += character.bytes;
  }
  return any;
}
Value test_upper(Interpreter& in, const Value& self, const Arguments& arguments) {
  place<0>("upper", arguments, {});
  return Value::boolean(all_cased(in, written(in, self), true));
}
Value test_lower(Interpreter& in, const Value& self, const Arguments& arguments) {
  place<0>("lower", arguments, {});
  return Value::boolean(all_cased(in, written(in, self), false));
}

template <Comparator kComparator>
Value comparison(Interpreter& in, const Value& self, const Arguments& arguments) {
  const auto [other] = place<1>("comparison", arguments, {"other"}, 1);
  return Value::boolean(compare(in, kComparator, self, *other));
}

Value test_sameas(Interpreter& /*in*/, const Value& self, const Arguments& arguments) {
  const auto [other] = place<1>("sameas", arguments, {"other"}, 1);
  return Value::boolean(self.same_as(*other));
}
Value test_filter(Interpreter& /*in*/, const Value& self, const Arguments& arguments) {
  place<0>("filter", arguments, {});
  return Value::boolean(self.is_text() && find_filter(self.as_view()) != nullptr);
}
Value test_test(Interpreter& /*in*/, const Value& self, const Arguments& arguments) {
  place<0>("test", arguments, {});
  return Value::boolean(self.is_text() && find_test(self.as_view()) != nullptr);
}

constexpr NamedBuiltin kTests[] = {
    {"defined", kind_test<is_defined>},
    {"undefined", kind_test<is_undefined>},
    {"none", kind_test<is_none>},
    {"boolean", kind_test<is_boolean>},
    {"true", kind_test<is_the_true>},
    {"false", kind_test<is_the_false>},
    {"integer", kind_test<is_integer>},
    {"float", kind_test<is_float>},
    {"number", kind_test<is_number>},
    {"string", kind_test<is_string>},
    {"mapping", kind_test<is_mapping>},
    {"iterable", kind_test<is_iterable>},
    {"sequence", kind_test<is_sequence>},
    {"callable", kind_test<is_callable>},
    {"escaped", kind_test<is_never>},
    {"even", test_even},
    {"odd", test_odd},
    {"divisibleby", test_divisibleby},
    {"upper", test_upper},
    {"lower", test_lower},
    {"sameas", test_sameas},
    {"filter", test_filter},
    {"test", test_test},
    {"in", comparison<Comparator::kIn>},
    {"eq", comparison<Comparator::kEqual>},
    {"equalto", comparison<Comparator::kEqual>},
    {"==", comparison<Comparator::kEqual>},
    {"ne", comparison<Comparator::kNotEqual>},
    {"!=", comparison<Comparator::kNotEqual>},
    {"lt", comparison<Comparator::kLess>},
    {"lessthan", comparison<Comparator::kLess>},
    {"<", comparison<Comparator::kLess>},
    {"le", comparison<Comparator::kLessEqual>},
    {"<=", comparison<Comparator::kLessEqual>},
    {"gt", comparison<Comparator::kGreater>},
    {"greaterthan", comparison<Comparator::kGreater>},
    {">", comparison<Comparator::kGreater>},
    {"ge", comparison<Comparator::kGreaterEqual>},
    {">=", comparison<Comparator::kGreaterEqual>},
};

}  // namespace

Builtin find_test(std::string_view name) {
  const auto* found = std::ranges::find(kTests, name, &NamedBuiltin::name);
  return found == std::end(kTests) ? nullptr : found->builtin;
}

}  // namespace kvkeep::chat::jinja
