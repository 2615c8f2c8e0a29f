// Functions that templates find by name: Jinja's own, and those that chat templates are given.

#include <algorithm>
#include <ctime>

#include "chat/jinja/builtins.h"
#include "chat/jinja/template.h"
#include "chat/jinja/value_text.h"

namespace kvkeep::chat::jinja {
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
