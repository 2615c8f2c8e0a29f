#include <gtest/gtest.h>
#include <malloc.h>

#include <random>

#include "base/test_seed.h"
#include "chat/jinja/template_fixture.h"

namespace kvkeep::chat::jinja {
namespace {

using nlohmann::ordered_json;

constexpr Limits kSmall = {
    .steps = {200'000, 8}, .memory_bytes = {8 << 20, 16}, .output_bytes = {1 << 20, 4}, .depth = 1000};

std::string repeated(std::string_view part, std::size_t times) {
  std::string text;
  for (std::size_t i = 0; i < times; ++i) text += part;
  return text;
}

// Each would run for ever, fill memory, or overflow the stack.
TEST(Limits, HostileTemplatesFailWithAnErrorThatNamesTheLimit) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}", "steps"},
      {"{% set ns = namespace(s='x') %}{% for a in range(99) %}{% set ns.s = ns.s + ns.s %}{% endfor %}", "memory"},
      {"{% set ns = namespace(s=[1]) %}{% for a in range(99) %}{% set ns.s = ns.s + ns.s %}{% endfor %}", "steps"},
      {"{{ 'x' * 99999999999 }}", "4 GiB"},
      {"{{ 'x' * 999999999 }}", "steps"},
      {"{{ ('x' * 999999)[::-1] * 999 }}", "steps"},
      {"{{ [1] * 9999999 }}", "steps"},
      {"{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}", "deep"},
      {"{% macro f(x) %}{{ f(x ~ x) }}{% endmacro %}{{ f('abcdef') }}", "m"},
      {"{% set ns = namespace(l=[]) %}{% for a in range(9999) %}{% set ns.l = [ns.l] %}{% endfor %}{{ ns.l }}", "deep"},
      {"{% set ns = namespace(l=[]) %}{% for a in range(9999) %}{% set ns.l = [ns.l] %}{% endfor %}{{ ns.l == ns.l "
       "}}{{ ns.l | tojson }}",
       "deep"},
      {"{% set ns = namespace(l=()) %}{% for a in range(9999) %}{% set ns.l = (ns.l,) %}{% endfor %}{{ {ns.l: 1} }}",
       "deep"},
      {"{% set ns = namespace() %}{% set ns.me = ns %}{{ [ns] }}", "deep"},
      {"{{ '%999999999d' % 1 }}", "million"},
      {"{{ '{:999999999}'.format(1) }}", "million"},
      {"{{ '%.999999f' % 1 }}", "digits"},
      {"{{ 'a' | indent(999999999) }}", "million"},
      {"{{ 'a'.center(999999999) }}", "steps"},
      {"{{ range(999999999) | list }}", "Range too big"},
      {"{% for a in range(99999) %}{{ 'xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx' "
       "}}{% endfor %}",
       "prints more"},
      {"{% for x in [1] recursive %}{{ loop([1]) }}{% endfor %}", "deep"},
      {"{% set ns = namespace(l=[]) %}{% for a in range(4000) %}{% set ns.l = [ns.l] %}{% endfor %}{{ ns.l | "
       "map('map', " +
           repeated("'map', ", 3000) + "'list') | list }}",
       "deep"},
      {"{{ " + repeated("(", 5000) + "1" + repeated(")", 5000) + " }}", "nested"},
      {"{{ " + repeated("[", 5000) + repeated("]", 5000) + " }}", "nested"},
      {"{{ " + repeated("not ", 5000) + "1 }}", "nested"},
      {"{{ " + repeated("-", 5000) + "1 }}", "nested"},
      {"{{ 1" + repeated(" + 1", 5000) + " }}", "nested"},
      {"{{ a" + repeated(".a", 5000) + " }}", "nested"},
      {"{{ a" + repeated("|upper", 5000) + " }}", "nested"},
      {"{{ 1" + repeated(" if 1 else 1", 5000) + " }}", "nested"},
      {repeated("{% if 1 %}", 5000), "nested"},
      {repeated("{% for a in b %}", 5000), "nested"},
      {"{% set " + repeated("(", 5000) + "a" + repeated(")", 5000) + " = 1 %}", "nested"},
  };
  for (const auto& [source, words] : cases) {
    const auto result = render_text(source, {}, all_from_messages(), kSmall);
    ASSERT_FALSE(result.ok()) << source.substr(0, 100);
    EXPECT_EQ(result.error().kind, ErrorKind::kUnsupported) << result.error().message;
    EXPECT_NE(result.error().message.find(words), std::string::npos)
        << source.substr(0, 100) << ": " << result.error().message;
  }
}

TEST(Limits, TheSourceAndTheInputAreLimited) {
  EXPECT_FALSE(Template::parse(std::string(Template::kMaxSourceBytes + 1, 'x')).ok());
  ordered_json deep = 1;
  for (int i = 0; i < 1000; ++i) deep = ordered_json::array({deep});
  EXPECT_FALSE(render_text("{{ x }}", {{"x", deep}}).ok());
  // Variables that the template does not name are not read.
  EXPECT_EQ(printed("{{ y }}|", {{"x", deep}}), "|");
}

// Recursive macros print tool schemas; those go deeper than anyone's schema.
TEST(Limits, LeaveRoomForWhatTemplatesDo) {
  ordered_json schema = {{"type", "string"}};
  for (int i = 0; i < 40; ++i) schema = {{"type", "object"}, {"properties", {{"p", schema}}}};
  const std::string text = printed(
      "{% macro show(s) %}{{ s.type }}{% if s.properties %}{ {% for k, v in s.properties | dictsort %}{{ k ~ ':' }}"
      "{{ show(v) }}{% if not loop.last %},{% endif %}{% endfor %}}{% endif %}{% endmacro %}{{ show(x) }}",
      {{"x", schema}});
  EXPECT_TRUE(text.starts_with("object{ p:object{ p:")) << text.substr(0, 200);
}

TEST(Limits, AccumulatingIsNotQuadratic) {
  const ordered_json context = {{"part", std::string(1000, 'x')}};
  const auto result = render_text(
      "{% set ns = namespace(t='', l=[]) %}{% for i in range(2000) %}{% set ns.t = ns.t + part %}{% set ns.l = ns.l + "
      "[i] %}"
      "{% endfor %}{{ ns.t | length }} {{ ns.l | length }}",
      context, all_from_messages(),
      {.steps = {300'000, 0}, .memory_bytes = {16 << 20, 0}, .output_bytes = {100, 0}, .depth = 100});
  ASSERT_TRUE(result.ok()) << result.error().message;
  EXPECT_EQ(result->text, "2000000 2000");
}

std::size_t heap_bytes() {
  const struct mallinfo2 info = mallinfo2();
  return info.uordblks + info.hblkhd;
}

// Where the allocator is another one (sanitizers), nothing is counted here, and the leak checker looks instead.
TEST(Limits, TenThousandRendersKeepNothing) {
  const auto parsed = Template::parse(
      "{% macro show(m) %}{{ m.content }}{{ caller() }}{% endmacro %}{% set ns = namespace() %}{% set ns.me = ns %}"
      "{% for m in messages %}{% macro inner() %}{{ m.content }}{{ loop.index }}{% endmacro %}{{ inner() }}"
      "{% call show(m) %}x{% endcall %}{% endfor %}{{ raise_exception('no') if fails }}");
  ASSERT_TRUE(parsed.ok());
  const ordered_json messages = {{{"content", std::string(300, 'x')}}, {{"content", "y"}}};
  const auto round = [&](bool fails) {
    const ordered_json failing = fails;
    const std::vector<Variable> variables = {{.name = "messages", .value = &messages},
                                             {.name = "fails", .value = &failing}};
    EXPECT_EQ(parsed->render({.variables = variables, .local_time_s = 0, .limits = {}}).ok(), !fails);
  };
  for (int i = 0; i < 10; ++i) round(i % 2 == 0);
  const std::size_t before = heap_bytes();
  for (int i = 0; i < 10'000; ++i) round(i % 8 == 0);
  EXPECT_LT(heap_bytes(), before + 100'000);
}

// Bytes, and pieces of templates in any order.
TEST(Limits, RandomSourcesNeverCrash) {
  std::mt19937_64 random(test_seed());
  const std::vector<std::string> pieces = {
      "{{",     "}}",     "{%",       "%}",        "{#",       "#}",       "-",        "+",          " if ",
      " for ",  " in ",   " else ",   " endif ",   " endfor ", " set ",    " macro ",  " endmacro ", " x ",
      " x.y ",  "(",      ")",        "[",         "]",        "{",        "}",        ",",          ":",
      "|",      "'",      "\"",       "\\",        "1",        "1.5",      "0x",       "~",          "**",
      "//",     "==",     "<",        " is ",      " not ",    " and ",    "upper",    "tojson",     "join",
      "\n",     "é",      "\xFF",     "\xE2\x82",  " raw ",    " endraw ", "range(3)", ".split",     "%s",
      " loop ", " call ", " filter ", "namespace", "=",        "*",        " with ",   " recursive "};
  for (int round = 0; round < 20'000; ++round) {
    std::string source;
    const std::size_t count = random() % 24;
    for (std::size_t i = 0; i < count; ++i) {
      if (random() % 12 == 0) {
        source.push_back(static_cast<char>(random()));
      } else {
        source += pieces[random() % pieces.size()];
      }
    }
    const auto result = render_text(source, {{"x", {{"y", "z"}}}}, all_from_messages(), kSmall);
    const std::string message = result ? std::string() : result.error().message;
    EXPECT_EQ(message.find('\n'), std::string::npos);
  }
}

}  // namespace
}  // namespace kvkeep::chat::jinja
