#include "server/run/prefill_cuts.h"

#include <gtest/gtest.h>

#include "server/run/parts_fixture.h"
#include "server/run/scheduler_test_fixture.h"

namespace kvkeep::server {
namespace {

using engine::MemoryClass;
using Tokens = std::vector<TokenId>;

constexpr TokenId kMarker = 1;
constexpr std::uint64_t kClient = 7;

// Each id below 128 is an ASCII letter.
class Letters final : public Vocabulary {
 public:
  std::size_t size() const override { return 128; }
  std::vector<TokenId> tokenize(std::string_view text, TokenizeOptions) const override { return ids(text); }
  std::vector<TokenId> tokenize_continuation(std::string_view text) const override { return ids(text); }
  std::string piece(TokenId id, bool) const override { return std::string(1, static_cast<char>(id)); }
  std::optional<std::size_t> longest_piece_bytes() const override { return 1; }
  const std::vector<SpecialToken>& special_tokens() const override { return none_; }
  std::optional<TokenId> bos() const override { return std::nullopt; }
  std::optional<TokenId> eos() const override { return std::nullopt; }
  bool add_bos() const override { return false; }
  bool is_end_of_generation(TokenId) const override { return false; }

 private:
  static std::vector<TokenId> ids(std::string_view text) { return {text.begin(), text.end()}; }
  const std::vector<SpecialToken> none_;
};

const index::TokenTexts& texts_of_words() {
  static const index::TokenTexts made(Letters(), [](TokenId id) { return id == kMarker; });
  return made;
}

Tokens tokens(const std::string& text) { return {text.begin(), text.end()}; }

TokenRange all(const Tokens& prompt) { return {Position{}, Position{} + prompt.size()}; }

TEST(LikelyCutFinder, ALineInWhichPromptsDifferedIsFoundInAnotherConversation) {
  LikelyCutFinder finder(&texts_of_words());
  const Tokens first = tokens("Hello\nOpen files: a.py\nDo it");
  EXPECT_TRUE(finder.find(kClient, first, all(first), {}).lines.empty());
  finder.learn(kClient, first, Position{19});
  const Tokens second = tokens("Something else\nOpen files: z.py\n");
  EXPECT_EQ(finder.find(kClient, second, all(second), {}).lines, std::vector<Position>{Position{15}});
  EXPECT_TRUE(finder.find(kClient + 1, second, all(second), {}).lines.empty());
}

TEST(LikelyCutFinder, WhereALineBeginsTheOneBeforeIsLearnt) {
  for (const char* line_end : {"\n", "\x01"}) {
    LikelyCutFinder finder(&texts_of_words());
    const std::string head = std::string("Files of today:") + line_end;
    finder.learn(kClient, tokens(head + "a"), Position{} + head.size());
    const Tokens next = tokens("Files of today:\nz\n");
    EXPECT_EQ(finder.find(kClient, next, all(next), {}).lines, std::vector<Position>{Position{16}});
  }
}

TEST(LikelyCutFinder, WithoutTextsNothingIsFound) {
  LikelyCutFinder finder(nullptr);
  const Tokens prompt = tokens("Nov 20\n");
  finder.learn(kClient, prompt, Position{3});
  EXPECT_TRUE(finder.find(kClient, prompt, all(prompt), {}).lines.empty());
}

// ---- the plan, without a scheduler ----

TEST(PrefillCuts, AreTakenOneByOne) {
  PrefillCuts cuts({{Position{10}}, {Position{20}}});
  EXPECT_EQ(cuts.next(), Position{10});
  EXPECT_FALSE(cuts.take(Position{20}).has_value());
  EXPECT_TRUE(cuts.take(Position{10}).has_value());
  EXPECT_EQ(cuts.next(), Position{20});
  EXPECT_TRUE(cuts.take(Position{20}).has_value());
  EXPECT_FALSE(cuts.next().has_value() || cuts.take(Position{30}).has_value());
}

class CutPlannerTest : public PartsTest {
 protected:
  CutPlannerTest() : PartsTest({.cells = 4000, .sequences = 2, .memory_class = MemoryClass::kHybrid}) {}
  // The plan for a prompt of which `held` tokens are restored.
  PrefillCuts plan(const Tokens& prompt, std::size_t held, const policy::KnownPath& known = {}) {
    CutPlanner planner({.cuts = {.min_tokens = 32}, .texts = nullptr}, engine.memory(), cache);
    Sequences sequences = make_sequences();
    const SeqId seq = *sequences.place({});
    sequences.occupy(seq, {.id = "test"}, {});
    if (held > 0) decode(sequences, seq, TokenSpan(prompt).first(held));
    sequences.begin_capture(seq);
    Job job;
    job.markers.user_turns = {Position{200}};
    PrefillCuts cuts = planner.plan(
        {.job = job, .tokens = prompt, .prompt_tokens = prompt.size(), .markers = job.markers, .known = known}, seq,
        sequences[seq]);
    sequences.clear(seq);
    return cuts;
  }
};

TEST_F(CutPlannerTest, CutsAtTheAnchorAndAtTheTurn) {
  PrefillCuts cuts = plan(counting(300), 0);
  ASSERT_EQ(cuts.next(), Position{200});
  EXPECT_EQ(cuts.take(Position{200})->reason, policy::CutReason::kAnchor);
  EXPECT_EQ(cuts.next(), Position{299});
}

TEST_F(CutPlannerTest, CutsWhereAPromptPartsFromWhatIsKnown) {
  const PrefillCuts cuts = plan(counting(300), 0, {.end = Position{120}, .points = {}, .runs = {}});
  EXPECT_EQ(cuts.next(), Position{120});
}

TEST_F(CutPlannerTest, ARequestThatOnlyDecodesOnHasNone) { EXPECT_FALSE(plan(counting(300), 300).next().has_value()); }

// ---- on the scheduler ----

std::string filler(std::size_t count, char letter) {
  std::string text(count, letter);
  for (std::size_t i = 0; i < count; i += 40) text[i] = '\n';
  return text;
}

Reply ask_text(World& world, const std::string& text, const policy::PromptMarkers& markers = {}) {
  Job job;
  job.id = "test";
  job.kind = "chat";
  job.prompt = tokens(text);
  job.sampling = World::greedy();
  job.max_tokens = 4;
  job.client = kClient;
  job.markers = markers;
  auto sink = std::make_shared<CollectingSink>();
  auto future = sink->future();
  const Tokens expected = world.expected(job.prompt, 4);
  EXPECT_TRUE(world.scheduler.submit(std::move(job), sink).ok());
  Reply reply = future.get();
  EXPECT_EQ(reply.tokens, expected);
  return reply;
}

WorldOptions options_with_texts() {
  WorldOptions options;
  options.fake.memory_class = MemoryClass::kHybrid;
  options.fake.cells = 16384;
  options.fake.sequences = 4;
  options.fake.first_sampled_token = 200;
  options.scheduler.likely_texts = &texts_of_words();
  return options;
}

TEST(LikelyCutFinderOnTheScheduler, ASessionAfterACommitPaysFromTheChangedLineOn) {
  World world(options_with_texts());
  world.start();
  const std::string head = filler(600, 'a') + "\nRecent commits:\n";
  ask_text(world, head + "ec29d22 First\n" + filler(100, 'b'));
  const std::string changed = "d74744f Second\n" + filler(100, 'b');
  EXPECT_LE(ask_text(world, head + changed).stats.prefilled_tokens, changed.size() + 32);
}

TEST(LikelyCutFinderOnTheScheduler, ALineThatDifferedOnceIsCutInTheNextConversation) {
  World world(options_with_texts());
  world.start();
  const auto session = [](char who, char file) {
    return filler(600, who) + "\nOpen files: " + std::string(60, file) + filler(200, 'z');
  };
  ask_text(world, session('a', 'p'));
  EXPECT_GT(ask_text(world, session('a', 'q')).stats.prefilled_tokens, 600U) << "nobody knew";
  ask_text(world, session('b', 'p'));
  EXPECT_LE(ask_text(world, session('b', 'q')).stats.prefilled_tokens, 260U + 32U);
}

TEST(LikelyCutFinderOnTheScheduler, AToolsResultThatChangedIsReadFromNearTheChangeOn) {
  for (const bool fine : {true, false}) {
    WorldOptions with = options_with_texts();
    with.scheduler.fine_points = fine;
    World world(with);
    world.start();
    const std::string head = filler(300, 'a');
    policy::PromptMarkers markers;
    markers.user_turns = {Position{100}};
    markers.assistant_turns = {Position{300}};
    ask_text(world, head + filler(400, 'c'), markers);
    const std::size_t prefilled =
        ask_text(world, head + filler(250, 'c') + filler(150, 'd'), markers).stats.prefilled_tokens;
    EXPECT_EQ(prefilled <= 150 + 400 / 8, fine) << prefilled;
  }
}

}  // namespace
}  // namespace kvkeep::server
