#include "server/routes/event_queue.h"

#include <gtest/gtest.h>

#include "chat/tools/reply_text_test.h"

namespace kvkeep::server {
namespace {

using chat::tools::ReplyDelta;

class Events : public testing::Test {
 protected:
  Events() : vocabulary_(std::make_shared<chat::FakeVocabulary>()), markers_(*vocabulary_, "") {
    format_ = chat::tools::bind_format(chat::tools::FormatKind::kHermes, {"<think>", "</think>"}, markers_);
  }

  Reading reading(bool parallel = true) const {
    Reading reading{.format = &format_, .markers = &markers_};
    reading.options = {.calls = true, .parallel = parallel, .id_seed = "seed"};
    return reading;
  }

  EventQueue::Reader reader() {
    return {.wake = [this] { ++wakes_; }, .gone = [this] { return gone_; }};
  }

  // Samples the text, its markers as tokens, then ends. sampled_ counts the tokens that the queue took.
  std::string play(EventQueue& queue, std::string_view text, Finish finish = Finish::kStop) {
    sampled_ = 0;
    for (const TokenId token : vocabulary_->tokenize(text, {.parse_special = true})) {
      ++sampled_;
      if (!queue.on_token(token, {})) break;
    }
    queue.on_done(finish, {}, std::nullopt);
    return drain(queue);
  }

  std::string drain(EventQueue& queue) {
    std::vector<ReplyDelta> all;
    std::vector<Event> events;
    queue.take(events);
    for (const Event& event : events) {
      const auto* token = std::get_if<TokenEvent>(&event);
      if (const auto* done = std::get_if<DoneEvent>(&event)) done_ = *done;
      const auto& deltas = token != nullptr ? token->deltas : done_.deltas;
      all.insert(all.end(), deltas.begin(), deltas.end());
    }
    return chat::tools::in_one_line(all);
  }

  const std::shared_ptr<const chat::FakeVocabulary> vocabulary_;
  const chat::MarkerSet markers_;
  chat::tools::ReplyFormat format_;
  std::size_t sampled_ = 0;
  DoneEvent done_;
  int wakes_ = 0;
  bool gone_ = false;
};

constexpr std::string_view kReply = "<think>hm</think>Look.<tool_call>{\"name\":\"f\"}</tool_call>";

TEST_F(Events, ThoughtsTextAndCalls) {
  EventQueue queue(vocabulary_, {}, reading(), reader());
  EXPECT_EQ(play(queue, kReply), "R(hm)T(Look.)C(f {})");
  EXPECT_EQ(done_.call_count, 1U);
}

TEST_F(Events, WithoutAReadingEverythingIsText) {
  EventQueue queue(vocabulary_, {}, std::nullopt, reader());
  EXPECT_EQ(play(queue, kReply), "T(" + std::string(kReply) + ")");
  EXPECT_EQ(done_.call_count, 0U);
}

TEST_F(Events, AStopStringEndsTheReplyWhereverItComes) {
  EventQueue queue(vocabulary_, {.stop_strings = {"oo"}}, reading(), reader());
  EXPECT_EQ(play(queue, kReply), "R(hm)T(L)");
  EXPECT_EQ(done_.stop_string, "oo");
  EventQueue in_thought(vocabulary_, {.stop_strings = {"m"}}, reading(), reader());
  EXPECT_EQ(play(in_thought, kReply), "R(h)");
}

TEST_F(Events, ACallEndsTheReplyWhereOnlyOneIsWanted) {
  EventQueue queue(vocabulary_, {}, reading(false), reader());
  const std::string call = "<tool_call>{\"name\":\"f\"}</tool_call>";
  EXPECT_EQ(play(queue, call + "and more"), "C(f {})");
  EXPECT_EQ(sampled_, vocabulary_->tokenize(call, {.parse_special = true}).size());
}

TEST_F(Events, TokensThatOnlySpellMarkersAreText) {
  EventQueue queue(vocabulary_, {}, reading(), reader());
  for (const char byte : kReply) EXPECT_TRUE(queue.on_token(static_cast<unsigned char>(byte), {}));
  queue.on_done(Finish::kLength, {}, std::nullopt);
  EXPECT_EQ(drain(queue), "T(" + std::string(kReply) + ")");
}

TEST_F(Events, TheReaderIsWokenOnceUntilItTakes) {
  EventQueue queue(vocabulary_, {}, std::nullopt, reader());
  for (const char byte : kReply) queue.on_token(static_cast<unsigned char>(byte), {});
  EXPECT_EQ(wakes_, 1);
  EXPECT_EQ(drain(queue), "T(" + std::string(kReply) + ")");
  queue.on_done(Finish::kStop, {}, std::nullopt);
  EXPECT_EQ(wakes_, 2);
  EXPECT_FALSE(queue.gone());
  gone_ = true;
  EXPECT_TRUE(queue.gone());
}

TEST_F(Events, ALimitOfLinesEndsTheReplyAsALengthDoes) {
  EventQueue queue(vocabulary_, {.lines = {.least_indent = 2}}, std::nullopt, reader());
  EXPECT_EQ(play(queue, "a\n  b\nc d"), "T(a\n  b\n)");
  EXPECT_EQ(done_.finish, Finish::kLength);
  EXPECT_TRUE(done_.by_line_limit);
}

}  // namespace
}  // namespace kvkeep::server
