#include "chat/tools/call_grammar.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "chat/grammar/gbnf.h"
#include "chat/grammar/grammar_builder.h"
#include "chat/grammar/schema.h"
#include "chat/tools/json_text.h"

namespace kvkeep::chat::tools {
namespace {

using grammar::GrammarBuilder;
using nlohmann::ordered_json;

constexpr std::string_view kTagLetters = "\\x01-\\x08";

const ordered_json& empty_object_schema() {
  static const ordered_json schema = {{"type", "object"}};
  return schema;
}

std::string literal(std::string_view text) { return text.empty() ? "" : GrammarBuilder::literal(text); }

// The markers of a format's tags, each once.
std::vector<TokenId> markers_of(const ReplyFormat& format) {
  std::vector<TokenId> ids;
  for (const Tag* tag : format.tags()) {
    for (const TagMarker& marker : tag->markers()) {
      if (std::ranges::find(ids, marker.id) == ids.end()) ids.push_back(marker.id);
    }
  }
  return ids;
}

// Text without a closing tag "</x...": never "</x" as such, which is enough and keeps the grammar small. Nor does it
// hold letters that stand for markers.
std::string text_rule(GrammarBuilder& builder, std::string_view closing_tag) {
  std::size_t end = 3;  // a whole code point
  while (end < closing_tag.size() && (static_cast<unsigned char>(closing_tag[end]) & 0xC0) == 0x80) ++end;
  const std::string_view third = closing_tag.substr(2, end - 2);
  return builder.add("text",
                     fmt::format("( [^<{0}] | \"<\"+ [^/<{0}] | \"<\"+ \"/\" [^{1}<{0}] )*", kTagLetters, third));
}

class Writer {
 public:
  Writer(const ReplyFormat& format, const ToolSet& tools) : format_(format), row_(format.row()), tools_(tools) {}

  Result<CallGrammar> write(const CallRules& rules) {
    tags_ = markers_of(format_);
    if (tags_.size() > std::min(rules.tag_letters, kMostTagLetters)) tags_.clear();
    std::vector<std::string> calls;
    if (!tools_.json().is_array()) return invalid("there are no tools to call");
    for (const ordered_json& tool : tools_.json()) {
      const ordered_json& function = tool["function"];
      const std::string name = function["name"].get<std::string>();
      if (!rules.only.empty() && name != rules.only) continue;
      TRY_ASSIGN(const std::string body, call_of(function, name));
      calls.push_back(builder_.add("call", body));
    }
    if (calls.empty()) return invalid(fmt::format("there is no tool '{}'", rules.only));
    const std::string any = builder_.add("any-call", fmt::format("{}", fmt::join(calls, " | ")));
    const std::string root = builder_.add("reply", thought(rules) + all_calls(any, rules.parallel));
    CallGrammar result;
    TRY_ASSIGN(result.text, builder_.text(root));
    if (!rules.at_once) result.triggers = triggers();
    result.tags = tags_;
    return result;
  }

 private:
  // Markers as the letters that stand for them, or as tokens; the text between them as text.
  std::string tag_expression(const Tag& tag) const {
    std::string expression;
    std::size_t at = 0;
    const auto append = [&](std::string_view text) {
      if (!text.empty()) expression.append(literal(text)).append(" ");
    };
    for (const TagMarker& marker : tag.markers()) {
      append(std::string_view(tag.spelling()).substr(at, marker.begin - at));
      const auto letter = std::ranges::find(tags_, marker.id);
      expression += letter == tags_.end() ? fmt::format("<[{}]> ", marker.id)
                                          : fmt::format("\"\\x{:02X}\" ", letter - tags_.begin() + 1);
      at = marker.end;
    }
    append(std::string_view(tag.spelling()).substr(at));
    return expression;
  }

  std::string thought(const CallRules& rules) {
    if (!rules.at_once || !rules.may_think) return "";
    if (format_.kind == FormatKind::kHarmony) {
      return fmt::format("( {}\"analysis\" {}{} {}{}\"assistant\" )? ", tag_expression(format_.channel),
                         tag_expression(format_.message), text_rule(builder_, "<|e"), tag_expression(format_.end),
                         tag_expression(format_.start));
    }
    if (!format_.thinking_open.exists() || !format_.thinking_close.spelling().starts_with("</")) return "";
    return fmt::format("( {}{} {}[\\n]* )? ", tag_expression(format_.thinking_open),
                       text_rule(builder_, format_.thinking_close.spelling()), tag_expression(format_.thinking_close));
  }

