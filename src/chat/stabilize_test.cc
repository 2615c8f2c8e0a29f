#include "chat/stabilize.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <vector>

#include "chat/chat_template.h"

namespace kvkeep::chat {
namespace {

using nlohmann::ordered_json;

const std::string kLine = "x-anthropic-billing-header: cc_version=2.1.329.bbc; cc_entrypoint=sdk-cli;";

ordered_json stabilized(ordered_json messages, const Stabilizers& rules = {}) {
  stabilize(rules, messages);
  return messages;
}
ordered_json system(ordered_json content) { return {{"role", "system"}, {"content", std::move(content)}}; }
ordered_json part(const std::string& text) { return {{"type", "text"}, {"text", text}}; }
const ordered_json kUser = {{"role", "user"}, {"content", "hi"}};

TEST(Stabilize, DropsALeadingBillingBlock) {
  const ordered_json rest = ordered_json::array({part("You are"), part("an agent")});
  ordered_json with = rest;
  with.insert(with.begin(), part(kLine));
  EXPECT_EQ(stabilized({system(with), kUser}), ordered_json::array({system(rest), kUser}));
  EXPECT_EQ(stabilized({system(ordered_json::array({part(kLine)})), kUser}), ordered_json::array({kUser}));
  EXPECT_EQ(stabilized({system(kLine), kUser}), ordered_json::array({kUser}));
}

TEST(Stabilize, DropsOnlyTheLineWhereAProxyJoinedTheBlocks) {
  EXPECT_EQ(stabilized({system(kLine + "\nYou are\nan agent"), kUser}),
            ordered_json::array({system("You are\nan agent"), kUser}));
  EXPECT_EQ(stabilized({system(ordered_json::array({part(kLine + "\nYou are")})), kUser}),
            ordered_json::array({system(ordered_json::array({part("You are")})), kUser}));
  ordered_json developer = {{"role", "developer"}, {"content", kLine + "\nYou are"}};
  EXPECT_EQ(stabilized(ordered_json::array({developer}))[0]["content"], "You are");
}

TEST(Stabilize, LeavesEverythingElse) {
  const std::vector<ordered_json> untouched = {
      ordered_json::array({{{"role", "user"}, {"content", kLine}}}),
      ordered_json::array({kUser, system(kLine)}),
      ordered_json::array({system(" " + kLine)}),
      ordered_json::array({system("You are\n" + kLine)}),
      ordered_json::array({system(ordered_json::array({part("You are"), part(kLine)}))}),
      ordered_json::array({system("x-anthropic-billing")}),
      ordered_json::array({system(nullptr)}),
      ordered_json::array({system(ordered_json::array())}),
      ordered_json::array({system(ordered_json::array({5}))}),
      ordered_json::array({{{"role", "system"}}}),
      ordered_json::array({5}),
      ordered_json::array(),
      nullptr,
  };
  for (const ordered_json& messages : untouched) EXPECT_EQ(stabilized(messages), messages) << messages;
}

TEST(Stabilize, SystemMessagesAfterTheFirstUserMessageMoveBeforeIt) {
  const Stabilizers rules{.late_system = true};
  const ordered_json first = system("You are");
  const ordered_json late = {{"role", "system"}, {"content", ordered_json::array({part("# Environment")})}};
  const ordered_json developer = {{"role", "developer"}, {"content", "day"}};
  const ordered_json answer = {{"role", "assistant"}, {"content", "so"}};
  const auto array = [](std::initializer_list<ordered_json> all) { return ordered_json(ordered_json::array_t(all)); };
  EXPECT_EQ(stabilized(array({first, kUser, late, developer, answer, kUser, late}), rules),
            array({first, late, developer, kUser, answer, kUser, late}))
      << "what comes later in the conversation stays";
  EXPECT_EQ(stabilized(array({kUser, late}), rules), array({late, kUser}));
  for (const ordered_json& untouched :
       {array({first, kUser, kUser, late}), array({first, kUser, answer, late}), array({first, late}),
        array({first, kUser}), array({kUser}), array({5, kUser, 5}), ordered_json::array(), ordered_json()}) {
    EXPECT_EQ(stabilized(untouched, rules), untouched) << untouched;
  }
  EXPECT_EQ(stabilized(array({kUser, late})), array({kUser, late})) << "it must be asked for";
}

TEST(Stabilize, EveryRuleHasASwitch) {
  const ordered_json messages = ordered_json::array({system(kLine), kUser});
  EXPECT_EQ(stabilized(messages, {.billing_line = false}), messages);
  const Stabilizers none{.billing_line = false, .tools_first = false};
  EXPECT_EQ(*parse_stabilizers("none"), none);
  EXPECT_EQ(*parse_stabilizers("billing-line"), (Stabilizers{.billing_line = true, .tools_first = false}));
  EXPECT_EQ(*parse_stabilizers("tools-first"), (Stabilizers{.billing_line = false, .tools_first = true}));
  EXPECT_EQ(*parse_stabilizers("tools-first,billing-line,billing-line"), Stabilizers{});
  EXPECT_EQ(*parse_stabilizers("all"), Stabilizers{});
  EXPECT_EQ(*parse_stabilizers("all,late-system"), Stabilizers{.late_system = true});
  EXPECT_EQ(*parse_stabilizers("late-system"),
            (Stabilizers{.billing_line = false, .tools_first = false, .late_system = true}));
  EXPECT_EQ(describe(Stabilizers{}).find("late-system"), std::string::npos);
  EXPECT_NE(describe({.late_system = true}).find(", late-system ("), std::string::npos);
  for (const char* wrong : {"", "billing", "billing-line,", ",billing-line", "none,billing-line", "all,"}) {
    EXPECT_FALSE(parse_stabilizers(wrong).ok()) << wrong;
  }
  EXPECT_NE(describe(Stabilizers{}).find("billing-line"), std::string::npos);
  EXPECT_NE(describe(Stabilizers{}).find(", tools-first ("), std::string::npos);
  EXPECT_TRUE(describe({.billing_line = false, .tools_first = true}).starts_with("stabilisers: tools-first ("));
  EXPECT_EQ(describe(none), "stabilisers: none");
  for (const bool first : {true, false}) {
    RenderInput input;
    stabilize({.billing_line = true, .tools_first = first}, input);
    EXPECT_EQ(input.tools_first, first);
  }
}

}  // namespace
}  // namespace kvkeep::chat
