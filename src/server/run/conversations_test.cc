// Conversations as agents make them, on models that can go on only from points: which points exist, under which names,
// and that state that was computed once is found again.

#include <gtest/gtest.h>
#include <spdlog/spdlog.h>

#include <set>

#include "server/run/history_talk_fixture.h"

namespace kvkeep::server {
namespace {

using engine::MemoryClass;

class Conversations : public testing::TestWithParam<MemoryClass> {
 protected:
  void SetUp() override { spdlog::set_level(spdlog::level::warn); }
  void TearDown() override { spdlog::set_level(spdlog::level::info); }

  HistoryWorld::Options options() const {
    HistoryWorld::Options options;
    options.fake.memory_class = GetParam();
    options.fake.cells = 8192;
    options.fake.sequences = 4;
    options.fake.first_sampled_token = kFirstTextToken;
    options.scheduler.parallel = 2;
    return options;
  }
  format::PartKind kind() const {
    return GetParam() == MemoryClass::kOpaque ? format::PartKind::kWhole : format::PartKind::kPoint;
  }
  // The file of the point after the first `at` tokens.
  std::string file_at(const HistoryWorld& world, const Tokens& tokens, std::size_t at) const {
    PrefixHasher hasher(world.engine->description().fingerprint);
    hasher.append(TokenSpan(tokens).first(at));
    const Position end = Position{} + at;
    return format::file_name({end, end, hasher.current(), hasher.current(), kind()});
  }
  // The names of all points on disk.
  std::set<std::string> point_files(HistoryWorld& world) const {
    world.writer.run_all();
    std::set<std::string> names;
    for (const std::string& path : world.segment_paths(kind())) names.insert(path.substr(path.rfind('/') + 1));
    return names;
  }
  std::set<std::string> added(HistoryWorld& world, const std::set<std::string>& before) const {
    std::set<std::string> files = point_files(world);
    for (const std::string& name : before) files.erase(name);
    return files;
  }
  // Returns the reply, and checks that it is right.
  Reply answer(HistoryWorld& world, const Talk& talk) const {
    const Ask asked = talk.ask(kReply);
    const std::vector<Reply> replies = world.ask({asked});
    EXPECT_EQ(replies.size(), 1U);
    if (replies.empty()) return {};
    EXPECT_EQ(replies.front().finish, Finish::kLength);
    EXPECT_EQ(replies.front().tokens, world.expected(asked));
    return replies.front();
  }
  Talk fresh(const Tokens& system) {
    Talk talk;
    talk.system = system;
    talk.user(text_.next(40));
    return talk;
  }