  std::string all_calls(const std::string& any, bool parallel) {
    const std::string open = tag_expression(format_.section_open);
    const std::string close = tag_expression(format_.section_close);
    const bool has_lines = row_.body == CallBody::kParameters || row_.body == CallBody::kKeyValues;
    const std::string line = has_lines ? "\"\\n\" " : "";
    switch (format_.kind) {
      case FormatKind::kHermes:
      case FormatKind::kQwenCoder:
      case FormatKind::kGlm: return parallel ? fmt::format("{0} ( \"\\n\" {0} )*", any) : any;
      case FormatKind::kLlama: return parallel ? fmt::format("{0} ( \"; \" {0} )*", any) : any;
      case FormatKind::kHarmony: return any;  // its call ends the reply
      case FormatKind::kMistral:
      case FormatKind::kGemma4: return parallel ? fmt::format("{}+", any) : any;
      case FormatKind::kLfm2:
      case FormatKind::kCommandR:
      case FormatKind::kCommandA: return listed_calls(any, parallel);
      default: break;
    }
    return fmt::format("{}{}( {} {}){} {}", open, line, any, line, parallel ? "+" : "", close);
  }

  // All calls in one list between the tags.
  std::string listed_calls(const std::string& any, bool parallel) const {
    const std::string more = parallel ? fmt::format("( \", \" {} )* ", any) : "";
    return fmt::format("{}\"[\" {} {}\"]\" {}", tag_expression(format_.call_open), any, more,
                       tag_expression(format_.call_close));
  }

  Result<std::string> call_of(const ordered_json& function, const std::string& name) {
    const auto found = function.find("parameters");
    const bool has_schema = found != function.end() && found->is_object() && !found->empty();
    const ordered_json& schema = has_schema ? *found : empty_object_schema();
    const std::string path = fmt::format("tools '{}' parameters", name);
    if (row_.body == CallBody::kParameters || row_.body == CallBody::kKeyValues) return tagged_call(schema, name, path);
    TRY_ASSIGN(const std::string arguments, grammar::add_schema(builder_, schema, {.path = path}));
    return json_call(name, arguments);
  }

  std::string json_call(const std::string& name, const std::string& arguments) {
    const std::string open = tag_expression(format_.call_open);
    const std::string close = tag_expression(format_.call_close);
    const std::string separator = tag_expression(format_.separator);
    const auto object = [&](const char* key) {
      return fmt::format("{} {} {}", literal("{\"name\": " + json_string(name) + ", \"" + key + "\": "), arguments,
                         literal("}"));
    };
    switch (format_.kind) {
      case FormatKind::kHermes: return fmt::format("{}\"\\n\" {} \"\\n\" {}", open, object("arguments"), close);
      case FormatKind::kLlama: return object("parameters");
      case FormatKind::kLfm2: return object("arguments");
      case FormatKind::kCommandR:
      case FormatKind::kCommandA:
        return fmt::format("{} {} {}", literal("{\"tool_name\": " + json_string(name) + ", \"parameters\": "),
                           arguments, literal("}"));
      case FormatKind::kGemma4: return fmt::format("{}{} {} {}", open, literal("call:" + name), arguments, close);
      case FormatKind::kMistral: return fmt::format("{}{} {}{}", open, literal(name), separator, arguments);
      case FormatKind::kDeepSeek: return fmt::format("{}{} {}{} {}", open, literal(name), separator, arguments, close);
      case FormatKind::kKimi:
        return fmt::format("{}{} [0-9]+ {}{} {}", open, literal("functions." + name + ":"), separator, arguments,
                           close);
      default:  // harmony
        return fmt::format("{}{} {}\"json\" {}{}", tag_expression(format_.channel),
                           literal("commentary to=functions." + name + " "), tag_expression(format_.constrain),
                           tag_expression(format_.message), arguments);
    }
  }

