#include "server/routes/prompt.h"

#include <gtest/gtest.h>

#include <memory>

#include "chat/chat_template.h"
#include "chat/fake_vocabulary_test.h"
#include "server/routes/generation.h"

namespace kvkeep::server {
namespace {

// Counts the bytes that it has to tokenize.
class CountingVocabulary : public chat::FakeVocabulary {
 public:
  std::vector<TokenId> tokenize(std::string_view text, TokenizeOptions options) const override {
    bytes += text.size();
    return FakeVocabulary::tokenize(text, options);
  }
  mutable std::size_t bytes = 0;
};

class PromptTest : public ::testing::Test {
 protected:
  PromptTest() {
    service_.vocabulary = vocabulary_;
    service_.chat_template = chat::make_chat_template("", {}).value();
    service_.markers = std::make_unique<chat::MarkerSet>(*vocabulary_, service_.chat_template->source());
    service_.long_text = std::make_unique<chat::LongText>(*vocabulary_);
    service_.clock = &os::real_clock();
    service_.context_tokens = kContext;
    vocabulary_->bytes = 0;
  }
  Prompt read(api::PromptSource source) const { return read_prompt(service_, source).value(); }
  static api::PromptSource message(const std::string& text) {
    chat::RenderInput input;
    input.messages = {{{"role", "user"}, {"content", text}}};
    return input;
  }

