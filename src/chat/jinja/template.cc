#include "chat/jinja/template.h"

#include <limits>

#include "chat/jinja/builtins.h"
#include "chat/jinja/interpreter.h"
#include "chat/jinja/parser.h"

namespace kvkeep::chat::jinja {
namespace {

// ---- the input as values ----

using nlohmann::ordered_json;

constexpr int kDeepestInput = 400;
constexpr std::size_t kBytesOfOther = 8;

class Converter {
 public:
  Converter(Interpreter& in, const Variable& variable)
      : in_(in), rules_(variable.rules), next_place_(variable.first_place) {}

  Value convert(const ordered_json& json, std::string_view key, int depth) {
    if (depth > kDeepestInput) fail_unsupported("input nested more than ", kDeepestInput, " deep");
    switch (json.type()) {
      case ordered_json::value_t::null: return Value::none();
      case ordered_json::value_t::boolean: return Value::boolean(json.get<bool>());
      case ordered_json::value_t::number_integer: return Value::integer(json.get<std::int64_t>());
      case ordered_json::value_t::number_unsigned: {
        const auto number = json.get<std::uint64_t>();
        constexpr std::uint64_t kLargest = std::numeric_limits<std::int64_t>::max();
        return number > kLargest ? Value::number(static_cast<double>(number))
                                 : Value::integer(static_cast<std::int64_t>(number));
      }
      case ordered_json::value_t::number_float: return Value::number(json.get<double>());
      case ordered_json::value_t::string: {
        const auto& text = json.get_ref<const std::string&>();
        return Value::text(make_view(in_.arena(), text, placed(rules_.of_value(key, text))));
      }
      case ordered_json::value_t::array: return array(json, key, depth);
      case ordered_json::value_t::object: return object(json, depth);
      default: fail("input that is no JSON");
    }
  }

 private:
  Value array(const ordered_json& json, std::string_view key, int depth) {
    std::vector<Value> items;
    items.reserve(json.size());
    for (const ordered_json& element : json) items.push_back(convert(element, key, depth + 1));
    return in_.list(items);
  }

  Value object(const ordered_json& json, int depth) {
    auto* dict = in_.arena().make<Dict>();
    for (const auto& [key, element] : json.items()) {
      if (depth == 1 && next_place_ > 0) place_ = next_place_++;
      const Value name = Value::text(make_constant(in_.arena(), key, placed(rules_.of_key(key))));
      dict->set(in_.arena(), name, convert(element, key, depth + 1));
    }
    return Value::dict(dict);
  }

  Origin placed(Origin origin) const { return is_message(origin) ? message_at(place_) : origin; }

  Interpreter& in_;
  const OriginRules& rules_;
  std::uint32_t next_place_;  // 0: places do not matter
  std::uint32_t place_ = 0;
};

// The bytes of its strings, and a little for everything else; for limits.
std::size_t size_of(const ordered_json& json) {
  if (json.is_string()) return kBytesOfOther + json.get_ref<const std::string&>().size();
  std::size_t size = kBytesOfOther;
  if (json.is_object()) {
    for (const auto& [key, value] : json.items()) size += key.size() + size_of(value);
  } else if (json.is_array()) {
    for (const ordered_json& value : json) size += size_of(value);
  }
  return size;
}

// ---- parsing and rendering ----

constexpr std::size_t kConstantBytesPerSourceByte = 256;
constexpr std::size_t kLargestMemoryBytes = std::size_t{3} << 30;  // texts are counted in 32 bits

// One line, whatever the template put in it.
Error error_of(const Failure& failure, int line) {
  constexpr std::size_t kLongest = 400;
  std::string message = failure.message.substr(0, kLongest);
  if (!failure.verbatim && line > 0) message += say(" (line ", line, ")");
  for (char& byte : message) {
    if (static_cast<unsigned char>(byte) < 0x20) byte = ' ';
  }
  return {failure.kind, "chat template: " + message};
}

std::size_t limit_of(const Limit& limit, std::size_t bytes) { return limit.base + limit.per_byte * bytes; }

Printed printed_of(const Text& text) {
  Printed printed;
  printed.text = text.view();
  text.for_each_run([&](std::string_view run, Origin origin) { printed.runs.push_back({run.size(), origin}); });
  return printed;
}

}  // namespace

OriginRules all_from_messages() {
  return {[](std::string_view) { return Origin::kMessage; },
          [](std::string_view, std::string_view) { return Origin::kMessage; }};
}

Template::Template(std::unique_ptr<const Program> program, std::size_t source_bytes)
    : program_(std::move(program)), source_bytes_(source_bytes) {}
Template::Template(Template&&) noexcept = default;
Template& Template::operator=(Template&&) noexcept = default;
Template::~Template() = default;

Result<Template> Template::parse(std::string_view source) {
  if (source.size() > kMaxSourceBytes) return unsupported("chat template: longer than 512 KiB");
  auto program = std::make_unique<Program>(kConstantBytesPerSourceByte * (source.size() + 1024));
  try {
    Parser(source, *program).run();
  } catch (const Failure& failure) {
    return error_of(failure, 0);
  }
  return Template(std::move(program), source.size());
}

bool Template::mentions(std::string_view name) const { return program_->symbol_of.contains(name); }

Result<Printed> Template::render(const Input& input) const {
  std::size_t bytes = source_bytes_;
  for (const Variable& variable : input.variables) bytes += size_of(*variable.value);
  const Budget budget{.steps = limit_of(input.limits.steps, bytes),
                      .memory_bytes = std::min(limit_of(input.limits.memory_bytes, bytes), kLargestMemoryBytes),
                      .output_bytes = limit_of(input.limits.output_bytes, bytes),
                      .depth = input.limits.depth};
  Interpreter in(*program_, budget, input.local_time_s);
  try {
    for (Symbol symbol = 0; symbol < program_->symbols.size(); ++symbol) {
      const std::string_view name = program_->symbols[symbol];
      if (const Builtin function = find_function(name)) in.define(symbol, in.method(name, function, Value()));
    }
    for (const Variable& variable : input.variables) {
      // Skips variables that the template never names.
      const auto symbol = program_->symbol_of.find(variable.name);
      if (symbol != program_->symbol_of.end())
        in.define(symbol->second, Converter(in, variable).convert(*variable.value, {}, 0));
    }
    return printed_of(in.run());
  } catch (const Failure& failure) {
    return error_of(failure, in.line());
  }
}

}  // namespace kvkeep::chat::jinja
