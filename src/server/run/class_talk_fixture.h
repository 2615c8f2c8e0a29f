#pragma once

// Conversations as templates render them, with the places of their turns, and the classes of models that tests run
// through.

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "server/run/scheduler_test_fixture.h"

namespace kvkeep::server {

using engine::MemoryClass;
using Tokens = std::vector<TokenId>;

inline constexpr TokenId kUser = 1;       // opens a user turn
inline constexpr TokenId kAssistant = 2;  // opens an assistant turn
inline constexpr std::size_t kTalkTokens = 24;

// A world with room for several conversations, whose sampled tokens are never those that open turns.
inline WorldOptions class_world(MemoryClass memory_class) {
  WorldOptions options;
  options.fake.memory_class = memory_class;
  options.fake.cells = 8192;
  options.fake.sequences = 6;
  options.fake.first_sampled_token = 10;
  options.fake.window_tokens = 64;
  options.fake.window_slack = 16;
  return options;
}

// A conversation as a template would render it: markers where turns begin.
struct ClassTalk {
  Tokens tokens;
  policy::PromptMarkers markers;

  void user(const Tokens& text) {
    open(kUser, markers.user_turns);
    tokens = tokens + text;
  }
  void assistant(const Tokens& text) {
    open(kAssistant, markers.assistant_turns);
    tokens = tokens + text;
  }
  void open(TokenId marker, std::vector<Position>& turns) {
    if (!tokens.empty()) markers.message_ends.push_back(Position{} + tokens.size());
    turns.push_back(Position{} + tokens.size());
    tokens.push_back(marker);
  }
  // The prompt, with the opening for the next answer.
  Job job() const {
    ClassTalk asked = *this;
    asked.markers.generation_prompt = Position{} + asked.tokens.size();
    asked.tokens.push_back(kAssistant);
    Job job;
    job.id = "test";
    job.kind = "chat";
    job.prompt = asked.tokens;
    job.markers = asked.markers;
    job.sampling = World::greedy();
    job.max_tokens = kTalkTokens;
    return job;
  }
};

// Returns the reply, and checks that an undisturbed engine writes the same.
inline Reply ask(World& world, const ClassTalk& conversation) {
  Job job = conversation.job();
  const Tokens expected = world.expected(job.prompt, kTalkTokens);
  auto sink = std::make_shared<CollectingSink>();
  auto future = sink->future();
  EXPECT_TRUE(world.scheduler.submit(std::move(job), sink).ok());
  const Reply reply = future.get();
  EXPECT_EQ(reply.finish, Finish::kLength);
  EXPECT_EQ(reply.tokens, expected);
  return reply;
}

// The last sampled token is never decoded.
inline std::size_t decoded(const Reply& reply) { return reply.stats.prompt_tokens + reply.tokens.size() - 1; }

inline std::string class_name(const testing::TestParamInfo<MemoryClass>& each) {
  return std::string(to_string(each.param));
}

}  // namespace kvkeep::server
