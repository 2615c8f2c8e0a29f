// Random replies, read by the parser in random pieces and by a naive reader as a whole: the same thoughts, text and
// calls.

#include "chat/tools/naive_reply_test.h"

#include <gtest/gtest.h>

#include <array>
#include <random>

#include "base/test_seed.h"

namespace kvkeep::chat::tools {
namespace {

using nlohmann::ordered_json;

constexpr std::array kKinds = {FormatKind::kHermes,   FormatKind::kQwenCoder, FormatKind::kMistral,
                               FormatKind::kDeepSeek, FormatKind::kGlm,       FormatKind::kKimi};

const NaiveReader::Kinds& kinds() {
  static const NaiveReader::Kinds all = {.tools = {"f", "read_file"}, .strings = {"s", "t"}, .booleans = {"b"}};
  return all;
}

ToolSet tools_of_kinds() {
  const auto type = [](const char* name) { return ordered_json{{"type", name}}; };
  ordered_json list = ordered_json::array();
  for (const std::string& name : kinds().tools) {
    list.push_back({{"type", "function"},
                    {"function",
                     {{"name", name},
                      {"parameters",
                       {{"type", "object"},
                        {"properties",
                         {{"s", type("string")},
                          {"t", type("string")},
                          {"b", type("boolean")},
                          {"n", type("number")},
                          {"o", type("object")}}}}}}}});
  }
  return ToolSet(std::move(list));
}

// A vocabulary in which all tags are tokens, or none.
struct Tags {
  explicit Tags(bool tokens)
      : are_tokens(tokens), vocabulary(tokens ? tag_tokens() : std::vector<SpecialToken>()), markers(vocabulary, "") {}
  const bool are_tokens;
  FakeVocabulary vocabulary;
  MarkerSet markers;
};

// Writes replies as models do, and as they should not.
class Author {
 public:
  Author(FormatKind format, const Tags& tags, std::mt19937_64& random)
      : row_(row_of(format)), tags_(tags), random_(random) {}

  std::vector<Piece> reply() {
    reply_.clear();
    if (one_in(3)) write("<think>" + words() + (one_in(4) ? "" : "</think>\n\n"));
    for (std::size_t parts = below(5); parts > 0; --parts) add_part();
    if (one_in(4)) reply_.resize(below(reply_.size() + 1));  // cut at any byte
    return reply_;
  }
  bool one_in(std::size_t count) { return below(count) == 0; }

 private:
  std::size_t below(std::size_t end) { return random_() % end; }
  void write(const std::string& text, bool tags_as_text = false) {
    static const Tags kNone(false);
    for (const Piece& piece : pieces_of(text, tags_as_text ? kNone.markers : tags_.markers)) reply_.push_back(piece);
  }
  std::string any(const std::vector<std::string>& choices) { return choices[below(choices.size())]; }
  std::string words() {
    std::string text;
    for (std::size_t count = below(5); count > 0; --count) {
      text += any({"Hello", " and", "\n", " ", "é", "<b>", "</", "<", "{", "}", "\"", "[1]", "[", "\\", "```json",
                   "name", "👋"});
    }
    return text;
  }
  std::string any_tag() {
    return any({"<tool_call>", "</tool_call>", "<think>", "</think>", std::string(row_.section_open),
                std::string(row_.section_close), std::string(row_.call_open), std::string(row_.call_close),
                std::string(row_.separator), std::string(row_.value_open), std::string(row_.value_close), "</function>",
                "<function=f>", "<arg_key>"});
  }

  void add_part() {
    switch (below(6)) {
      case 0: return write(words());
      case 1: return write(any_tag());
      case 2: return write(any_tag(), /*tags_as_text=*/true);
      case 3: return write(calls(true));
      default: return write(calls(false));
    }
  }

