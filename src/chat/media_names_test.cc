#include "chat/media_names.h"

#include <gtest/gtest.h>

#include "chat/chat_template.h"
#include "chat/fake_vocabulary_test.h"
#include "chat/render.h"
#include "chat/tokenize.h"

namespace kvkeep::chat {
namespace {

MediaNames::Key media_key(std::uint8_t last) {
  MediaNames::Key made{std::byte{0xA0}};
  made.back() = std::byte{last};
  return made;
}

TEST(MediaNames, SpellTheirKey) {
  EXPECT_EQ(MediaNames(media_key(0x1F)).name(7),
            "kvkeepmedia"
            "a0" +
                std::string(28, '0') + "1fn7e");
}

TEST(MediaNames, AreFoundInTextInOrder) {
  const MediaNames names(media_key(1));
  const std::string text = "x" + names.name(0) + names.name(12) + "12" + names.name(3);
  std::vector<std::size_t> numbers;
  std::string rest;
  std::size_t at = 0;
  while (const auto match = names.next(text, at)) {
    numbers.push_back(match->number);
    rest += text.substr(at, match->begin - at);
    at = match->end;
  }
  EXPECT_EQ(numbers, (std::vector<std::size_t>{0, 12, 3}));
  EXPECT_EQ(rest + text.substr(at), "x12");
}

TEST(MediaNames, OfOtherRequestsAreText) {
  const MediaNames names(media_key(1));
  EXPECT_FALSE(names.next(MediaNames(media_key(2)).name(0), 0));
  EXPECT_FALSE(MediaNames().next(names.name(0), 0));
  EXPECT_FALSE(names.next(names.name(0).substr(0, names.name(0).size() - 1), 0)) << "cut off";
}

TEST(MediaNames, NoNewlineIsPutNextToThem) {
  const std::string name = MediaNames(media_key(1)).name(7);
  EXPECT_TRUE(begins_with_media_name(name + "text"));
  EXPECT_FALSE(begins_with_media_name("text" + name));
  EXPECT_TRUE(ends_with_media_name("text" + name));
  EXPECT_FALSE(ends_with_media_name(name + "text"));
  EXPECT_FALSE(ends_with_media_name("kvkeepmedia"));
  EXPECT_FALSE(begins_with_media_name(""));
}

class RenderMedia : public ::testing::Test {
 protected:
  RenderMedia() : markers_(vocabulary_, default_template_source()), names_(media_key(3)) {}

  RenderInput input(nlohmann::ordered_json content, std::size_t files) {
    RenderInput input;
    input.messages = {{{"role", "user"}, {"content", std::move(content)}}};
    input.media.names = names_;
    for (std::size_t i = 0; i < files; ++i) {
      input.media.files.push_back({{}, std::make_shared<const std::string>("x"), "part " + std::to_string(i)});
    }
    return input;
  }
  Result<RenderedPrompt> render(RenderInput rendered, std::string_view source = default_template_source()) {
    return render_prompt(**make_chat_template(source, {"<s>", "</s>"}), markers_, std::move(rendered));
  }

  FakeVocabulary vocabulary_;
  MarkerSet markers_;
  MediaNames names_;
};

TEST_F(RenderMedia, APictureIsASpanOfItsOwn) {
  const auto prompt = render(input({{{"type", "text"}, {"text", "one"}},
                                    {{"type", "text"}, {"text", names_.name(0)}},
                                    {{"type", "text"}, {"text", "two"}},
                                    {{"type", "text"}, {"text", "three"}}},
                                   1));
  ASSERT_TRUE(prompt.ok());
  std::string text;
  for (const PromptSpan& span : prompt->spans) text += span.kind == SpanKind::kMedia ? "(picture)" : span.text;
  EXPECT_NE(text.find("one(picture)two\nthree"), std::string::npos) << text;
}

TEST_F(RenderMedia, ItsIdsStandInItsPlace) {
  const auto prompt = render(input(names_.name(1) + "a" + names_.name(0), 2));
  ASSERT_TRUE(prompt.ok());
  const auto piece = [&](std::string_view text) { return tokenize_plain(vocabulary_, markers_, text); };
  std::vector<std::size_t> asked;
  const auto media = [&](std::size_t number) -> Result<std::vector<TokenId>> {
    asked.push_back(number);
    return std::vector<TokenId>{-1 - static_cast<TokenId>(number)};
  };
  const auto ids = tokenize_prompt(vocabulary_, markers_, *prompt, piece, media);
  ASSERT_TRUE(ids.ok());
  EXPECT_EQ(asked, (std::vector<std::size_t>{1, 0}));
  const auto found = std::ranges::find(*ids, -2);
  ASSERT_NE(found, ids->end());
  EXPECT_EQ(std::vector<TokenId>(found, found + 3), (std::vector<TokenId>{-2, 'a', -1}));
}

// What follows a picture lies where its message says, though a picture has more ids than its name has letters, or
// fewer.
TEST_F(RenderMedia, WordsAfterAPictureKeepTheirPlace) {
  for (const std::size_t count : {1U, 3U, 200U}) {
    RenderInput asked = input("ab" + names_.name(0) + "cd", 1);
    asked.messages.push_back({{"role", "user"}, {"content", "ef"}});
    auto prompt = render(std::move(asked), "{% for m in messages %}[{{ m.content }}]{% endfor %}");
    ASSERT_TRUE(prompt.ok());
    std::vector<TokenId> picture{'v'};  // its family's word for a picture
    picture.resize(count, -7);
    const auto piece = [&](std::string_view text) { return tokenize_plain(vocabulary_, markers_, text); };
    const auto media = [&](std::size_t) -> Result<std::vector<TokenId>> { return picture; };
    const auto ids = tokenize_prompt(vocabulary_, markers_, *prompt, piece, media);
    ASSERT_TRUE(ids.ok());
    for (PromptSpan& span : prompt->spans) {
      if (span.kind == SpanKind::kMedia) span.marker = picture.front(), span.ids = count;
    }
    const PromptParts parts = parts_of(*prompt, *ids, PieceSizes(vocabulary_));
    std::string places;
    for (std::size_t i = 0; i < ids->size(); ++i) {
      const PromptPlace place = parts.parts[parts.find(Position{} + i)].place;
      places += place.field == PromptField::kContent ? static_cast<char>('0' + place.index) : '-';
    }
    EXPECT_EQ(places, "-" + std::string(count + 4, '0') + "--11-");
  }
}

TEST_F(RenderMedia, ATemplateThatLeavesAPictureOutIsAnError) {
  const auto prompt = render(input(names_.name(0), 1), "{% for message in messages %}{{ message.role }}{% endfor %}");
  ASSERT_FALSE(prompt.ok());
  EXPECT_EQ(prompt.error().message,
            "the model's chat template leaves out 'part 0': send the message without it, or start the server with "
            "another --chat-template");
}

TEST_F(RenderMedia, AnErrorOfAFileIsThePromptsError) {
  const auto prompt = render(input(names_.name(0), 1));
  ASSERT_TRUE(prompt.ok());
  const auto piece = [&](std::string_view text) { return tokenize_plain(vocabulary_, markers_, text); };
  const auto media = [](std::size_t) -> Result<std::vector<TokenId>> { return invalid("no picture"); };
  EXPECT_FALSE(tokenize_prompt(vocabulary_, markers_, *prompt, piece, media).ok());
}

}  // namespace
}  // namespace kvkeep::chat
