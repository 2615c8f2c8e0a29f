// Which thread makes which part of a reply: the HTTP thread does nothing that grows with the reply's length.

#include "server/routes/answer.h"

#include <gtest/gtest.h>

#include <deque>
#include <string>
#include <utility>

#include "chat/fake_vocabulary_test.h"
#include "server/api/openai/reply.h"

namespace kvkeep::server {
namespace {

// Keeps posted tasks until the test runs them.
class FakeWriter final : public ResponseWriter, public std::enable_shared_from_this<FakeWriter> {
 public:
  using Tasks = std::deque<std::function<void()>>;

  void send(int /*status*/, std::string_view /*type*/, std::string body, const HeaderList& /*headers*/) override {
    sent = std::move(body);
    ended = true;
  }
  bool begin_stream(int /*status*/, std::string_view /*type*/, const HeaderList& /*headers*/) override {
    is_started_ = true;
    return true;
  }
  bool write(std::string_view piece) override {
    sent += piece;
    return true;
  }
  void end() override { ended = true; }
  bool started() const override { return is_started_; }
  std::shared_ptr<ResponseWriter> keep() override { return shared_from_this(); }
  bool client_gone() const override { return false; }
  void post(std::function<void()> task) override { posted.push_back(std::move(task)); }
  void post_work(std::function<void()> task) override { work.push_back(std::move(task)); }
  void on_silence(std::int64_t ms, std::function<void()> /*task*/) override { silence_ms = ms; }

  static void run(Tasks& tasks) {
    for (; !tasks.empty(); tasks.pop_front()) tasks.front()();
  }

  std::string sent;
  bool ended = false;
  std::int64_t silence_ms = 0;
  Tasks posted;
  Tasks work;

 private:
  bool is_started_ = false;
};

class AnswerTest : public testing::TestWithParam<bool> {
 protected:
  AnswerTest() { service_.vocabulary = std::make_shared<chat::FakeVocabulary>(); }

  // A reply of this many tokens, up to the part that the HTTP thread makes.
  std::shared_ptr<FakeWriter> answer(std::size_t tokens) {
    const auto writer = std::make_shared<FakeWriter>();
    const auto answer =
        std::make_shared<Answer>(service_, AnswerForm{.stream = GetParam()}, writer,
                                 std::make_unique<api::ChatReplyWriter>(api::ReplyHeader{}, api::GenerationRequest{}));
    const std::shared_ptr<JobSink> sink =
        answer->open(NextRequest(service_, "id", std::nullopt, {}, /*remembered=*/false, kNoTenant), {}, std::nullopt);
    const TokenId letter = service_.vocabulary->tokenize_text("a").front();
    JobStats stats;
    for (std::size_t i = 0; i < tokens; ++i) {
      ++stats.predicted_tokens;
      EXPECT_TRUE(sink->on_token(letter, stats));
    }
    sink->on_done(Finish::kLength, stats, std::nullopt);
    FakeWriter::run(writer->posted);
    return writer;
  }

  Service service_;
};

TEST_P(AnswerTest, ALongReplyIsEndedByAWorker) {
  const auto writer = answer(kLongReplyTokens + 1);
  EXPECT_FALSE(writer->ended);
  ASSERT_EQ(writer->work.size(), 1U);
  FakeWriter::run(writer->work);
  EXPECT_TRUE(writer->ended);
  EXPECT_NE(writer->sent.find("length"), std::string::npos);
}

TEST_P(AnswerTest, AShortOneWaitsForNoWorker) {
  const auto writer = answer(kLongReplyTokens);
  EXPECT_TRUE(writer->ended);
  EXPECT_TRUE(writer->work.empty());
}

TEST_P(AnswerTest, AStreamBreaksItsSilence) {
  service_.keep_alive_ms = 700;
  EXPECT_EQ(answer(1)->silence_ms, GetParam() ? 700 : 0);
}

INSTANTIATE_TEST_SUITE_P(Forms, AnswerTest, testing::Bool(),
                         [](const auto& form) { return form.param ? "Stream" : "Whole"; });

class SeveralChoices : public testing::Test {
 protected:
  SeveralChoices() { service_.vocabulary = std::make_shared<chat::FakeVocabulary>(); }

  std::vector<std::shared_ptr<JobSink>> open(bool stream, std::size_t choices) {
    api::GenerationRequest request;
    request.choices_per_prompt = choices;
    const auto answer =
        std::make_shared<Answer>(service_, AnswerForm{.stream = stream, .choices_per_prompt = choices}, writer_,
                                 std::make_unique<api::ChatReplyWriter>(api::ReplyHeader{}, request));
    std::vector<std::shared_ptr<JobSink>> sinks;
    for (std::size_t i = 0; i < choices; ++i) {
      sinks.push_back(answer->open(NextRequest(service_, "id", std::nullopt, {}, /*remembered=*/false, kNoTenant), {},
                                   std::nullopt));
    }
    return sinks;
  }

  void sample(JobSink& sink, std::string_view text) {
    for (const TokenId token : service_.vocabulary->tokenize_text(text)) {
      ++stats_.predicted_tokens;
      (void)sink.on_token(token, stats_);
    }
  }

  std::string sent() {
    FakeWriter::run(writer_->posted);
    return writer_->sent;
  }

  Service service_;
  const std::shared_ptr<FakeWriter> writer_ = std::make_shared<FakeWriter>();
  JobStats stats_{.prompt_tokens = 10, .waits = {}};
};

TEST_F(SeveralChoices, ABodyWaitsForAll) {
  const auto sinks = open(/*stream=*/false, 2);
  sample(*sinks[1], "b");
  sinks[1]->on_done(Finish::kStop, stats_, std::nullopt);
  EXPECT_EQ(sent(), "");
  sample(*sinks[0], "a");
  sinks[0]->on_done(Finish::kStop, stats_, std::nullopt);
  const api::Json json = api::Json::parse(sent());
  EXPECT_EQ(json["choices"][0]["message"]["content"], "a");
  EXPECT_EQ(json["choices"][1]["message"]["content"], "b");
  EXPECT_EQ(json["usage"]["prompt_tokens"], 10) << "they share it";
  EXPECT_EQ(json["usage"]["completion_tokens"], 1 + 2);
}

TEST_F(SeveralChoices, AStreamEndsWithTheLast) {
  const auto sinks = open(/*stream=*/true, 2);
  sample(*sinks[0], "a");
  sinks[0]->on_done(Finish::kStop, stats_, std::nullopt);
  EXPECT_EQ(sent().find("[DONE]"), std::string::npos);
  EXPECT_FALSE(writer_->ended);
  sample(*sinks[1], "b");
  sinks[1]->on_done(Finish::kStop, stats_, std::nullopt);
  EXPECT_NE(sent().find("[DONE]"), std::string::npos);
  EXPECT_TRUE(writer_->ended);
}

TEST_F(SeveralChoices, TheFirstErrorEndsAll) {
  const auto sinks = open(/*stream=*/false, 3);
  EXPECT_FALSE(sinks[1]->gone());
  sinks[0]->on_done(Finish::kError, stats_, io_error("broken"));
  EXPECT_NE(sent().find("broken"), std::string::npos);
  EXPECT_TRUE(sinks[1]->gone());
  const std::string before = writer_->sent;
  sinks[1]->on_done(Finish::kError, stats_, io_error("again"));
  sinks[2]->on_done(Finish::kGone, stats_, std::nullopt);
  EXPECT_EQ(sent(), before);
}

}  // namespace
}  // namespace kvkeep::server
