#include "server/trace/trace_file.h"

#include <filesystem>
#include <sstream>

#include "server/trace/trace_test_fixture.h"
#include "testing/sim/sim_executor.h"
#include "testing/sim/temporary_directory.h"

namespace kvkeep::server {
namespace {

class TraceLines : public testing::Test {
 protected:
  TraceFile make(TraceLimits limits = {}, bool private_text = false) {
    return TraceFile(os::AppendFile::open(path_).value(), std::make_shared<NumberedVocabulary>(), executor_,
                     private_text, limits);
  }
  static RequestTrace named(const std::string& id) {
    RequestTrace trace;
    trace.id = id;
    return trace;
  }
  std::vector<std::string> ids() const {
    std::vector<std::string> found;
    std::istringstream lines(text_of(path_));
    for (std::string line; std::getline(lines, line);) found.push_back(Json::parse(line)["id"]);
    return found;
  }
  sim::TemporaryDirectory directory_;
  std::string path_ = directory_.path() + "/trace.jsonl";
  sim::SimExecutor executor_;
};

TEST_F(TraceLines, OnePerRequestInOrderOnceTheExecutorRuns) {
  TraceFile file = make();
  for (const char* id : {"a", "b", "c"}) file.on_request(named(id));
  EXPECT_EQ(text_of(path_), "") << "written on the caller's thread";
  executor_.run_all();
  EXPECT_EQ(ids(), (std::vector<std::string>{"a", "b", "c"}));
}

TEST_F(TraceLines, TextsAreInThemOnlyIfPrivateTextIsWanted) {
  RequestTrace trace = named("a");
  trace.explanation.difference = Difference{Position{3}, Position{2}, {1, 2}, {1, 777}, true};
  auto found = std::make_shared<FoundBreak>();
  found->found.kind = explain::BreakKind::kVolatileText;
  found->found.differs = true;
  found->texts = {.before = "says", .here = "own codename", .there = "other codename", .shows_there = true};
  trace.found = found;
  for (const bool wanted : {false, true}) {
    path_ = directory_.path() + (wanted ? "/private.jsonl" : "/plain.jsonl");
    TraceFile file = make({}, wanted);
    file.on_request(trace);
    executor_.run_all();
    const std::string line = text_of(path_);
    const Json json = Json::parse(line);
    EXPECT_EQ(json["first_difference"]["at"], 3);
    EXPECT_EQ(json["cache_break"]["kind"], "volatile-text");
    for (const char* text : {"own codename", "other codename", "t777", "777"}) {
      EXPECT_EQ(line.contains(text), wanted) << text;
    }
    for (const char* side : {"prompt", "cached"}) EXPECT_EQ(json["first_difference"][side].is_null(), !wanted) << side;
  }
}

TEST_F(TraceLines, AuditsAreAmongThemAndCountedLikeThem) {
  TraceFile file = make({.requests = 2});
  file.on_request(named("a"));
  file.on_audit({.outcome = AuditOutcome::kAgreed, .ended_ns = 1'500'000'000});
  file.on_audit({});
  EXPECT_EQ(file.dropped(), 1U);
  executor_.run_all();
  std::istringstream lines(text_of(path_));
  std::string line;
  ASSERT_TRUE(std::getline(lines, line) && std::getline(lines, line));
  EXPECT_EQ(Json::parse(line)["outcome"], "agreed");
  EXPECT_EQ(Json::parse(line)["t"], 1.5);
}

TEST_F(TraceLines, BeyondTheLimitOnRequestsTheyAreDroppedAndCounted) {
  TraceFile file = make({.requests = 2});
  for (const char* id : {"a", "b", "c", "d"}) file.on_request(named(id));
  EXPECT_EQ(file.dropped(), 2U);
  executor_.run_all();
  file.on_request(named("e"));
  executor_.run_all();
  EXPECT_EQ(ids(), (std::vector<std::string>{"a", "b", "e"}));
  EXPECT_EQ(file.dropped(), 2U);
}

TEST_F(TraceLines, BeyondTheLimitOnBytesToo) {
  TraceFile file = make({.bytes = 10'000});
  auto large = std::make_shared<RequestOrigin>();
  large->body = std::string(20'000, 'x');
  RequestTrace one = named("large");
  one.origin = large;
  file.on_request(one);  // by itself it is never too large
  file.on_request(named("b"));
  EXPECT_EQ(file.dropped(), 1U);
  executor_.run_all();
  file.on_request(named("c"));
  executor_.run_all();
  EXPECT_EQ(ids(), (std::vector<std::string>{"large", "c"}));
}

TEST_F(TraceLines, ReopeningMakesTheFileBeforeTheNextLine) {
  TraceFile file = make();
  std::filesystem::remove(path_);
  file.reopen();
  executor_.run_all();
  EXPECT_TRUE(std::filesystem::exists(path_));
  EXPECT_EQ(file.failed(), 0U);
}

TEST_F(TraceLines, AFileThatCannotBeWrittenIsCountedAndTriedAgain) {
  const std::string sub = directory_.path() + "/sub";
  std::filesystem::create_directory(sub);
  path_ = sub + "/trace.jsonl";
  TraceFile file = make();
  std::filesystem::remove_all(sub);
  file.on_request(named("lost"));
  executor_.run_all();
  EXPECT_EQ(file.failed(), 1U);
  std::filesystem::create_directory(sub);
  file.on_request(named("kept"));
  executor_.run_all();
  EXPECT_EQ(ids(), std::vector<std::string>{"kept"});
  EXPECT_EQ(file.failed(), 1U);
}

}  // namespace
}  // namespace kvkeep::server