  std::string calls(bool is_broken) {
    std::string text(row_.section_open);
    if (one_in(3)) text += "\n";
    const std::size_t count = 1 + below(2);
    for (std::size_t i = 0; i < count; ++i) {
      if (row_.kind == FormatKind::kMistral && one_in(2)) {
        text += "[TOOL_CALLS][" + json_call() + (one_in(2) ? ", " + json_call() : "") + "]";
      } else {
        text += std::string(row_.call_open) + body() + std::string(row_.call_close) + any({"", "\n"});
      }
    }
    text += row_.section_close;
    if (!is_broken) return text;
    if (one_in(2)) return text.substr(0, whole_character(text, below(text.size())));
    const std::string wrong = any({"{]}", "hello", "", "{\"name\": 5}", "{\"name\": \"f\", \"arguments\": [1]}",
                                   "{\"arguments\": {}}", "f{\"a\"", "{\"name\": \"f g\"}"});
    return std::string(row_.section_open) + std::string(row_.call_open) + wrong + std::string(row_.call_close) +
           std::string(row_.section_close);
  }
  static std::size_t whole_character(std::string_view text, std::size_t at) {
    while (at > 0 && (static_cast<unsigned char>(text[at]) & 0xC0) == 0x80) --at;
    return at;
  }

  std::string name() { return any({"f", "read_file", "unknown-1"}); }
  std::string string() {
    return any({"", "x", "a \"b\"", "C:\\", " 5 ", "true", "é\n\tz", "}]}", "</tool_call>",
                "<tool_call>{\"name\":\"x\"}", "[TOOL_CALLS]", "[ARGS]", "null", "<think>", "<parameter=n>",
                "{\"a\":1}"}) +
           any({"", "", " y", "\n"});
  }
  ordered_json arguments() {
    ordered_json all = ordered_json::object();
    if (one_in(2)) all["s"] = string();
    if (one_in(3)) all["n"] = static_cast<int>(below(100)) - 50;
    if (one_in(3)) all["b"] = one_in(2);
    if (one_in(3)) all["o"] = {{"a", {1, string(), nullptr}}, {"b", ordered_json::object()}};
    if (one_in(3)) all["t"] = string();
    return all;
  }
  std::string json(const ordered_json& value) { return value.dump(one_in(3) ? 1 : -1); }
  std::string json_call() { return json({{"name", name()}, {"arguments", arguments()}}); }

  std::string body() {
    switch (row_.kind) {
      case FormatKind::kHermes:
        return "\n" + (one_in(5) ? "[" + json_call() + "," + json_call() + "]" : json_call()) + "\n";
      case FormatKind::kMistral: return name() + "[ARGS]" + json(arguments());
      case FormatKind::kDeepSeek: return name() + "<｜tool▁sep｜>" + json(arguments());
      case FormatKind::kKimi: return "functions." + name() + ":0<|tool_call_argument_begin|>" + json(arguments());
      default: break;
    }
    const bool is_glm = row_.kind == FormatKind::kGlm;
    std::string text = is_glm ? name() + "\n" : "\n<function=" + name() + ">\n";
    const ordered_json chosen = arguments();
    for (const auto& [key, value] : chosen.items()) {
      const std::string written = value.is_string()                 ? value.get<std::string>()
                                  : value.is_boolean() && one_in(2) ? (value ? "True" : "False")
                                                                    : json(value);
      text += is_glm ? "<arg_key>" + key + "</arg_key>\n<arg_value>" + written + "</arg_value>\n"
                     : "<parameter=" + key + ">\n" + written + "\n</parameter>\n";
    }
    return text + (is_glm ? "" : "</function>\n");
  }

