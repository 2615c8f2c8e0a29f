#include "chat/jinja/builtins.h"

#include <algorithm>
#include <cmath>
#include <ctime>

#include "chat/jinja/template.h"
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

// Functions that templates find by name: Jinja's own, and those that chat templates are given.

namespace {

constexpr std::size_t kLongestRange = 100'000;  // the sandbox's limit, too
constexpr std::int64_t kFarthest = std::int64_t{1} << 61;

Value function_range(Interpreter& in, const Value& /*self*/, const Arguments& arguments) {
  if (!arguments.named.empty()) fail("range() takes no keyword arguments");
  const std::vector<Value>& given = arguments.positional;
  if (given.empty() || given.size() > 3) fail("range expected 1 to 3 arguments, got ", given.size());
  auto* range = in.arena().make<Range>(0, integer_argument(&given[given.size() == 1 ? 0 : 1], 0), 1);
  if (given.size() > 1) range->start = integer_argument(given.data(), 0);
  if (given.size() > 2) range->step = integer_argument(&given[2], 1);
  if (range->step == 0) fail("range() arg 3 must not be zero");
  for (const std::int64_t number : {range->start, range->stop, range->step}) {
    if (number < -kFarthest || number > kFarthest) fail("integer overflow: integers have 64 bits here");
  }
  if (range->size() > kLongestRange) {
    fail_unsupported("Range too big. The sandbox blocks ranges larger than MAX_RANGE (", kLongestRange, ").");
  }
  return Value::range(range);
}

void add_pairs(Interpreter& in, Dict& dict, const Value& value) {
  if (value.is_dict()) {
    for (const Entry& entry : value.as_dict().all()) dict.set(in.arena(), entry.key, entry.value);
    return;
  }
  for (const Value& pair : in.items_of(value)) {
    const std::span<const Value> sides = in.items_of(pair);
    if (sides.size() != 2) fail("dictionary update sequence element has length ", sides.size(), "; 2 is required");
    dict.set(in.arena(), sides[0], sides[1]);
  }
}

Dict made_dict(Interpreter& in, std::string_view name, const Arguments& arguments) {
  if (arguments.positional.size() > 1) {
    fail(name, " expected at most 1 argument, got ", arguments.positional.size());
  }
  Dict dict;
  if (!arguments.positional.empty()) add_pairs(in, dict, arguments.positional.front());
  in.charge(dict.size + arguments.named.size());
  for (const Entry& entry : arguments.named) dict.set(in.arena(), entry.key, entry.value);
  return dict;
}

Value function_dict(Interpreter& in, const Value& /*self*/, const Arguments& arguments) {
  return Value::dict(in.arena().make<Dict>(made_dict(in, "dict", arguments)));
}

Value function_namespace(Interpreter& in, const Value& /*self*/, const Arguments& arguments) {
  return Value::name_space(in.arena().make<Namespace>(made_dict(in, "namespace", arguments)));
}

Value function_cycler(Interpreter& in, const Value& /*self*/, const Arguments& arguments) {
  if (arguments.positional.empty()) fail("at least one item has to be provided");
  return Value::cycler(in.arena().make<Cycler>(in.list(arguments.positional).items(), std::size_t{0}));
}

// The first call gives "", each later call the separator: as a called Cycler of one item does.
Value function_joiner(Interpreter& in, const Value& /*self*/, const Arguments& arguments) {
  const auto [separator] = place<1>("joiner", arguments, {"sep"});
  const Value item[] = {separator == nullptr ? in.text(", ") : *separator};
  return Value::cycler(in.arena().make<Cycler>(in.list(item).items(), std::size_t{0}));
}

Value function_raise_exception(Interpreter& in, const Value& /*self*/, const Arguments& arguments) {
  const auto [message] = place<1>("raise_exception", arguments, {"message"}, 1);
  throw Failure{ErrorKind::kInvalid, std::string(written(in, *message).view()), /*verbatim=*/true};
}

Value function_strftime_now(Interpreter& in, const Value& /*self*/, const Arguments& arguments) {
  const auto [format] = place<1>("strftime_now", arguments, {"format"}, 1);
  const Text text = text_argument(*format);
  in.charge(text.size());
  const auto written = formatted_time(text.view(), in.local_time_s());
  if (!written) fail("no such time");
  return in.text(*written);
}

bool is_letter(char byte) { return (byte >= 'a' && byte <= 'z') || (byte >= 'A' && byte <= 'Z'); }

// One conversion at a time, because a width in the format could ask for any number of bytes.
std::string written_time(std::string_view format, const std::tm& time) {
  std::string result;
  for (std::size_t i = 0; i < format.size(); ++i) {
    if (format[i] != '%' || i + 1 == format.size()) {
      result.push_back(format[i]);
      continue;
    }
    std::string conversion = "%";
    const char flag = format[++i];
    if ((flag == '-' || flag == '_' || flag == '^' || flag == '#') && i + 1 < format.size())
      conversion.push_back(format[i++]);
    conversion.push_back(format[i]);
    if (conversion == "%f") {
      result += "000000";
    } else if (is_letter(format[i])) {
      char text[128];
      result.append(text, std::strftime(text, sizeof(text), conversion.c_str(), &time));
    } else {
      result += conversion == "%%" ? "%" : conversion;
    }
  }
  return result;
}

constexpr NamedBuiltin kFunctions[] = {{"range", function_range},
                                       {"dict", function_dict},
                                       {"namespace", function_namespace},
                                       {"cycler", function_cycler},
                                       {"joiner", function_joiner},
                                       {"raise_exception", function_raise_exception},
                                       {"strftime_now", function_strftime_now}};

}  // namespace

std::optional<std::string> formatted_time(std::string_view format, std::int64_t local_time_s) {
  const auto time = static_cast<std::time_t>(local_time_s);
  std::tm civil{};
  if (gmtime_r(&time, &civil) == nullptr) return std::nullopt;
  return written_time(format, civil);
}

Builtin find_function(std::string_view name) {
  const auto* found = std::ranges::find(kFunctions, name, &NamedBuiltin::name);
  return found == std::end(kFunctions) ? nullptr : found->builtin;
}

}  // namespace kvkeep::chat::jinja
