#include "server/routes/reply_room.h"

#include <gtest/gtest.h>

namespace kvkeep::server {
namespace {

constexpr std::size_t kContext = 32'768;

Status room(std::optional<std::size_t> scored, bool stream, std::size_t replies, std::size_t tokens) {
  return ReplyRoom(scored, /*score_prompt=*/false, stream).add(10, replies, tokens);
}

TEST(ReplyRoom, RefusesProbabilitiesThatWouldBeKept) {
  EXPECT_TRUE(room(256, false, 16, 1'000).ok());
  const Status refused = room(256, false, 128, 4'000);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().kind, ErrorKind::kInvalid);
  EXPECT_NE(refused.error().message.find("could take 1032 MiB, and 64 are possible"), std::string::npos)
      << refused.error().message;
  EXPECT_TRUE(room(256, true, 128, 4'000).ok()) << "a stream keeps none";
  EXPECT_TRUE(room({}, false, 1'024, kContext).ok()) << "none were asked for";
  EXPECT_TRUE(room(20, false, 1, 131'072).ok()) << "one reply that fills a long context";
}

TEST(ReplyRoom, CountsAllPromptsTogether) {
  ReplyRoom room(256, /*score_prompt=*/false, /*stream=*/false);
  std::size_t prompts = 0;
  while (room.add(10, 1, 1'000).ok()) ++prompts;
  EXPECT_EQ(prompts, kMostKeptBytes / (1'000 * kept_bytes(256)));
}

TEST(ReplyRoom, CountsPromptsThatAreScored) {
  for (const bool stream : {false, true}) {
    ReplyRoom room(20, /*score_prompt=*/true, stream);
    EXPECT_TRUE(room.add(19'000, 1, 0).ok());
    EXPECT_FALSE(room.add(1'000'000, 1, 0).ok());
  }
  EXPECT_TRUE(ReplyRoom(20, true, false).add(131'072, 1, 0).ok());
  EXPECT_FALSE(ReplyRoom(20, true, true).add(131'072, 1, 0).ok()) << "one event of 440 MB";
}

TEST(ReplySamplers, AreBoundedTogether) {
  engine::SamplingParams sampling;
  EXPECT_TRUE(check_samplers(sampling, 1'024, kContext).ok());
  sampling.repeat_last_n = -1;
  EXPECT_TRUE(check_samplers(sampling, 1'024, kContext).ok());
  sampling.dry_multiplier = 1;
  sampling.dry_penalty_last_n = -1;
  EXPECT_FALSE(check_samplers(sampling, 1'024, kContext).ok());
  EXPECT_TRUE(check_samplers(sampling, 128, kContext).ok());
  sampling = {};
  sampling.grammar.text.assign(512 << 10, ' ');
  EXPECT_FALSE(check_samplers(sampling, 128, kContext).ok());
  EXPECT_TRUE(check_samplers(sampling, 8, kContext).ok());
  sampling = {};
  sampling.logit_bias.resize(20'000'000);
  EXPECT_TRUE(check_samplers(sampling, 1, kContext).ok()) << "a vocabulary of any size, for one reply";
}

}  // namespace
}  // namespace kvkeep::server
