// Grammars over tokens, on a real vocabulary and real logits of random weights.

#include "engine/llama/token_grammar.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>

#include "testing/models/test_model.h"

namespace kvkeep::engine::llama {
namespace {

using testing::HasSubstr;

constexpr const char* kList = R"gbnf(root ::= "[" ([0-9]{1,3} ("," [0-9]{1,3}){0,4})? "]")gbnf";

class TokenGrammarTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    engine_ = load_or_die(tiny_options());
    ASSERT_EQ(prefill(*engine_, SeqId{0}, make_prompt(50, 1)), DecodeStatus::kOk);
  }
  static void TearDownTestSuite() { engine_.reset(); }

  static SamplingParams params(GrammarParams grammar, std::uint32_t seed = 1) {
    SamplingParams sampling;
    sampling.temperature = 2.0F;
    sampling.top_k = 0;
    sampling.top_p = 1.0F;
    sampling.min_p = 0.0F;
    sampling.seed = seed;
    sampling.grammar = std::move(grammar);
    return sampling;
  }
  static std::unique_ptr<Sampler> sampler(const SamplingParams& sampling) {
    auto made = engine_->make_sampler(sampling);
    if (!made) throw std::runtime_error(made.error().message);
    return std::move(made).value();
  }
  // Samples from the same logits until the reply ends, fails or is long. `ended` receives whether it ended.
  static std::string write(Sampler& sampler, std::size_t most = 200, bool* ended = nullptr) {
    std::string text;
    if (ended != nullptr) *ended = false;
    for (std::size_t i = 0; i < most; ++i) {
      const TokenId token = engine_->sample(sampler, 49);
      if (sampler.failure()) return text + "!";
      if (engine_->vocabulary()->is_end_of_generation(token)) {
        if (ended != nullptr) *ended = true;
        return text;
      }
      text += engine_->vocabulary()->piece(token, true);
    }
    return text;
  }
  static TokenId id_of(std::string_view spelling) {
    return engine_->vocabulary()->tokenize(spelling, {.add_special = false, .parse_special = true}).at(0);
  }
  // Makes the sampler write a text first: its token is far likelier than all others, with one sampler per token.
  static SamplingParams forced(TokenId token, GrammarParams grammar) {
    SamplingParams sampling = params(std::move(grammar));
    sampling.temperature = 0;
    sampling.logit_bias = {{token, 1000.0F}};
    return sampling;
  }
  static std::unique_ptr<LlamaEngine> engine_;
};
std::unique_ptr<LlamaEngine> TokenGrammarTest::engine_;

// As letters of a string the tag would be read as the call's end. The likeliest token of all comes only where the
// grammar has it.
TEST_F(TokenGrammarTest, ATagIsSampledWhereItIsAskedForAndNowhereElse) {
  const TokenId tag = id_of("</tool_call>");
  const TokenId quote = engine_->vocabulary()->tokenize_continuation("\"").at(0);
  const TokenId letter = engine_->vocabulary()->tokenize_continuation("\x01").at(0);
  ASSERT_EQ(engine_->vocabulary()->piece(letter, true), "\x01");
  const auto written = [&](GrammarParams grammar) {
    SamplingParams sampling = forced(tag, std::move(grammar));
    sampling.logit_bias.emplace_back(quote, 900.0F);
    return write(*sampler(sampling), 5);
  };
  const std::string by_id = "root ::= \"\\\"\" [^\"]* \"\\\"\" <[" + std::to_string(tag) + "]>";
  EXPECT_EQ(written({.text = by_id}), "\"</tool_call></tool_call></tool_call></tool_call>") << "libllama's own way";
  const std::string by_letter = R"gbnf(root ::= "\"" [^"\x01]* "\"" "\x01")gbnf";
  EXPECT_EQ(written({.text = by_letter, .tags = {{tag, letter}}}), "\"\"</tool_call>");
  // After a trigger that is the tag itself.
  EXPECT_EQ(written({.text = R"gbnf(root ::= "\x01" "\"" [^"\x01]* "\"" "\x01")gbnf",
                     .triggers = {{.text = "</tool_call>"}},
                     .tags = {{tag, letter}}}),
            "</tool_call>\"\"</tool_call>");
  EXPECT_FALSE(engine_->make_sampler(params({.text = by_letter, .tags = {{tag, -1}}})).ok());
}

