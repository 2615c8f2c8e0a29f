#include <gtest/gtest.h>

#include <cctype>

#include "chat/jinja/template_fixture.h"

namespace kvkeep::chat::jinja {
namespace {

using nlohmann::ordered_json;

// Messages are written in capitals here and templates have none, so that a byte's origin can be read off it.
::testing::AssertionResult origins_are_right(const Printed& printed) {
  std::size_t at = 0;
  for (const PrintedRun& run : printed.runs) {
    for (const char byte : printed.text.substr(at, run.size_bytes)) {
      if ((std::isupper(static_cast<unsigned char>(byte)) != 0) != (run.origin == Origin::kMessage)) {
        return ::testing::AssertionFailure() << "'" << byte << "' in '" << printed.text << "'";
      }
    }
    at += run.size_bytes;
  }
  if (at == printed.text.size()) return ::testing::AssertionSuccess();
  return ::testing::AssertionFailure() << "runs are shorter than the text";
}

TEST(Provenance, EveryWayATextTakesKeepsIt) {
  const ordered_json context = {{"m", "QWERTY"}, {"n", "ASDF"}, {"list", {"AB", "CD"}}, {"dict", {{"KEY", "VALUE"}}}};
  for (const char* source :
       {"{{ m }}",
        "a{{ m }}b",
        "{{ 'x' + m + 'y' + n }}",
        "{{ m ~ 'z' ~ n }}",
        "{{ m[1:3] }}{{ m[::-1] }}{{ m[0] }}",
        "{{ m.replace('W', 'w') }}",
        "{{ 'a-b'.replace('-', m) }}",
        "{{ (' ' ~ m ~ ' ') | trim }}|",
        "{{ ('a' ~ m ~ 'b').split('E') }}",
        "{{ list | join(', ') }}",
        "{{ 'x'.join(list) }}",
        "{{ m.split('R')[1] }}",
        "{{ {'a': m, 'b': [n]} | tojson }}",
        "{{ dict | tojson(indent=2) }}",
        "{{ dict }}",
        "{{ [m, 'x', 1.5] }}",
        "{{ ('%s=%8s' % (m, n))[3:] }}",
        "{{ '<%s|%-9s>' % (m, n) }}",
        "{{ '<{}|{:>9}>'.format(m, n) }}",
        "{% set x %}a{{ m }}{% endset %}{{ x }}{{ x[1:] }}",
        "{% macro f(p) %}<{{ p }}>{% endmacro %}{{ f(m) }}",
        "{% for c in m %}{{ c }}.{% endfor %}",
        "{% for k, v in dict.items() %}{{ k }}:{{ v }}{% endfor %}",
        "{{ m | indent(2, true) }}",
        "{{ m | truncate(4, true, '..', 0) }}",
        "{{ list | sort | reverse | list }}",
        "{{ m | center(20) }}{{ m.ljust(9) }}{{ n.zfill(9) }}",
        "{% filter trim %} {{ m }} {% endfilter %}",
        "{{ m | list | join }}",
        "{{ m.partition('E') }}",
        "{{ m | default('x') }}{{ '' | default(m, true) }}",
        "{{ list | map('first') | join('+') }}",
        "{% set ns = namespace(t='') %}{% for i in list %}{% set ns.t = ns.t + i + ',' %}{% endfor %}{{ ns.t }}",
        "{{ m | string }}{{ m | length }}{{ m | escape }}",
        "{{ list | batch(1) | list }}",
        "{{ 'a' if m in list else n }}"}) {
    const auto result = render_text(source, context);
    ASSERT_TRUE(result.ok()) << source << ": " << result.error().message;
    EXPECT_TRUE(origins_are_right(*result)) << source;
  }
}

TEST(Provenance, ChangedLettersKeepTheirOrigin) {
  const ordered_json context = {{"m", "é\n\"x\""}};
  const auto result = render_text("a{{ m | upper | tojson }}", context);
  ASSERT_TRUE(result.ok());
  EXPECT_EQ(result->text, R"(a"É\n\"X\"")");
  const std::vector<PrintedRun> expected = {{2, Origin::kTemplate}, {9, Origin::kMessage}, {1, Origin::kTemplate}};
  EXPECT_EQ(result->runs, expected);
}

TEST(Provenance, RulesSayWhichWordsAreTheTemplates) {
  const OriginRules rules = {[](std::string_view key) { return key == "role" ? Origin::kTemplate : Origin::kMessage; },
                             [](std::string_view key, std::string_view value) {
                               return key == "role" && value == "user" ? Origin::kTemplate : Origin::kMessage;
                             }};
  const ordered_json context = {{"m", {{"role", "user"}, {"name", "user"}}}};
  const auto result = render_text("{{ m.role }}{{ m.name }}{% for k in m %}{{ k }}{% endfor %}", context, rules);
  ASSERT_TRUE(result.ok());
  const std::vector<PrintedRun> expected = {
      {4, Origin::kTemplate}, {4, Origin::kMessage}, {4, Origin::kTemplate}, {4, Origin::kMessage}};
  EXPECT_EQ(result->runs, expected);
}

// Each member of each object of a list is a place, which its strings and keys carry through filters.
TEST(Provenance, MembersAreNumberedPlaces) {
  const ordered_json list = {{{"a", "x"}, {"b", {{"k", "y"}}}}, {{"a", "z"}}};
  const auto parsed = Template::parse("{% for o in l %}{{ o.a | upper }}{{ o.b | tojson if o.b }}{% endfor %}");
  ASSERT_TRUE(parsed.ok());
  const std::vector<Variable> variables = {
      {.name = "l", .value = &list, .rules = all_from_messages(), .first_place = 5}};
  const auto result = parsed->render({.variables = variables, .local_time_s = 0, .limits = {}});
  ASSERT_TRUE(result.ok());
  EXPECT_EQ(result->text, R"(X{"k": "y"}Z)");
  const std::vector<PrintedRun> expected = {{1, message_at(5)},     {2, Origin::kTemplate}, {1, message_at(6)},
                                            {4, Origin::kTemplate}, {1, message_at(6)},     {2, Origin::kTemplate},
                                            {1, message_at(7)}};
  EXPECT_EQ(result->runs, expected);
  EXPECT_EQ(place_of(message_at(6)), 6U);
  EXPECT_TRUE(is_message(message_at(6)));
  EXPECT_EQ(message_at(0), Origin::kMessage) << "a place that is unknown";
}

TEST(Provenance, EarlierTextsDoNotSeeWhatIsAppendedToTheirBuffer) {
  EXPECT_EQ(
      printed("{% set a = 'x' + m %}{% set b = a + '1' %}{% set c = a + '2' %}{{ a }} {{ b }} {{ c }} {{ a + a }}",
              {{"m", "M"}}),
      "xM xM1 xM2 xMxM");
  EXPECT_EQ(
      printed("{% set a = [1] + [2] %}{% set b = a + [3] %}{% set c = a + [4] %}{{ a }}{{ b }}{{ c }}{{ a + a }}"),
      "[1, 2][1, 2, 3][1, 2, 4][1, 2, 1, 2]");
}

}  // namespace
}  // namespace kvkeep::chat::jinja
