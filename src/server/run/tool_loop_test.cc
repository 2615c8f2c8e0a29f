// Long tool loops of templates that drop thinking, on models that can go on only from points or windows, when there is
// not room for all of them: the next user message finds the one after the last user message.

#include <gtest/gtest.h>
#include <spdlog/spdlog.h>

#include "server/run/history_world_fixture.h"

namespace kvkeep::server {
namespace {

using engine::MemoryClass;

constexpr TokenId kUserMarker = 1;
constexpr TokenId kAssistantMarker = 2;
constexpr TokenId kToolMarker = 3;
constexpr TokenId kFirstTextToken = 10;
constexpr std::size_t kLoopTokens = 24;
constexpr std::size_t kThinking = 16;  // in each reply

// A conversation of an agent, rendered with all thinking since the last user message.
struct AgentTalk {
  Tokens tokens;
  policy::PromptMarkers markers;
  std::size_t kept = 0;  // up to the end of the last user message: the next one leaves it unchanged
  std::vector<Tokens> loop;

  void user(const Tokens& text) {
    if (!loop.empty()) drop_thinking();
    markers.user_turns.push_back(Position{} + tokens.size());
    append(Tokens{kUserMarker} + text);
    kept = tokens.size();
  }
  void assistant(const Tokens& reply) { in_loop(Tokens{kAssistantMarker} + reply); }
  void tool(const Tokens& text) { in_loop(Tokens{kToolMarker} + text); }
  Ask ask() const {
    AgentTalk asked = *this;
    asked.markers.message_ends.push_back(Position{} + tokens.size());
    asked.markers.generation_prompt = Position{} + tokens.size();
    return {asked.tokens + Tokens{kAssistantMarker}, asked.markers, kLoopTokens};
  }

 private:
  void drop_thinking() {
    tokens.resize(kept);
    const auto gone = [this](Position at) { return at.value() >= kept; };
    std::erase_if(markers.assistant_turns, gone);
    std::erase_if(markers.message_ends, gone);
    for (Tokens& message : std::exchange(loop, {})) {
      if (message.front() == kAssistantMarker) message.erase(message.begin() + 1, message.begin() + 1 + kThinking);
      append(message);
    }
  }
  void in_loop(const Tokens& message) {
    loop.push_back(message);
    append(message);
  }
  void append(const Tokens& message) {
    if (!tokens.empty()) markers.message_ends.push_back(Position{} + tokens.size());
    if (message.front() == kAssistantMarker) markers.assistant_turns.push_back(Position{} + tokens.size());
    tokens = tokens + message;
  }
};

class ToolLoops : public testing::TestWithParam<MemoryClass> {
 protected:
  void SetUp() override { spdlog::set_level(spdlog::level::warn); }
  void TearDown() override { spdlog::set_level(spdlog::level::info); }

  HistoryWorld::Options options() const {
    HistoryWorld::Options options;
    options.fake.memory_class = GetParam();
    options.fake.cells = 8192;
    options.fake.sequences = 4;
    options.fake.row_bytes = 8;
    options.fake.state_bytes = 4096;
    options.fake.window_tokens = 40;
    options.fake.first_sampled_token = kFirstTextToken;
    options.disk = false;
    return options;
  }
  Tokens text(std::size_t count) {
    Tokens tokens(count);
    for (TokenId& token : tokens) token = kFirstTextToken + static_cast<TokenId>(random_() % 900);
    return tokens;
  }
  static Reply answer(HistoryWorld& world, const AgentTalk& talk) {
    const Ask asked = talk.ask();
    const std::vector<Reply> replies = world.ask({asked});
    EXPECT_EQ(replies.size(), 1U);
    if (replies.empty()) return {};
    EXPECT_EQ(replies.front().tokens, world.expected(asked));
    return replies.front();
  }
  // Tasks with many calls each: returns how many tokens less their first prompts find than they could.
  std::size_t missed_after_loops(const HistoryWorld::Options& options, int tasks = 3, int calls = 8) {
    HistoryWorld world(options);
    AgentTalk talk;
    talk.tokens = text(100);
    std::size_t missed = 0;
    for (int task = 0; task < tasks; ++task) {
      std::size_t known = talk.kept;
      talk.user(text(30));
      for (int call = 0; call < calls; ++call) {
        if (call > 0) talk.tool(text(50));
        const Reply reply = answer(world, talk);
        const std::size_t cached = reply.stats.cached_tokens;
        if (call == 0) {
          missed += known - std::min(known, cached);
        } else {
          EXPECT_EQ(cached, known) << "within the loop nothing changes";
        }
        talk.assistant(reply.tokens);
        known = talk.tokens.size() - 1;  // the last sampled token is never decoded
      }
    }
    return missed;
  }
  std::mt19937 random_{seed()};
};

TEST_P(ToolLoops, TheNextUserMessageFindsWhatItLeavesWhereMemoryIsShort) {
  // Windows are no larger than the rows, which stay: use a longer loop, in memory for little more than its rows.
  const bool windowed = GetParam() == MemoryClass::kWindowed;
  const int tasks = windowed ? 2 : 3;
  const int calls = windowed ? 20 : 8;
  HistoryWorld::Options small = options();
  small.ram = ByteCount{std::uint64_t{windowed ? 18U : 56U} << 10};
  EXPECT_EQ(missed_after_loops(small, tasks, calls), 0U);
  small.scheduler.cuts.loops_change = false;
  EXPECT_GT(missed_after_loops(small, tasks, calls), 0U) << "there would be room for all of them";
}

// Windows side by side are not counted as points.
using ToolLoopsOfPoints = ToolLoops;

TEST_P(ToolLoopsOfPoints, TheNextUserMessageFindsWhatItLeavesWherePointsAreFew) {
  HistoryWorld::Options few = options();
  few.scheduler.cuts.most_points = 4;
  EXPECT_EQ(missed_after_loops(few), 0U);
  few.scheduler.cuts.loops_change = false;
  EXPECT_GT(missed_after_loops(few), 0U) << "the limit would not be reached";
}

std::string name(const testing::TestParamInfo<MemoryClass>& each) { return std::string(to_string(each.param)); }

INSTANTIATE_TEST_SUITE_P(All, ToolLoops,
                         testing::Values(MemoryClass::kWindowed, MemoryClass::kHybrid, MemoryClass::kRecurrent), name);
INSTANTIATE_TEST_SUITE_P(All, ToolLoopsOfPoints, testing::Values(MemoryClass::kHybrid, MemoryClass::kRecurrent), name);

}  // namespace
}  // namespace kvkeep::server
