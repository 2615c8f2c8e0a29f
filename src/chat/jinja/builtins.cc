#include "chat/jinja/builtins.h"

#include <algorithm>
#include <cmath>

#include "chat/jinja/value_text.h"

namespace kvkeep::chat::jinja {
namespace {

Builtin find_in(std::span<const NamedBuiltin> table, std::string_view name) {
  const auto found = std::ranges::find(table, name, &NamedBuiltin::name);
  return found == table.end() ? nullptr : found->builtin;
}

Builtin find_in(std::initializer_list<std::span<const NamedBuiltin>> tables, std::string_view name) {
  for (const auto& table : tables) {
    if (const Builtin builtin = find_in(table, name)) return builtin;
  }
  return nullptr;
}

// Methods of lists, tuples and dicts.

Value list_count(Interpreter& in, const Value& self, const Arguments& arguments) {
  const auto [wanted] = place<1>("count", arguments, {"value"}, 1);
  const std::span<const Value> items = in.items_of(self);
  in.charge(items.size());
  return Value::integer(std::ranges::count_if(items, [&](const Value& item) { return equals(item, *wanted); }));
}

Value list_index(Interpreter& in, const Value& self, const Arguments& arguments) {
  const auto [wanted] = place<1>("index", arguments, {"value"}, 1);
  const std::span<const Value> items = in.items_of(self);
  in.charge(items.size());
  const auto found = std::ranges::find_if(items, [&](const Value& item) { return equals(item, *wanted); });
  if (found == items.end()) fail(type_name(self), ".index(x): x not in ", type_name(self));
  return Value::integer(found - items.begin());
}

Value copy(Interpreter& /*in*/, const Value& self, const Arguments& arguments) {
  place<0>("copy", arguments, {});
  return self;
}

Value dict_get(Interpreter& /*in*/, const Value& self, const Arguments& arguments) {
  const auto [key, fallback] = place<2>("get", arguments, {"key", "default"}, 1);
  if (const Value* value = self.as_dict().find(*key)) return *value;
  return fallback == nullptr ? Value::none() : *fallback;
}

Value dict_keys(Interpreter& in, const Value& self, const Arguments& arguments) {
  place<0>("keys", arguments, {});
  return in.generator(in.items_of(self), View::Of::kKeys);
}

Value dict_values(Interpreter& in, const Value& self, const Arguments& arguments) {
  place<0>("values", arguments, {});
  std::vector<Value> values;
  for (const Entry& entry : self.as_dict().all()) values.push_back(entry.value);
  return in.generator(values, View::Of::kValues);
}

Value dict_items(Interpreter& in, const Value& self, const Arguments& arguments) {
  place<0>("items", arguments, {});
  std::vector<Value> items;
  for (const Entry& entry : self.as_dict().all()) items.push_back(in.list_of_two(entry.key, entry.value));
  return in.generator(items, View::Of::kItems);
}

Value refused(Interpreter& /*in*/, const Value& self, const Arguments& /*arguments*/) {
  fail("lists and dicts cannot be changed by a template (this is a ", type_name(self), ")");
}

Value is_integer(Interpreter& /*in*/, const Value& self, const Arguments& arguments) {
  place<0>("is_integer", arguments, {});
  const double number = self.as_double();
  return Value::boolean(std::isfinite(number) && number == std::floor(number));
}

constexpr NamedBuiltin kListMethods[] = {{"count", list_count}, {"index", list_index}};
constexpr NamedBuiltin kListOnlyMethods[] = {{"copy", copy},       {"append", refused}, {"extend", refused},
                                             {"insert", refused},  {"pop", refused},    {"remove", refused},
                                             {"reverse", refused}, {"sort", refused},   {"clear", refused}};
constexpr NamedBuiltin kDictMethods[] = {{"get", dict_get},     {"keys", dict_keys},     {"values", dict_values},
                                         {"items", dict_items}, {"copy", copy},          {"update", refused},
                                         {"pop", refused},      {"setdefault", refused}, {"popitem", refused},
                                         {"clear", refused},    {"fromkeys", refused}};

}  // namespace

Builtin find_filter(std::string_view name) {
  return find_in({text_filters(), number_filters(), sequence_filters()}, name);
}

Builtin find_dict_method(std::string_view name) { return find_in(kDictMethods, name); }

std::optional<Value> find_attribute(Interpreter& in, const Value& object, std::string_view name) {
  Builtin builtin = nullptr;
  switch (object.kind()) {
    case Kind::kText: builtin = find_in(text_methods(), name); break;
    case Kind::kList: builtin = find_in({kListMethods, kListOnlyMethods}, name); break;
    case Kind::kRange:
    case Kind::kTuple: builtin = find_in(kListMethods, name); break;
    case Kind::kCycler: {
      Cycler& cycler = object.as_cycler();
      if (name == "current") return cycler.items[cycler.at % cycler.items.size()];
      if (name == "next") {
        builtin = [](Interpreter&, const Value& self, const Arguments&) {
          Cycler& turning = self.as_cycler();
          return turning.items[turning.at++ % turning.items.size()];
        };
      } else if (name == "reset") {
        builtin = [](Interpreter&, const Value& self, const Arguments&) {
          self.as_cycler().at = 0;
          return Value::none();
        };
      }
      break;
    }
    case Kind::kInteger:
    case Kind::kFloat:
      if (name == "is_integer") builtin = is_integer;
      break;
    case Kind::kFunction:
      if (object.as_function().macro != nullptr && name == "name") return in.text(object.as_function().name);
      break;
    default: break;
  }
  if (builtin == nullptr) return std::nullopt;
  return in.method(name, builtin, object);
}

void place(std::string_view function, const Arguments& arguments, std::span<const std::string_view> names,
           std::size_t required, Given given) {
  const auto complain = [&](const std::string& what) { fail(function, "() ", what); };
  if (arguments.positional.size() > names.size()) {
    complain(say("takes at most ", names.size(), " argument(s) (", arguments.positional.size(), " given)"));
  }
  for (std::size_t i = 0; i < arguments.positional.size(); ++i) given[i] = &arguments.positional[i];
  for (const Entry& entry : arguments.named) {
    const auto found = std::ranges::find(names, entry.key.as_view());
    if (found == names.end()) complain(say("got an unexpected keyword argument '", entry.key.as_view(), "'"));
    const auto index = static_cast<std::size_t>(found - names.begin());
    if (given[index] != nullptr) complain(say("got multiple values for argument '", *found, "'"));
    given[index] = &entry.value;
  }
  for (std::size_t i = 0; i < required; ++i) {
    if (given[i] == nullptr) complain(say("missing required argument '", names[i], "'"));
  }
}

std::int64_t integer_argument(const Value* argument, std::int64_t fallback) {
  if (argument == nullptr) return fallback;
  if (argument->is_undefined()) fail(argument->absence());
  if (!argument->is_integral()) fail("'", type_name(*argument), "' object cannot be interpreted as an integer");
  return argument->as_integer();
}

bool bool_argument(const Value* argument, bool fallback) { return argument == nullptr ? fallback : is_true(*argument); }

Text text_argument(const Value& argument) {
  if (argument.is_undefined()) fail(argument.absence());
  if (!argument.is_text()) fail("expected str instance, ", type_name(argument), " found");
  return argument.as_text();
}

}  // namespace kvkeep::chat::jinja
