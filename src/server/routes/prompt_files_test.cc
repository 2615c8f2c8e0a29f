// Files of prompts: read, held and planned within limits.

#include "server/routes/prompt_files.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <future>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "chat/chat_template.h"
#include "chat/fake_vocabulary_test.h"
#include "server/api/media_parts.h"
#include "server/routes/prompt.h"
#include "server/run/encoded_media.h"
#include "testing/sim/sim_clock.h"

namespace kvkeep::server {
namespace {

constexpr std::size_t kTokens = 40;  // of a file

class PlanningProjector final : public engine::Projector {
 public:
  const engine::ProjectorDescription& description() const override { return description_; }
  double sound_seconds(ByteSpan file) const override {
    return static_cast<char>(file.front()) == 's' ? static_cast<double>(file.size()) : 0;
  }
  std::uint64_t pixels(ByteSpan file) const override {
    return static_cast<char>(file.front()) == 'p' ? file.size() * 100'000'000 : 0;
  }
  Result<std::vector<engine::MediaPart>> plan(ByteSpan file) const override {
    ++planned;
    if (on_plan) on_plan(file);
    if (file.size() == 1) return no_space("it is a sound of up to 9999 seconds: at most 1800 are read");
    return std::vector{engine::MediaPart{{}, {.embeddings = kTokens, .positions = kTokens}}};
  }
  Result<std::vector<engine::EncodedChunk>> encode(ByteSpan, std::size_t, const engine::EncodeProgress&) override {
    return io_error("nothing is encoded here");
  }
  mutable std::atomic<int> planned = 0;
  std::function<void(ByteSpan)> on_plan;