TEST_F(TokenGrammarTest, RandomWeightsKeepToIt) {
  for (std::uint32_t seed = 0; seed < 30; ++seed) {
    const auto made = sampler(params({.text = kList}, seed));
    bool ended = false;
    const std::string text = write(*made, 200, &ended);
    ASSERT_TRUE(ended) << "a reply ends where the grammar may: " << text;
    const auto list = nlohmann::json::parse(text, nullptr, false);
    EXPECT_TRUE(list.is_array() || text.find('0') != std::string::npos) << text;  // "01" is digits, but not JSON
    EXPECT_LE(std::ranges::count(text, ','), 4);
  }
}

TEST_F(TokenGrammarTest, GreedyKeepsToItAndSeedsRepeat) {
  SamplingParams greedy = params({.text = "root ::= \"yes\" | \"no\""});
  greedy.temperature = 0;
  const std::string text = write(*sampler(greedy));
  EXPECT_TRUE(text == "yes" || text == "no") << text;
  EXPECT_EQ(write(*sampler(params({.text = kList}, 7))), write(*sampler(params({.text = kList}, 7))));
}

TEST_F(TokenGrammarTest, EndsOnlyWhereItMay) {
  SamplingParams eager = params({.text = "root ::= \"abc\""});
  eager.logit_bias = {{*engine_->vocabulary()->eos(), 1000.0F}};
  EXPECT_EQ(write(*sampler(eager)), "abc");
  SamplingParams endless = params({.text = "root ::= \"abc\""});
  endless.ignore_eos = true;
  EXPECT_EQ(write(*sampler(endless)), "abc") << "the grammar's end is the reply's";
}

TEST_F(TokenGrammarTest, TokensOfThePromptAreNotItsOwn) {
  const auto made = sampler(params({.text = "root ::= \"abc\""}));
  for (const TokenId token : make_prompt(20, 3)) made->accept(token);
  EXPECT_EQ(write(*made), "abc");
}

TEST_F(TokenGrammarTest, MarkersPassForTextUnlessForbidden) {
  const TokenId marker = id_of("<tool_call>");
  const GrammarParams any{.text = "root ::= [^\"]{1,40}"};
  EXPECT_EQ(engine_->sample(*sampler(forced(marker, any)), 49), marker) << "its text fits";
  GrammarParams without = any;
  without.forbidden = {marker};
  EXPECT_NE(engine_->sample(*sampler(forced(marker, without)), 49), marker);
}

TEST_F(TokenGrammarTest, AGrammarThatLeadsNowhereIsAnErrorOfTheRequest) {
  // Every possible continuation is forbidden, or excluded by a bias.
  GrammarParams grammar{.text = "root ::= \"(\""};
  SamplingParams biased = params(grammar);
  for (TokenId token = 0; token < static_cast<TokenId>(engine_->vocabulary()->size()); ++token) {
    if (!engine_->vocabulary()->piece(token, true).starts_with('(')) continue;
    grammar.forbidden.push_back(token);
    biased.logit_bias.emplace_back(token, -std::numeric_limits<float>::infinity());
  }
  for (const SamplingParams& sampling : {params(grammar), biased}) {
    const auto made = sampler(sampling);
    EXPECT_EQ(write(*made), "!");
    ASSERT_TRUE(made->failure());
    EXPECT_EQ(made->failure()->kind, ErrorKind::kInvalid);
    EXPECT_THAT(made->failure()->message, HasSubstr("grammar"));
  }
}

TEST_F(TokenGrammarTest, WrongGrammarsAreRefused) {
  for (const char* text : {"root ::= nothing", "root := [a]", "start ::= [a]", "root ::= root [a]"}) {
    const auto made = engine_->make_sampler(params({.text = text}));
    ASSERT_FALSE(made.ok()) << text;
    EXPECT_EQ(made.error().kind, ErrorKind::kInvalid);
  }
  EXPECT_FALSE(engine_->make_sampler(params({.text = "root ::= [a]", .forbidden = {-1}})).ok());
}