  Result<std::string> tagged_call(const ordered_json& schema, const std::string& name, const std::string& path) {
    std::string parameters;
    const ordered_json properties = schema.value("properties", ordered_json::object());
    const ordered_json required = schema.value("required", ordered_json::array());
    if (!properties.is_object()) return invalid(path + ": 'properties' must be an object");
    for (const auto& [key, property] : properties.items()) {
      TRY_ASSIGN(const std::string one, parameter(schema, property, name, key, path));
      const bool is_required = std::ranges::find(required, ordered_json(key)) != required.end();
      parameters += fmt::format("{}{} ", builder_.add("parameter", one), is_required ? "" : "?");
    }
    const std::string open = tag_expression(format_.call_open);
    const std::string close = tag_expression(format_.call_close);
    if (format_.kind == FormatKind::kQwenCoder) {
      return fmt::format("{}{} {}{} {}", open, literal("\n<function=" + name + ">\n"), parameters,
                         literal("</function>\n"), close);
    }
    if (format_.kind == FormatKind::kGlm)
      return fmt::format("{}{} {}{}", open, literal(name + "\n"), parameters, close);
    return fmt::format("{}{} {}{}", open, literal(" name=\"" + name + "\">\n"), parameters, close);
  }

  // `value` is the rule or expression for a value.
  Result<std::string> parameter(const ordered_json& schema, const ordered_json& property, const std::string& tool,
                                const std::string& key, const std::string& path) {
    const bool is_text = tools_.value_json(tool, key, "1") == "\"1\"";
    TRY_ASSIGN(const std::string value, value_rule(schema, property, is_text, path + "." + key));
    const std::string open = tag_expression(format_.value_open);
    const std::string close = tag_expression(format_.value_close);
    switch (format_.kind) {
      case FormatKind::kQwenCoder:
        return fmt::format("{}{} {} \"\\n\" {}\"\\n\"", open, literal(key + ">\n"), value, close);
      case FormatKind::kGlm:
        return fmt::format("{}{} {}\"\\n\" {}{} {}\"\\n\"", tag_expression(format_.key_open), literal(key),
                           tag_expression(format_.key_close), open, value, close);
      case FormatKind::kMiniMax:
        return fmt::format("{}{} {} {}\"\\n\"", open, literal(" name=\"" + key + "\">"), value, close);
      default:
        return fmt::format("{}{} {} {}\"\\n\"", open,
                           literal(fmt::format(" name=\"{}\" string=\"{}\">", key, is_text ? "true" : "false")), value,
                           close);
    }
  }

  Result<std::string> value_rule(const ordered_json& schema, ordered_json property, bool is_text,
                                 const std::string& path) {
    if (is_text) {
      const auto choices = property.is_object() ? property.find("enum") : property.end();
      if (!property.is_object() || choices == property.end() || !choices->is_array()) {
        return text_rule(builder_, format_.value_close.spelling());
      }
      std::vector<std::string> words;
      for (const ordered_json& one : *choices) {
        if (one.is_string()) words.push_back(literal(one.get_ref<const std::string&>()));
      }
      return builder_.add("choice", fmt::format("{}", fmt::join(words, " | ")));
    }
    for (const char* definitions : {"$defs", "definitions"}) {
      if (property.is_object() && schema.contains(definitions)) property[definitions] = schema[definitions];
    }
    return grammar::add_schema(builder_, property, {.path = path});
  }

  std::vector<CallTrigger> triggers() const {
    if (format_.kind == FormatKind::kHarmony) return {};
    std::vector<CallTrigger> found;
    if (format_.kind == FormatKind::kLlama) return {{.text = "{", .only_first = true}};
    const Tag& first = format_.section_open.exists() ? format_.section_open : format_.call_open;
    return {{.text = first.spelling()}};
  }

  const ReplyFormat& format_;
  const FormatRow& row_;
  const ToolSet& tools_;
  GrammarBuilder builder_;
  std::vector<TokenId> tags_;  // that a letter stands for
};

}  // namespace

Result<CallGrammar> make_call_grammar(const ReplyFormat& format, const ToolSet& tools, const CallRules& rules) {
  if (format.kind == FormatKind::kNone) {
    return invalid("this model's chat template knows no tool calls (see --tool-format), so no call can be required");
  }
  TRY_ASSIGN(CallGrammar made, Writer(format, tools).write(rules));
  // Patterns in schemas may be hostile.
  if (const auto read = grammar::read_gbnf(made.text); !read) return invalid("'tools': " + read.error().message);
  return made;
}

}  // namespace kvkeep::chat::tools