 private:
  engine::ProjectorDescription description_;
};

class PromptFilesTest : public ::testing::Test {
 protected:
  PromptFilesTest() {
    service_.vocabulary = vocabulary_;
    service_.chat_template = chat::make_chat_template("", {}).value();
    service_.markers = std::make_unique<chat::MarkerSet>(*vocabulary_, service_.chat_template->source());
    service_.long_text = std::make_unique<chat::LongText>(*vocabulary_);
    service_.clock = &clock_;
    service_.context_tokens = 100;
    service_.projector = &projector_;
    service_.held_files = std::make_unique<HeldFiles>(ByteCount{1'600});
    api::MediaRules& rules = service_.defaults.media.emplace();
    rules.pictures = true;
    rules.read_file = [this](std::string_view path) -> Result<std::string> {
      ++read_;
      if (path == "none") return invalid("there is no such file");
      return std::string(path);
    };
    rules.fetch = [this](const std::string& url, const api::FetchTerms& terms) -> Result<std::string> {
      allowed_ms_.push_back(terms.longest_ms);
      clock_.advance_ms(kFetchMs);
      if (terms.gone()) return aborted("the client left");
      return url;
    };
  }

  chat::MediaFile file(const std::string& bytes, const std::string& place = "part") const {
    const MediaHash hash = media_hash(service_.defaults.media->key, std::as_bytes(std::span(bytes)));
    return {.hash = hash, .bytes = std::make_shared<const std::string>(bytes), .place = place};
  }
  static chat::MediaFile named(const std::string& url, const std::string& place = "part") {
    return {.place = place, .url = url};
  }
  Result<Prompt> read(std::vector<chat::MediaFile> files, Counting counting = Counting::kWhereItFits) {
    api::MixedPrompt prompt;
    for (chat::MediaFile& each : files) prompt.emplace_back(std::move(each));
    prompt.emplace_back(std::string("x"));
    api::PromptSource source = std::move(prompt);
    return read_prompt(service_, source, kNoTenant, [this] { return gone_; }, counting);
  }
  Error refused(std::vector<chat::MediaFile> files) {
    const Result<Prompt> prompt = read(std::move(files));
    return prompt ? Error{ErrorKind::kNotFound, "no error"} : prompt.error();
  }

  static constexpr std::int64_t kFetchMs = 20'000;
  const std::shared_ptr<chat::FakeVocabulary> vocabulary_ = std::make_shared<chat::FakeVocabulary>();
  sim::SimClock clock_;
  PlanningProjector projector_;
  Service service_;
  int read_ = 0;
  bool gone_ = false;
  std::vector<std::int64_t> allowed_ms_;
};

TEST_F(PromptFilesTest, AFileIsReadOnceHoweverOftenItIsNamed) {
  const auto prompt = read({named("file://a.png"), named("file://a.png")});
  ASSERT_TRUE(prompt.ok()) << prompt.error().message;
  EXPECT_EQ(read_, 1);
  EXPECT_EQ(projector_.planned, 1);
  ASSERT_EQ(prompt->media.size(), 2U);
  EXPECT_EQ(*prompt->media[0].file->bytes, "a.png");
  EXPECT_EQ(prompt->media[0].file->bytes.get(), prompt->media[1].file->bytes.get());
  EXPECT_EQ(prompt->media[0].file->hash, file("a.png").hash);
}

TEST_F(PromptFilesTest, ErrorsNameTheFilesPlace) {
  EXPECT_EQ(refused({named("file://none", "messages[0]")}).message, "'messages[0]': there is no such file");
  EXPECT_EQ(refused({named("file://", "messages[0]")}).message, "'messages[0]': the file is empty");
  const Error too_long = refused({file("1", "messages[1]")});
  EXPECT_EQ(too_long.kind, ErrorKind::kInvalid);
  EXPECT_EQ(too_long.message, "'messages[1]': it is a sound of up to 9999 seconds: at most 1800 are read");
}

TEST_F(PromptFilesTest, RequestsThatWaitHoldTheirFilesWithinABound) {
  const auto waiting = read({file(std::string(1'000, 'a'))});
  ASSERT_TRUE(waiting.ok());
  const Error busy = refused({file(std::string(700, 'b'), "messages[2]")});
  EXPECT_EQ(busy.kind, ErrorKind::kBusy);
  EXPECT_TRUE(busy.message.starts_with("'messages[2]': the files of all requests together")) << busy.message;
  EXPECT_TRUE(read({file(std::string(1'000, 'a'))}).ok()) << "the same file takes no more";
  EXPECT_TRUE(read({file(std::string(600, 'b'))}).ok());
}

TEST_F(PromptFilesTest, ARequestThatCouldNeverFitIsTooLarge) {
  std::vector<chat::MediaFile> files;
  for (char c = 'a'; c < 'd'; ++c) files.push_back(file(std::string(600, c), std::string("part ") + c));
  const Error large = refused(files);
  EXPECT_EQ(large.kind, ErrorKind::kNoSpace);
  EXPECT_TRUE(large.message.starts_with("'part c': with it the request's files have")) << large.message;
  service_.context_tokens = 1'000;
  EXPECT_TRUE(read(std::vector(20, file(std::string(600, 'a')))).ok()) << "equal files count once";
}

// A sound of this test has as many seconds as bytes.
TEST_F(PromptFilesTest, TheSoundsOfARequestHaveABoundOfSeconds) {
  const auto sound = [this](std::size_t seconds, const std::string& place) {
    return file("s" + std::string(seconds - 1, ' '), place);
  };
  service_.held_files = std::make_unique<HeldFiles>(mebibytes(1));
  service_.sound_room = std::make_unique<SoundRoom>();
  service_.context_tokens = 1'000;
  const Error long_one = refused({sound(1'700, "a"), sound(1'701, "b"), file("a picture"), sound(200, "messages[4]")});
  EXPECT_EQ(long_one.kind, ErrorKind::kInvalid);
  EXPECT_EQ(long_one.message,
            "'messages[4]': with it the request's sounds have up to 3601 seconds, and at most 3600 are taken: send "
            "fewer, or shorter ones");
  EXPECT_EQ(projector_.planned, 0) << "nothing is decoded to find that out";
  EXPECT_TRUE(read({sound(1'700, "a"), sound(1'701, "b"), sound(199, "c")}).ok());
  EXPECT_TRUE(read(std::vector(4, sound(1'700, "a"))).ok()) << "equal sounds count once";
  EXPECT_EQ(refused({sound(1'700, "a"), sound(1'701, "b"), sound(201, "c")}).kind, ErrorKind::kInvalid)
      << "also where some are known";
}

TEST_F(PromptFilesTest, ThePicturesOfARequestHaveABoundOfPixels) {
  const auto picture = [this](std::size_t size, char last, const std::string& place) {
    return file("p" + std::string(size - 1, last), place);
  };
  const Error large = refused({picture(5, 'a', "a"), picture(5, 'b', "b"), picture(1, 'c', "messages[4]")});
  EXPECT_EQ(large.kind, ErrorKind::kInvalid);
  EXPECT_EQ(large.message,
            "'messages[4]': with it the request's pictures have 1100 million pixels, and at most 1000 are taken: send "
            "fewer, or smaller ones");
  EXPECT_EQ(projector_.planned, 0);
  service_.context_tokens = 1'000;
  EXPECT_TRUE(read({picture(5, 'a', "a"), picture(5, 'a', "b"), picture(5, 'b', "c")}).ok()) << "equal ones count once";
}

TEST_F(PromptFilesTest, ARequestHasOnlySoMuchTimeForOtherHosts) {
  const Error late = refused({named("http://a"), named("http://b"), named("http://c", "messages[3]")});
  EXPECT_EQ(late.kind, ErrorKind::kInvalid);
  EXPECT_TRUE(late.message.starts_with("'messages[3]': the files before it took all of the 30 seconds"))
      << late.message;
  EXPECT_EQ(allowed_ms_, (std::vector<std::int64_t>{kMostFetchMs, kMostFetchMs - kFetchMs}));
}

TEST_F(PromptFilesTest, AClientThatLeavesEndsTheReading) {
  gone_ = true;
  EXPECT_EQ(refused({named("file://a"), named("http://b")}).kind, ErrorKind::kAborted);
  EXPECT_EQ(read_, 0);
  EXPECT_TRUE(allowed_ms_.empty());
}

TEST_F(PromptFilesTest, AClientThatLeavesEndsTheFetching) {
  service_.defaults.media->fetch = [this](const std::string&, const api::FetchTerms& terms) -> Result<std::string> {
    gone_ = true;
    return terms.gone() ? aborted("the client left") : io_error("it is not told");
  };
  EXPECT_EQ(refused({named("http://a"), named("http://b")}).kind, ErrorKind::kAborted);
}

TEST_F(PromptFilesTest, FilesThatDoNotFitAreNotAllPlanned) {
  std::vector<chat::MediaFile> files;
  for (char c = 'a'; c < 'k'; ++c) files.push_back(file(std::string(9, c)));
  const auto prompt = read(files);
  ASSERT_TRUE(prompt.ok());
  EXPECT_EQ(projector_.planned, 3) << "100 tokens are reached with the third";
  EXPECT_TRUE(prompt->ids.empty());
  EXPECT_FALSE(prompt->is_counted);
  EXPECT_EQ(prompt->tokens_min, 3 * kTokens);
  const auto counted = read({files.begin(), files.begin() + 5}, Counting::kExact);
  ASSERT_TRUE(counted.ok());
  EXPECT_EQ(counted->tokens_min, 5 * kTokens + 1) << "who counts wants to know by how much it is too long";
  const auto endless = read(files, Counting::kExact);
  ASSERT_FALSE(endless.ok()) << "but not without end";
  EXPECT_EQ(endless.error().kind, ErrorKind::kInvalid);
}

// The clients of the others leave in the end.
TEST_F(PromptFilesTest, SoundsAreCountedWithinABoundOfSeconds) {
  service_.held_files = std::make_unique<HeldFiles>(mebibytes(1));
  service_.sound_room = std::make_unique<SoundRoom>(1'000);
  std::promise<void> leave;
  const std::shared_future<void> left = leave.get_future().share();
  std::atomic<double> together = 0;
  projector_.on_plan = [&](ByteSpan sound) {
    together = together + projector_.sound_seconds(sound);
    if (projector_.sound_seconds(sound) > 0) left.wait();
  };
  std::vector<std::thread> clients;
  std::atomic<int> gone_in_time = 0;
  for (const std::size_t seconds : {400, 401, 402, 403, 404}) {
    clients.emplace_back([&, seconds] {
      api::PromptSource source = api::MixedPrompt{file("s" + std::string(seconds - 1, ' ')), std::string("x")};
      const auto gone = [&] { return projector_.planned >= 3; };
      const auto prompt = read_prompt(service_, source, kNoTenant, gone, Counting::kWhereItFits);
      gone_in_time += !prompt && prompt.error().kind == ErrorKind::kAborted ? 1 : 0;
    });
  }
  while (projector_.planned < 2) std::this_thread::yield();
  EXPECT_TRUE(read({file("a picture")}).ok()) << "pictures do not wait";
  for (int i = 0; i < 20'000 && gone_in_time < 3; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  EXPECT_EQ(gone_in_time, 3) << "whose clients left while they waited";
  EXPECT_LE(together, 1'000);
  leave.set_value();
  for (std::thread& client : clients) client.join();
  EXPECT_EQ(projector_.planned, 3);
  projector_.on_plan = {};
  EXPECT_TRUE(read({file("s" + std::string(1'500, ' '))}).ok()) << "a longer one has all of the room";
}

// A history is rendered once more when the reply has ended.
TEST_F(PromptFilesTest, MessagesThatStayKeepNoBytes) {
  chat::RenderInput input;
  input.media.names = chat::MediaNames(chat::MediaNames::Key{});
  input.media.files = {file("a picture")};
  input.messages = {{{"role", "user"}, {"content", input.media.names.name(0) + "What is it?"}}};
  api::PromptSource source = std::move(input);
  service_.context_tokens = 1'000;
  const auto ask = [&] {
    return read_prompt(service_, source, kNoTenant, [] { return false; }, Counting::kWhereItFits, MessagesAfter::kStay);
  };
  const auto first = ask();
  ASSERT_TRUE(first.ok()) << first.error().message;
  EXPECT_EQ(*first->media.front().file->bytes, "a picture");
  EXPECT_EQ(std::get<chat::RenderInput>(source).media.files.front().bytes, nullptr);
  const auto again = ask();
  ASSERT_TRUE(again.ok()) << again.error().message;
  EXPECT_EQ(again->ids, first->ids);
  EXPECT_EQ(again->media.front().file->bytes, nullptr);
}

TEST_F(PromptFilesTest, OnlyRequestsThatNameFilesOfOtherHostsWaitForThem) {
  const auto lane = [&](const char* body, const char* address = "10.0.0.1") {
    HttpRequest http;
    http.body = body;
    http.remote_address = address;
    return lane_of_files(service_, http);
  };
  const auto kind = [&](const char* body) { return lane(body).kind; };
  constexpr const char* kPicture = R"({"type":"image_url","image_url":{"url":"data:,"}})";
  constexpr const char* kRemote = R"({"type":"image_url","image_url":{"url" : "https://a/b.png"}})";
  EXPECT_EQ(kind(kPicture), Lane::Kind::kShort) << "to read its head takes no time";
  EXPECT_EQ(kind(R"({"type":"text","text":"x"})"), Lane::Kind::kShort);
  EXPECT_EQ(kind(kRemote), Lane::Kind::kWaits);
  EXPECT_EQ(lane(kRemote).client, lane(kRemote).client);
  EXPECT_NE(lane(kRemote).client, lane(kRemote, "10.0.0.2").client);
  service_.defaults.media->sound = true;
  EXPECT_EQ(kind(kPicture), Lane::Kind::kLong) << "it may be a sound, whatever it is called";
  EXPECT_EQ(kind(kRemote), Lane::Kind::kWaits);
  service_.defaults.media->fetch = nullptr;
  EXPECT_EQ(kind(kRemote), Lane::Kind::kLong) << "it is refused, and is not waited for";
  service_.defaults.media.reset();
  EXPECT_EQ(kind(kRemote), Lane::Kind::kShort);
}

}  // namespace
}  // namespace kvkeep::server
