#include "chat/tokenize.h"

#include <gtest/gtest.h>

#include "chat/fake_vocabulary_test.h"

namespace kvkeep::chat {
namespace {

PromptSpan span_of(std::string words, SpanKind kind = SpanKind::kText) {
  return {.kind = kind, .marker = -1, .text = std::move(words)};
}

struct Fixture {
  explicit Fixture(bool add_bos = false, std::vector<SpecialToken> special = FakeVocabulary::standard_special())
      : vocabulary(std::move(special), add_bos), markers(vocabulary, "<|im_start|>") {}
  PromptSpan marker(std::string_view spelling) const {
    return {.kind = SpanKind::kMarker, .marker = *vocabulary.id_of(spelling), .text = std::string(spelling)};
  }
  std::vector<TokenId> ids(std::vector<PromptSpan> spans) const {
    auto result = tokenize_prompt(vocabulary, markers, {std::move(spans)});
    if (!result) throw std::runtime_error(result.error().message);
    return std::move(result).value();
  }
  FakeVocabulary vocabulary;
  MarkerSet markers;
};

TEST(TokenizePrompt, ContiguousTextIsOnePieceWhereverItsSpansMeet) {
  const Fixture chat;
  const std::string words = "the hello world<|x|>";
  const auto whole = chat.ids({span_of(words)});
  EXPECT_LT(whole.size(), words.size()) << "words are tokens";
  for (std::size_t cut = 0; cut <= words.size(); ++cut) {
    EXPECT_EQ(chat.ids({span_of(words.substr(0, cut)), span_of(words.substr(cut), SpanKind::kMessageText)}), whole)
        << cut;
  }
}

TEST(TokenizePrompt, ASpelledMarkerIsCutInsideAndNowhereElse) {
  const Fixture chat;
  const auto ids = chat.ids({span_of("hello <think>hello world")});
  EXPECT_EQ(chat.vocabulary.text_of(ids, true), "hello <think>hello world");
  for (const TokenId id : ids) EXPECT_FALSE(chat.markers.contains(id));
  const auto plain = chat.ids({span_of("hello world")});
  EXPECT_TRUE(std::equal(plain.rbegin(), plain.rend(), ids.rbegin())) << "text behind the cut keeps its ids";
}

TEST(TokenizePrompt, UserDefinedTokensThatAreTextStayWhatTheTokenizerMakes) {
  const Fixture chat;
  EXPECT_EQ(chat.ids({span_of("\n\n\n")}), (std::vector<TokenId>{*chat.vocabulary.id_of("\n\n\n")}));
}

TEST(TokenizePrompt, BosOnceAndOnlyIfWanted) {
  const Fixture without, with(true);
  const TokenId bos = *with.vocabulary.bos();
  EXPECT_EQ(without.ids({span_of("a")}), (std::vector<TokenId>{'a'}));
  EXPECT_EQ(with.ids({span_of("a")}), (std::vector<TokenId>{bos, 'a'}));
  EXPECT_EQ(with.ids({with.marker("<s>"), span_of("a")}), (std::vector<TokenId>{bos, 'a'}));
  EXPECT_EQ(with.ids({}), (std::vector<TokenId>{bos}));
}

TEST(TokenizePrompt, WhiteSpaceThatBelongsToAMarkerGoesIntoIt) {
  std::vector<SpecialToken> special = FakeVocabulary::standard_special();
  special.push_back({.id = 0, .spelling = "<|u|>", .control = true, .strips_before = true, .strips_after = true});
  const Fixture chat(false, special);
  EXPECT_EQ(chat.ids({span_of("a \n"), chat.marker("<|u|>"), span_of("\n\n"), span_of(" b ")}),
            (std::vector<TokenId>{'a', *chat.vocabulary.id_of("<|u|>"), 'b', ' '}));
}

TEST(TokenizePlain, AMarkerThatCannotBeCutIsRefused) {
  std::vector<SpecialToken> special;
  for (const char* spelling : {"<ab>", "<", "ab>", "<a", "b>", "<ab", ">"})
    special.push_back({.id = 0, .spelling = spelling, .control = false});
  const FakeVocabulary vocabulary(special);
  const MarkerSet markers(vocabulary, "<ab> <a | b>");
  ASSERT_TRUE(markers.contains(*vocabulary.id_of("<ab>")));
  EXPECT_TRUE(tokenize_plain(vocabulary, markers, "x <ab> y").ok()) << "its parts are no markers";
  std::vector<SpecialToken> bad;
  for (const char* spelling : {"<||>", "<||", "||>", "<|\xC2\xA6"})
    bad.push_back({.id = 0, .spelling = spelling, .control = false});
  bad.push_back({.id = 0, .spelling = "<|", .control = true});
  const FakeVocabulary stubborn(bad);
  const MarkerSet stubborn_markers(stubborn, "<||> <|| ||>");
  // "<" + "||>" forms a marker, "<||" + ">" too; "<|" + "|>" does not: a cut exists.
  EXPECT_TRUE(tokenize_plain(stubborn, stubborn_markers, "x <||> y").ok());
}

}  // namespace
}  // namespace kvkeep::chat
