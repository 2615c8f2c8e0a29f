#include "chat/jinja/template.h"

#include <gtest/gtest.h>

#include <stdexcept>

#include "chat/jinja/template_fixture.h"

namespace kvkeep::chat::jinja {
namespace {

using nlohmann::ordered_json;

struct Case {
  const char* source;
  const char* text;
};

// Constructs of templates in use, and mistakes that other engines were seen to make. tests/jinja compares more with
// Python's jinja2.
TEST(Template, EvaluatesAsPythonDoes) {
  const ordered_json context = {
      {"s", "Hello"}, {"words", {"b", "a", "C"}}, {"d", {{"one", 1}, {"items", "shadowed"}}}, {"nothing", nullptr}};
  for (const auto& [source, text] : std::vector<Case>{
           {"{{ 7 / 2 }} {{ 7 // 2 }} {{ -7 // 2 }} {{ -7 % 3 }} {{ 2 ** 10 }} {{ 2 ** -1 }}", "3.5 3 -4 2 1024 0.5"},
           {"{{ '\\u00e9' }}{{ \"\\x41\\n\" }}|", "éA\n|"},
           {"{{ nothing is defined }} {{ missing is defined }} {{ nothing is none }}", "True False True"},
           {"{{ 0.1 + 0.2 }} {{ 1e16 }} {{ 1e-5 }} {{ 100.0 }} {{ 1 / 3 }}",
            "0.30000000000000004 1e+16 1e-05 100.0 0.3333333333333333"},
           {"{{ [1, 'a', none, true, {'k': \"it's\"}, ('x',)] }}", "[1, 'a', None, True, {'k': \"it's\"}, ('x',)]"},
           {"{{ words | sort }} {{ words | reverse | list }} {{ words | first }} {{ words | join('-') }}",
            "['a', 'b', 'C'] ['C', 'a', 'b'] b b-a-C"},
           {"{{ s[1:3] }} {{ s[::-1] }} {{ s[-1] }} {{ s[9] }}|", "el olleH o |"},
           {"{{ '%s is %05.1f' % (s, 2.25) }} {{ '{:>6}|{!r}'.format(s, s) }}", "Hello is 002.2  Hello|'Hello'"},
           {"{{ 1 < 2 < 3 }} {{ 1 < 3 < 2 }} {{ 'a' in s }} {{ 'z' not in s }}", "True False False True"},
           {"{{ d['items'] }} {{ d.items() | list }}", "shadowed [('one', 1), ('items', 'shadowed')]"},
           {"{{ s.split('l') }} {{ ' a  b '.split() }} {{ 'a,b,c'.split(',', 1) }} {{ 'a,b,c'.rsplit(',', 1) }}",
            "['He', '', 'o'] ['a', 'b'] ['a', 'b,c'] ['a,b', 'c']"},
           {"{% set ns = namespace(n=0) %}{% for w in words %}{% set ns.n = ns.n + loop.index %}{% endfor %}{{ ns.n }}",
            "6"},
           {"{% for w in words if w != 'a' %}{{ loop.index }}{{ w }}{% if not loop.last %},{% endif %}{% else %}none{% "
            "endfor %}",
            "1b,2C"},
           {"{% for w in words %}{% if w == 'a' %}{% continue %}{% endif %}{{ w }}{% if w == 'C' %}{% break %}{% endif "
            "%}{% endfor %}",
            "bC"},
           {"{% macro f(a, b='x') %}<{{ a }}{{ b }}{{ varargs }}>{% endmacro %}{{ f(1) }}{{ f(1, b=2) }}{{ f(1, 2, 3) "
            "}}",
            "<1x()><12()><12(3,)>"},
           {"{% macro m() %}[{{ caller('q') }}]{% endmacro %}{% call(x) m() %}{{ x }}{% endcall %}", "[q]"},
           {"{% set x %}a{{ s }}{% endset %}{{ x | length }}{% filter upper %}{{ x }}{% endfilter %}", "6AHELLO"},
           {"{% with a = 1, b = 2 %}{{ a + b }}{% endwith %}{{ a }}|", "3|"},
           {"{% raw %}{{ x }}{% endraw %}{# gone #}{% generation %}g{% endgeneration %}", "{{ x }}g"},
           {"{% set x = 1 %}{% for w in words %}{% set x = 2 %}{% endfor %}{{ x }}", "1"},
           {"{{ {'b': 1, 'a': [1, 2], 'c': {}} | tojson }}", "{\"b\": 1, \"a\": [1, 2], \"c\": {}}"},
           {"{{ {'a': [1], 'b': '<é>\\n\"'} | tojson(indent=2) }}",
            "{\n  \"a\": [\n    1\n  ],\n  \"b\": \"<é>\\n\\\"\"\n}"},
           {"{{ words | map('upper') | list }} {{ words | select('in', ['a']) | list }} {{ words | map('length') | sum "
            "}}",
            "['B', 'A', 'C'] ['a'] 3"},
           {"{{ missing | default('x') }} {{ '' | default('y', true) }} {{ missing }}|", "x y |"},
           {"{{ 'ab' ~ 1 ~ none }} {{ 'x' * 3 }} {{ [0] * 2 }}", "ab1None xxx [0, 0]"},
           {"{{ 'a' if false else 'b' }}{{ 'gone' if false }}", "b"},
           {"{{ 5 is odd }} {{ 6 is divisibleby 3 }} {{ s is string }} {{ d is mapping }} {{ 1 is eq(1) }}",
            "True True True True True"},
           {"{{ range(3) | list }} {{ range(5, 0, -2) | list }} {{ range(2) }}", "[0, 1, 2] [5, 3, 1] range(0, 2)"},
           {"{{ dict(a=1, **{'b': 2}) }} {{ d.get('zz', 3) }} {{ d.get('one') }}", "{'a': 1, 'b': 2} 3 1"},
           {"{{ 2.5 | round }} {{ 3.14159 | round(2) }} {{ '12' | int + 1 }} {{ '1.5' | float }}", "2.0 3.14 13 1.5"},
           {"{{ 'a b/c' | urlencode }} {{ {'a b': 'c d/e'} | urlencode }} {{ ['xy'] | reverse | urlencode }}",
            "a%20b/c a+b=c+d%2Fe x=y"},
           {"{{ [none, none] | sort }} {{ [d, d] | sort | length }}", "[None, None] 2"},
           {"{% set a, b = 1, 2 %}{{ b }}{{ a }}{% for k, v in {'x': 1}.items() %}{{ k }}{{ v }}{% endfor %}", "21x1"},
       }) {
    EXPECT_EQ(printed(source, context), text) << source;
  }
}

TEST(Template, WhiteSpaceAroundTags) {
  for (const auto& [source, text] : std::vector<Case>{
           {"  {% if true %}\n  a\n  {% endif %}\nb\n", "  a\nb"},
           {"a  {%- if true -%}  b  {%- endif %}  c", "ab  c"},
           {"a\n  {{ 1 }}\n b", "a\n  1\n b"},
           {"x\n  {%+ if true %}\ny{% endif +%}\nz", "x\n  y\nz"},
           {"a\n  {# note #}\nb", "a\nb"},
           {"{{- ' a ' -}}  \n  b", " a b"},
           {"a\r\nb\rc\n", "a\nb\nc"},
       }) {
    EXPECT_EQ(printed(source), text) << source;
  }
}

TEST(Template, MacrosSeeWhatTheirPlaceSees) {
  EXPECT_EQ(printed("{% macro f() %}{{ x }}{% endmacro %}{% set x = 1 %}{{ f() }}"), "1");
  EXPECT_EQ(printed("{% for i in [1, 2] %}{% macro f() %}{{ i }}{% endmacro %}{{ f() }}{% endfor %}"), "12");
  EXPECT_EQ(printed("{% macro walk(n) %}{{ n }}{% if n %}{{ walk(n - 1) }}{% endif %}{% endmacro %}{{ walk(3) }}"),
            "3210");
  EXPECT_EQ(printed("{% for n in [[1, [2]], 3] recursive %}{{ loop(n) if n is iterable else n }}{% endfor %}"), "123");
}

TEST(Template, AFilterOfALoopSeesWhatTheBodyDid) {
  EXPECT_EQ(printed("{% set ns = namespace(stop=false) %}{% for i in [1, 2, 3] if not ns.stop %}{{ i }}"
                    "{% if i == 2 %}{% set ns.stop = true %}{% endif %}{% endfor %}"),
            "12");
}

TEST(Template, ErrorsSayWhatAndWhere) {
  for (const auto& [source, message] : std::vector<Case>{
           {"{{ raise_exception('roles must alternate') }}", "chat template: roles must alternate"},
           {"a\n{{ missing.name }}", "chat template: 'missing' is undefined (line 2)"},
           {"{{ none.x.y }}", "chat template: 'NoneType object' has no attribute 'x' (line 1)"},
           {"{{ 1 + 'a' }}", "chat template: unsupported operand type(s) for +: 'int' and 'str' (line 1)"},
           {"{{ 'a' + 1 }}", "chat template: can only concatenate str (not \"int\") to str (line 1)"},
           {"{{ 9223372036854775807 + 1 }}", "chat template: integer overflow: integers have 64 bits here (line 1)"},
           {"{{ [].append(1) }}",
            "chat template: lists and dicts cannot be changed by a template (this is a list) (line 1)"},
           {"{% for a, b in [[1]] %}{% endfor %}",
            "chat template: not enough values to unpack (expected 2, got 1) (line 1)"},
       }) {
    const auto result = render_text(source);
    ASSERT_FALSE(result.ok()) << source;
    EXPECT_EQ(result.error().message, message);
    EXPECT_EQ(result.error().kind, ErrorKind::kInvalid);
  }
  const auto unknown = render_text("{{ 'a' | no_such_filter }}");
  ASSERT_FALSE(unknown.ok());
  EXPECT_EQ(unknown.error().kind, ErrorKind::kUnsupported);
  EXPECT_EQ(printed("{{ 'a' | no_such_filter if false }}"), "");
}

TEST(Template, ASourceThatDoesNotParseIsUnsupported) {
  for (const char* source : {"{% if x %}",
                             "{{ ",
                             "{{ x",
                             "{% include 'x' %}",
                             "{% import 'x' as y %}",
                             "{% extends 'x' %}",
                             "{% block a %}{% endblock %}",
                             "{{ x | }}",
                             "{% unknown %}",
                             "{{ (1, }}",
                             "{{ 1 + }}",
                             "{# open",
                             "{% raw %}",
                             "{{ 'open }}",
                             "{% set 1 = 2 %}",
                             "{% endif %}",
                             "{% break %}",
                             "{{ 99999999999999999999 }}",
                             "{{ '\\ud800' }}",
                             "{% for %}",
                             "{{ f(a=1, 2) }}"}) {
    const auto result = Template::parse(source);
    ASSERT_FALSE(result.ok()) << source;
    EXPECT_EQ(result.error().kind, ErrorKind::kUnsupported) << source;
    EXPECT_EQ(result.error().message.find('\n'), std::string::npos);
  }
}

TEST(Template, TimeComesFromTheCaller) {
  const auto parsed = Template::parse("{{ strftime_now('%d %b %Y %H:%M %-d %%') }}");
  ASSERT_TRUE(parsed.ok());
  const auto result = parsed->render({.variables = {}, .local_time_s = 1718100000, .limits = {}});
  ASSERT_TRUE(result.ok());
  EXPECT_EQ(result->text, "11 Jun 2024 10:00 11 %");
}

TEST(Template, MentionsNamesItReads) {
  const auto parsed = Template::parse("{% if enable_thinking is defined %}{{ m.thinking }}{% endif %}");
  ASSERT_TRUE(parsed.ok());
  EXPECT_TRUE(parsed->mentions("enable_thinking"));
  EXPECT_FALSE(parsed->mentions("thinking"));
}

}  // namespace
}  // namespace kvkeep::chat::jinja