  const FormatRow& row_;
  const Tags& tags_;
  std::mt19937_64& random_;
  std::vector<Piece> reply_;
};

// A parser's result in the naive reader's form: a call that was cut off is given by its text.
std::string told_by_parser(const std::vector<ReplyDelta>& deltas) {
  ToldReply reply;
  std::string name, arguments;
  for (const ReplyDelta& delta : deltas) {
    if (delta.kind == DeltaKind::kText) reply.add('T', delta.text);
    if (delta.kind == DeltaKind::kReasoning) reply.add('R', delta.text);
    if (delta.kind == DeltaKind::kCallBegin) name = delta.call_name;
    if (delta.kind == DeltaKind::kCallBegin) arguments.clear();
    if (delta.kind == DeltaKind::kCallArguments) arguments += delta.text;
    if (delta.kind == DeltaKind::kCallEnd && delta.is_whole) reply.add_call(name, nlohmann::json::parse(arguments));
  }
  return reply.line();
}

struct Story {
  std::string parser, naive, text;
};

// One random reply, read by both. `spoil` makes a parser that reads wrongly.
template <typename Spoil>
Story story(FormatKind kind, const Tags& tags, std::mt19937_64& random, Spoil spoil) {
  static const ToolSet kTools = tools_of_kinds();
  Author author(kind, tags, random);
  std::vector<Piece> reply = author.reply();
  Story result;
  for (const Piece& piece : reply) result.text += piece.is_marker ? "«" + piece.text + "»" : piece.text;
  ReplyOptions options = with_calls();
  options.thinking_open = author.one_in(5);
  result.naive = NaiveReader(kind, tags.are_tokens, kinds(), reply).read(options.thinking_open);
  const ReplyFormat format = bind_format(kind, kThink, tags.markers);
  reply = joined(reply, [&] { return !author.one_in(4); });
  spoil(options, reply);
  const auto deltas = deltas_of(format, reply, kTools, options);
  EXPECT_EQ(broken_rule(deltas), "") << result.text;
  result.parser = told_by_parser(deltas);
  return result;
}

const Tags& tags(bool are_tokens) {
  static const Tags kTokens(true), kText(false);
  return are_tokens ? kTokens : kText;
}

std::size_t rounds() {
  const char* given = std::getenv("KVKEEP_REPLIES");
  return given != nullptr ? std::strtoul(given, nullptr, 10) : 200;
}

TEST(NaiveReplies, ASeparatorInLettersBeginsNoArguments) {
  const ReplyFormat format = bind_format(FormatKind::kMistral, kThink, tags(true).markers);
  const std::vector<Piece> reply = {{"[TOOL_CALLS]", true}, {"f[ARGS]{\"s\": \"x\"}"}};
  EXPECT_EQ(in_one_line(deltas_of(format, reply, tools_of_kinds(), with_calls())),
            "T([TOOL_CALLS]f[ARGS]{\"s\": \"x\"})");
}

TEST(NaiveReplies, BothReadTheSame) {
  std::mt19937_64 random(test_seed());
  for (const FormatKind kind : kKinds) {
    for (std::size_t round = 0; round < 2 * rounds(); ++round) {
      const Story one = story(kind, tags(round % 2 == 0), random, [](ReplyOptions&, std::vector<Piece>&) {});
      ASSERT_EQ(one.parser, one.naive) << row_of(kind).name << " round " << round << "\n" << one.text;
    }
  }
}

// Parsers that read wrongly are found out, in every format.
TEST(NaiveReplies, WrongParsersAreFoundOut) {
  using Spoil = void (*)(ReplyOptions&, std::vector<Piece>&);
  struct Mutant {
    const char* name;
    Spoil spoil;
  };
  static constexpr std::array kMutants = {
      Mutant{"calls after the first are lost",
             [](ReplyOptions& options, std::vector<Piece>&) { options.parallel = false; }},
      Mutant{"calls are text", [](ReplyOptions& options, std::vector<Piece>&) { options.calls = false; }},
      Mutant{"thoughts are text",
             [](ReplyOptions& options, std::vector<Piece>&) { options.reasoning = ReasoningFormat::kNone; }},
      Mutant{"text is a thought", [](ReplyOptions& options, std::vector<Piece>&) { options.thinking_open = true; }},
      Mutant{"tags are text",
             [](ReplyOptions&, std::vector<Piece>& reply) {
               for (Piece& piece : reply) piece.is_marker = false;
             }},
      Mutant{"a digit changes",
             [](ReplyOptions&, std::vector<Piece>& reply) {
               for (Piece& piece : reply) std::ranges::replace(piece.text, '1', '7');
             }},
      Mutant{"the last piece is lost",
             [](ReplyOptions&, std::vector<Piece>& reply) {
               if (!reply.empty()) reply.pop_back();
             }},
      Mutant{"white space in strings is lost", [](ReplyOptions&, std::vector<Piece>& reply) {
               for (Piece& piece : reply) std::erase(piece.text, ' ');
             }}};
  std::mt19937_64 random(test_seed());
  for (const Mutant& mutant : kMutants) {
    for (const FormatKind kind : kKinds) {
      std::size_t found = 0;
      for (int round = 0; round < 1000 && found == 0; ++round) {
        const Story one = story(kind, tags(true), random, mutant.spoil);
        if (one.parser != one.naive) ++found;
      }
      EXPECT_GT(found, 0U) << mutant.name << ", " << row_of(kind).name;
    }
  }
}

}  // namespace
}  // namespace kvkeep::chat::tools