// Begins a lazy grammar, token by token.
class LazyGrammar : public TokenGrammarTest {
 protected:
  // Feeds texts, each tokenized by itself; markers are tokens.
  static TokenGrammar fed(const GrammarParams& params, const std::vector<std::string>& texts) {
    const llama_vocab* vocabulary = llama_model_get_vocab(llama_get_model(&engine_->context()));
    auto grammar = TokenGrammar::make(*vocabulary, params);
    if (!grammar) throw std::runtime_error(grammar.error().message);
    for (const std::string& text : texts) {
      for (const TokenId token : engine_->vocabulary()->tokenize(text, {.add_special = false, .parse_special = true})) {
        EXPECT_TRUE(grammar->accept(token).ok());
      }
    }
    return std::move(grammar).value();
  }
  static bool allows(const TokenGrammar& grammar, const std::string& text) {
    return grammar.allows(engine_->vocabulary()->tokenize_text(text).at(0));
  }
  static GrammarParams call(bool only_first = false) {
    return {.text = R"(root ::= "<tool_call>" "{" [0-9]+ "}")", .triggers = {{"<tool_call>", only_first}}};
  }
};

TEST_F(LazyGrammar, BeginsWithItsTrigger) {
  EXPECT_FALSE(fed(call(), {}).holds());
  EXPECT_FALSE(fed(call(), {"some text {12} and <tool_cal"}).holds());
  for (const std::vector<std::string>& texts : {std::vector<std::string>{"some text ", "<tool_call>"},
                                                {"some text <tool", "_call", ">"},
                                                {"x<", "tool_call>"}}) {
    const TokenGrammar grammar = fed(call(), texts);
    ASSERT_TRUE(grammar.holds());
    EXPECT_TRUE(allows(grammar, "{"));
    EXPECT_FALSE(allows(grammar, "7"));
  }
}

TEST_F(LazyGrammar, TextAfterTheTriggerCounts) {
  const TokenGrammar grammar = fed(call(), {"text <tool_call>{1"});
  ASSERT_TRUE(grammar.holds());
  EXPECT_TRUE(allows(grammar, "}"));
  EXPECT_FALSE(allows(grammar, "{"));
}

TEST_F(LazyGrammar, ATriggerInsideATokenIsFound) {
  // The token has more text than the trigger, before it.
  const GrammarParams params{.text = R"(root ::= "e" "!")", .triggers = {{"e", false}}};
  const auto the = engine_->vocabulary()->tokenize_text("the");
  ASSERT_EQ(the.size(), 1U) << "the word is one token of this vocabulary";
  const TokenGrammar grammar = fed(params, {"the"});
  ASSERT_TRUE(grammar.holds());
  EXPECT_TRUE(allows(grammar, "!"));
  EXPECT_FALSE(allows(grammar, "a"));
}

TEST_F(LazyGrammar, TextThatOnlyStartsLikeACallGoesOn) {
  const TokenGrammar grammar = fed(call(), {"<tool_call>"});
  EXPECT_TRUE(grammar.holds());
  const GrammarParams params{.text = R"(root ::= "t" "!")", .triggers = {{"t", false}}};
  EXPECT_FALSE(fed(params, {"the"}).holds()) << "'he' is no '!'";
}

TEST_F(LazyGrammar, OnlyFirstLooksAtTheBeginningAlone) {
  EXPECT_TRUE(fed(call(true), {"\n ", "\t", "<tool", "_call>"}).holds());
  EXPECT_FALSE(fed(call(true), {"I call ", "<tool_call>"}).holds());
  EXPECT_FALSE(fed(call(true), {"<tool ", "<tool_call>"}).holds());
}

TEST_F(LazyGrammar, AfterAnotherText) {
  GrammarParams params = call(true);
  params.after = "</think>";
  EXPECT_FALSE(fed(params, {"<think>", "maybe <tool_call>?"}).holds());
  EXPECT_FALSE(fed(params, {"<tool_call>"}).holds());
  EXPECT_TRUE(fed(params, {"maybe <tool_call>?", "</think>", "\n\n", "<tool_call>"}).holds());
  params.triggers.clear();
  params.text = "root ::= [ \\n]{0,3} \"yes\"";
  EXPECT_FALSE(fed(params, {"hmm"}).holds());
  const TokenGrammar grammar = fed(params, {"hmm", "</think>"});
  ASSERT_TRUE(grammar.holds());
  EXPECT_TRUE(allows(grammar, "\n"));
  EXPECT_FALSE(allows(grammar, "a"));
}

// However long the reply was: the kept text is as long as a trigger.
TEST_F(LazyGrammar, LongRepliesCostNothing) {
  const std::vector<std::string> much(20'000, "a few words <tool_ ");
  std::vector<std::string> texts = much;
  texts.push_back("<tool_call>");
  EXPECT_TRUE(fed(call(), texts).holds());
}

}  // namespace
}  // namespace kvkeep::engine::llama
