#include "chat/jinja/template.h"

#include "chat/jinja/builtins.h"
#include "chat/jinja/from_json.h"
#include "chat/jinja/interpreter.h"
#include "chat/jinja/parser.h"

namespace kvkeep::chat::jinja {
namespace {

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
        in.define(symbol->second, from_json(in, *variable.value, variable.rules));
    }
    return printed_of(in.run());
  } catch (const Failure& failure) {
    return error_of(failure, in.line());
  }
}

}  // namespace kvkeep::chat::jinja