  static constexpr std::size_t kContext = 100;
  const std::shared_ptr<CountingVocabulary> vocabulary_ = std::make_shared<CountingVocabulary>();
  const std::size_t longest_ = *vocabulary_->longest_piece_bytes();
  Service service_;
};

TEST_F(PromptTest, ATextThatCannotFitIsNotTokenized) {
  const std::size_t bytes = kAlwaysCountedBytes + 1;
  const Prompt prompt = read(std::string(bytes, 'x'));
  EXPECT_EQ(prompt.tokens_min, bytes / longest_);
  EXPECT_FALSE(prompt.is_counted);
  EXPECT_TRUE(prompt.ids.empty());
  EXPECT_EQ(vocabulary_->bytes, 0U);
}

TEST_F(PromptTest, AShortTextIsCountedWhetherItFitsOrNot) {
  for (const std::size_t bytes : {kContext * longest_, kAlwaysCountedBytes}) {
    const Prompt text = read(std::string(bytes, 'x'));
    EXPECT_EQ(text.tokens_min, bytes) << "a token per byte";
    EXPECT_TRUE(text.is_counted);
    const Prompt chat = read(message(std::string(bytes - 100, 'x')));
    EXPECT_GT(chat.tokens_min, bytes - 100);
    EXPECT_EQ(chat.tokens_min, chat.ids.size());
    EXPECT_TRUE(chat.is_counted);
  }
}

TEST_F(PromptTest, ALongTextThatMightFitIsTokenized) {
  service_.context_tokens = kAlwaysCountedBytes;
  const Prompt prompt = read(std::string(kAlwaysCountedBytes + 100, 'x'));
  EXPECT_EQ(prompt.tokens_min, kAlwaysCountedBytes + 100);
  EXPECT_TRUE(prompt.is_counted);
}

TEST_F(PromptTest, ATextThatMightFitIsTokenized) {
  std::string text;  // made of the longest tokens only
  for (std::size_t i = 0; i + 1 < kContext; ++i) text += "<|im_start|>";
  ASSERT_EQ(longest_, std::string("<|im_start|>").size());
  const Prompt fits = read(text);
  EXPECT_EQ(fits.ids.size(), kContext - 1);
  EXPECT_EQ(fits.tokens_min, kContext - 1);
  const Prompt too_long = read(std::string(text.size(), 'x'));
  EXPECT_EQ(too_long.tokens_min, text.size()) << "counted, as it was tokenized";
}

TEST_F(PromptTest, MessagesThatCannotFitAreNotTokenized) {
  const std::size_t bytes = kAlwaysCountedBytes + 1;
  const Prompt prompt = read(message(std::string(bytes, 'x')));
  EXPECT_FALSE(prompt.is_counted);
  EXPECT_GT(prompt.tokens_min, bytes / longest_) << "the template's markers are tokens, too";
  EXPECT_TRUE(prompt.ids.empty());
  EXPECT_EQ(vocabulary_->bytes, 0U);
  const Prompt fits = read(message("hello"));
  EXPECT_EQ(fits.tokens_min, fits.ids.size());
  EXPECT_LT(fits.tokens_min, kContext);
  EXPECT_GT(fits.ids.size(), 3U);
}

// The tokenizer cannot be interrupted, so that it gets long texts in parts.
TEST_F(PromptTest, ALongTextIsAbandonedWhenItsClientLeaves) {
  std::string text;
  while (text.size() < 40 * chat::kPartBytes) text += " some words";
  for (api::PromptSource source : {api::PromptSource(text), message(text)}) {
    vocabulary_->bytes = 0;
    int looks = 0;
    const auto prompt = read_prompt(service_, source, kNoTenant, [&] { return ++looks == 3; }, Counting::kExact);
    ASSERT_FALSE(prompt.ok());
    EXPECT_EQ(prompt.error().kind, ErrorKind::kAborted);
    EXPECT_LT(vocabulary_->bytes, 4 * chat::kPartBytes);
  }
}

TEST_F(PromptTest, CountingIsAbandonedWhenItsClientLeaves) {
  chat::RenderInput input;
  std::string text;
  while (text.size() < 10 * chat::kPartBytes) text += "word ";
  input.messages = {{{"role", "user"}, {"content", text}}};
  HttpRequest http;
  EXPECT_GT(count_prompt(service_, http, "", input, kNoTenant).value(), text.size() / longest_);
  service_.piece_memo = std::make_unique<PieceMemo>(kPieceMemoBytes);
  http.client_gone = [] { return true; };
  const auto counted = count_prompt(service_, http, "", input, kNoTenant);
  ASSERT_FALSE(counted.ok());
  EXPECT_EQ(counted.error().kind, ErrorKind::kAborted);
}

TEST_F(PromptTest, ARunThatCannotBeInterruptedIsRefused) {
  service_.context_tokens = 100'000'000;
  const std::string run(chat::kLongestRunBytes + 1, 'a');
  for (api::PromptSource source : {api::PromptSource(run), message(run)}) {
    vocabulary_->bytes = 0;
    const auto prompt = read_prompt(service_, source);
    ASSERT_FALSE(prompt.ok());
    EXPECT_EQ(prompt.error().kind, ErrorKind::kInvalid);
    EXPECT_LT(vocabulary_->bytes, chat::kPartBytes);
  }
}

TEST_F(PromptTest, SpellingsInATextAreMarkers) {
  EXPECT_EQ(read(std::string("<|im_start|>a")).ids, (std::vector<TokenId>{*vocabulary_->id_of("<|im_start|>"), 'a'}));
}

TEST_F(PromptTest, IdsAreThePrompt) {
  EXPECT_EQ(read(std::vector<TokenId>{1, 2, 3}).ids, (std::vector<TokenId>{1, 2, 3}));
  EXPECT_EQ(read(std::vector<TokenId>(500, 1)).tokens_min, 500U);
  EXPECT_EQ(read(std::string()).tokens_min, 0U);
}

TEST_F(PromptTest, OnlyNewTextsOfAGrownConversationAreTokenized) {
  service_.context_tokens = 100'000;
  chat::RenderInput input;
  input.messages = {{{"role", "user"}, {"content", std::string(1000, 'a')}}};
  const Prompt first = read(input);
  EXPECT_GE(vocabulary_->bytes, 1000U);
  input.messages.push_back({{"role", "assistant"}, {"content", std::string(500, 'b')}});
  input.messages.push_back({{"role", "user"}, {"content", std::string(300, 'c')}});
  vocabulary_->bytes = 0;
  const Prompt second = read(input);
  EXPECT_LT(vocabulary_->bytes, 900U);
  EXPECT_GE(vocabulary_->bytes, 800U);
  service_.piece_memo = std::make_unique<PieceMemo>(kPieceMemoBytes);
  EXPECT_EQ(read(input).ids, second.ids) << "what is remembered is what would be tokenized";
  EXPECT_GT(second.ids.size(), first.ids.size());
}

// As in a template that marks turns by words: there is one text for the whole conversation.
TEST_F(PromptTest, OnlyTheEndOfAGrownTextIsTokenized) {
  service_.context_tokens = 100'000;
  std::string text;
  while (text.size() < 20'000) text += "some words, ";
  read(message(text));
  vocabulary_->bytes = 0;
  const Prompt second = read(message(text + "and a few more of them"));
  EXPECT_LT(vocabulary_->bytes, 2'500U);
  service_.piece_memo = std::make_unique<PieceMemo>(kPieceMemoBytes);
  EXPECT_EQ(read(message(text + "and a few more of them")).ids, second.ids);
}

}  // namespace
}  // namespace kvkeep::server