  static constexpr std::size_t kReply = 12;
  TextSource text_;
};

TEST_P(Conversations, ASystemPromptHasOneFileWhateverTheUserWrites) {
  const Tokens system = text_.next(300);
  HistoryWorld shared(options());
  std::set<std::string> in_all;
  for (int request = 0; request < 4; ++request) {
    const Talk talk = fresh(system);
    HistoryWorld alone(options());  // a server that never saw the other conversations
    answer(alone, talk);
    const std::set<std::string> files = point_files(alone);
    EXPECT_TRUE(files.contains(file_at(alone, talk.ask(1).prompt, system.size())));
    if (request == 0) in_all = files;
    std::erase_if(in_all, [&](const std::string& name) { return !files.contains(name); });
    answer(shared, talk);
    shared.restart();
  }
  const std::string file = file_at(shared, system, system.size());
  EXPECT_EQ(in_all, std::set<std::string>{file}) << "nothing else is the same in all requests";
  // Their common opening is one token longer: where they parted twice, a point takes the anchor's place.
  const std::string opening = file_at(shared, fresh(system).ask(1).prompt, system.size() + 1);
  EXPECT_TRUE(point_files(shared).contains(file) || point_files(shared).contains(opening));
}

TEST_P(Conversations, AfterAnEarlyBlockChangedTheSecondFreshSessionIsFastAgain) {
  HistoryWorld world(options());
  const Tokens stable = text_.next(150);
  for (int version = 0; version < 4; ++version) {
    const Tokens system = stable + text_.next(100);  // such as a date, or a list of files that changed
    const Reply first = answer(world, fresh(system));
    // The first change finds the place where prompts part, later ones use it.
    EXPECT_EQ(first.stats.cached_tokens, version < 2 ? 0U : stable.size()) << "version " << version;
    if (version % 2 == 1) world.restart();
    const Reply second = answer(world, fresh(system));
    EXPECT_EQ(second.stats.cached_tokens, system.size()) << "version " << version;
    EXPECT_EQ(second.stats.prefilled_tokens, 42U) << "the user's text and two markers";
  }
}

TEST_P(Conversations, AHitAtOrPastTheAnchorStoresNoOtherButWhereTheOpeningEnds) {
  HistoryWorld world(options());
  const Tokens system = text_.next(200);
  answer(world, fresh(system));
  std::set<std::string> before = point_files(world);
  Talk talk = fresh(system);
  for (int turn = 0; turn < 3; ++turn) {
    const Reply reply = answer(world, talk);
    EXPECT_GE(reply.stats.cached_tokens, system.size());
    const Tokens prompt = talk.ask(1).prompt;
    const Tokens all = prompt + reply.tokens;
    std::set<std::string> stored = added(world, before);
    if (turn == 0) stored.erase(file_at(world, all, system.size() + 1));
    EXPECT_EQ(stored,
              (std::set<std::string>{file_at(world, all, prompt.size() - 1), file_at(world, all, all.size() - 1)}))
        << "only the turn and the end of the reply";
    before = point_files(world);
    talk.assistant(reply.tokens);
    talk.user(text_.next(30));
  }
}

TEST_P(Conversations, AChangeInTheMiddleOfAToolLoopCostsWhatFollowsItOnce) {
  HistoryWorld world(options());
  Talk talk = fresh(text_.next(120));
  std::vector<std::size_t> begins;  // the positions of the tool results
  for (int call = 0; call < 5; ++call) {
    talk.assistant(answer(world, talk).tokens);
    begins.push_back(talk.size());
    talk.user(text_.next(60));
  }
  answer(world, talk);
  for (const bool restarted : {false, true}) {
    if (restarted) world.restart();
    Talk changed = talk;
    changed.change(2 * 2, 20, text_.next(5));  // the second tool result
    const Reply reply = answer(world, changed);
    EXPECT_EQ(reply.stats.cached_tokens, begins[1] - 1) << "all that was decoded before that result";
    changed.assistant(reply.tokens);
    changed.user(text_.next(10));
    EXPECT_EQ(answer(world, changed).stats.prefilled_tokens, 13U) << "the last reply token, markers and the new text";
  }
}

TEST_P(Conversations, AnIdenticalResendPrefillsOneTokenAndStoresNothing) {
  HistoryWorld world(options());
  const Talk talk = fresh(text_.next(200));
  answer(world, talk);
  const std::set<std::string> files = point_files(world);
  for (int resend = 0; resend < 4; ++resend) {
    if (resend == 2) world.restart();
    const Reply reply = answer(world, talk);
    EXPECT_EQ(reply.stats.prefilled_tokens, 1U) << "resend " << resend;
    EXPECT_EQ(added(world, files), std::set<std::string>{});
  }
}

// A template that drops thinking renders all answers since the last user message anew when the next user message comes.
TEST_P(Conversations, DroppedThinkingCostsTheToolLoopOnce) {
  HistoryWorld world(options());
  Talk talk = fresh(text_.next(160));
  std::size_t kept = 0;  // the template never changes it again: up to the generation prompt of the first answer
  for (int task = 0; task < 3; ++task) {
    const std::size_t first_answer = talk.messages.size();
    kept = talk.size();
    for (int call = 0; call < 3; ++call) {
      const Reply reply = answer(world, talk);
      if (call > 0) {
        EXPECT_EQ(reply.stats.prefilled_tokens, 28U) << "one tool result, markers and a token";
      }
      talk.assistant(reply.tokens);
      if (call < 2) talk.user(text_.next(25));
    }
    for (std::size_t i = first_answer; i < talk.messages.size(); ++i) {
      Message& message = talk.messages[i];
      if (!message.user) message.text.erase(message.text.begin(), message.text.begin() + 5);
    }
    talk.user(text_.next(30));
    if (task == 1) world.restart();
    const Reply reply = answer(world, talk);
    EXPECT_EQ(reply.stats.cached_tokens, kept) << "task " << task;
    EXPECT_EQ(answer(world, talk).stats.prefilled_tokens, 1U);
  }
}

// As after a decode call that failed: captured state is restored, the rest is prefilled with all its points.
TEST_P(Conversations, ARequestThatWasInterruptedLeavesAllItsPoints) {
  for (const std::uint32_t call : {1U, 2U, 3U}) {
    HistoryWorld world(options());
    Talk talk = fresh(text_.next(100));
    talk.user(text_.next(50));
    engine::fake::FakeFaults faults;
    faults.fail_decode = call;
    world.engine->fake.set_faults(faults);
    answer(world, talk);
    EXPECT_EQ(answer(world, talk).stats.prefilled_tokens, 1U) << "decode call " << call;
    EXPECT_GE(answer(world, fresh(talk.system)).stats.cached_tokens, talk.system.size()) << "decode call " << call;
  }
}

// A client must not see progress go back either.
TEST_P(Conversations, ProgressNeverGoesBack) {
  HistoryWorld::Options nothing_kept = options();
  nothing_kept.disk = false;
  nothing_kept.ram = ByteCount{};
  HistoryWorld world(nothing_kept);
  Talk talk = fresh(text_.next(100));
  engine::fake::FakeFaults faults;
  faults.fail_decode = 3;
  world.engine->fake.set_faults(faults);
  EXPECT_EQ(answer(world, talk).stats.cached_tokens, 0U);  // the sink watches
}

INSTANTIATE_TEST_SUITE_P(All, Conversations,
                         testing::Values(MemoryClass::kHybrid, MemoryClass::kRecurrent, MemoryClass::kOpaque),
                         [](const auto& each) { return std::string(to_string(each.param)); });

}  // namespace
}  // namespace kvkeep::server
