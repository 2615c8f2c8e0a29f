// The command line of `kvkeep doctor`, and its judgements.

#include "doctor.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

namespace kvkeep::cli {
namespace {

using testing::ElementsAre;

std::size_t problems(const std::vector<Finding>& found) {
  return static_cast<std::size_t>(std::ranges::count(found, Severity::kProblem, &Finding::severity));
}
std::size_t notes(const std::vector<Finding>& found) {
  return static_cast<std::size_t>(std::ranges::count(found, Severity::kNote, &Finding::severity));
}

TEST(DoctorFlags, RecordingsAndAServer) {
  const DoctorOptions options =
      parse_doctor({"a.har", "--serve", "serve -m 'a b.gguf' --kv-disk-dir /d", "-", "--no-disk-test"}, {})
          .value()
          .options;
  EXPECT_THAT(options.files, ElementsAre("a.har", "-"));
  ASSERT_TRUE(options.server);
  EXPECT_EQ(options.server->model.path, "a b.gguf");
  EXPECT_EQ(options.tiers.disk_directory, "/d") << "the server's";
  EXPECT_FALSE(options.tests_disk);
  EXPECT_FALSE(options.json);
  EXPECT_TRUE(parse_doctor({"--json"}, {}).value().options.json);
  const auto named = parse_doctor({"--kv-disk-dir", "/e", "--serve", "-m x.gguf --kv-disk-dir /d"}, {}).value();
  EXPECT_EQ(named.options.tiers.disk_directory, "/e");
  EXPECT_FALSE(parse_doctor({}, {}).value().options.server);
  const auto sized = parse_doctor({"--serve", "-m x.gguf --kv-disk-space-mb 200 --kv-disk-reserve-mb 5"}, {}).value();
  EXPECT_EQ(sized.options.tiers.disk_budget, mebibytes(200));
  EXPECT_EQ(sized.options.tiers.disk_reserve, mebibytes(5));
  EXPECT_FALSE(parse_doctor({}, {}).value().options.tiers.disk_budget);
}

TEST(DoctorFlags, ErrorsOfTheServersFlagsSaySo) {
  EXPECT_TRUE(parse_doctor({"--serve", "--no-such-flag"}, {}).error().message.starts_with("--serve: "));
  EXPECT_FALSE(parse_doctor({"--serve", "'open"}, {}).ok());
  EXPECT_FALSE(parse_doctor({"--serve", "serve --help"}, {}).ok());
  EXPECT_TRUE(parse_doctor({"--help"}, {}).value().wants_help);
}

TEST(DoctorChecks, Directories) {
  DirectoryFacts facts{
      .path = "/d", .used = mebibytes(10), .budget = mebibytes(100), .free = mebibytes(500), .reserve = mebibytes(100)};
  EXPECT_EQ(problems(judge_directory(facts)), 0U);
  EXPECT_EQ(notes(judge_directory(facts)), 0U);
  facts.used = mebibytes(95);
  EXPECT_EQ(notes(judge_directory(facts)), 1U);
  facts.budget.reset();
  EXPECT_EQ(notes(judge_directory(facts)), 0U) << "nobody knows the budget";
  EXPECT_TRUE(judge_directory(facts)[0].text.contains("budget not known"));
  facts.budget = mebibytes(100);
  facts.free = mebibytes(99);
  facts.distrusted = 1;
  facts.quarantined = 2;
  facts.foreign_names = 1;
  EXPECT_EQ(problems(judge_directory(facts)), 3U);
  EXPECT_EQ(notes(judge_directory(facts)), 2U);
}

TEST(DoctorChecks, ADiskThatIsSlowerThanPrefill) {
  SpeedFacts facts{.write_mb_per_s = 100, .read_mb_per_s = 100};
  EXPECT_EQ(judge_speed(facts).size(), 1U) << "nothing to compare with";
  facts.models = {{.name = "large", .bytes_per_token = 100'000, .prefill_tokens_per_s = 900},  // loads 1,000 tokens/s
                  {.name = "small", .bytes_per_token = 1'000, .prefill_tokens_per_s = 90'000},
                  {.name = "new", .bytes_per_token = 100'000}};
  EXPECT_EQ(problems(judge_speed(facts)), 0U);
  EXPECT_EQ(judge_speed(facts).size(), 3U) << "each by its own figures, if it has any";
  facts.models[0].prefill_tokens_per_s = 1'100;
  ASSERT_EQ(problems(judge_speed(facts)), 1U);
  EXPECT_TRUE(judge_speed(facts)[1].text.starts_with("large: "));
  facts.from_device = false;
  EXPECT_EQ(notes(judge_speed(facts)), 1U);
}

TEST(DoctorChecks, SettingsThatMakeCachingUseless) {
  const auto judged = [](const std::string& line) {
    return judge_settings(*parse_doctor({"--serve", line}, {}).value().options.server);
  };
  EXPECT_EQ(problems(judged("-m x.gguf")), 0U);
  EXPECT_EQ(notes(judged("-m x.gguf")), 0U);
  EXPECT_EQ(problems(judged("-m x.gguf --no-cache-prompt")), 1U);
  EXPECT_EQ(problems(judged("-m x.gguf --cache-ram 0 --no-kv-disk")), 1U);
  EXPECT_EQ(problems(judged("-m x.gguf --cache-ram 0")), 0U);
  EXPECT_EQ(notes(judged("-m x.gguf --no-kv-disk")), 1U);
  EXPECT_EQ(problems(judged("-m x.gguf --kv-disk-space-mb 100")), 1U);
  EXPECT_EQ(notes(judged("-m x.gguf --replay off --match token --stabilize none")), 3U);
}

// `cache verify` checks the served files only, and plain `cache gc` keeps the quarantine.
TEST(DoctorChecks, TheAdviceForDamagedFilesEndsThem) {
  DirectoryFacts facts{.path = "/d", .free = mebibytes(500), .reserve = mebibytes(100), .quarantined = 1};
  EXPECT_TRUE(judge_directory(facts)[1].text.ends_with("then kvkeep cache gc --all to remove it"));
  facts.quarantined = 2;
  EXPECT_TRUE(judge_directory(facts)[1].text.ends_with("to remove them"));
}

TEST(DoctorChecks, SmallSizesAreNotZero) {
  const auto text_of = [](ByteCount used) {
    return judge_directory({.path = "/d", .used = used, .budget = mebibytes(512), .free = mebibytes(9'000)})[0].text;
  };
  EXPECT_TRUE(text_of(ByteCount{4'096}).starts_with("/d: 1 MiB of 512 MiB used")) << text_of(ByteCount{4'096});
  EXPECT_TRUE(text_of({}).starts_with("/d: 0 MiB of ")) << text_of({});
  EXPECT_TRUE(text_of(mebibytes(3 * 1'024)).starts_with("/d: 3.0 GiB of ")) << text_of(mebibytes(3 * 1'024));
}

TEST(DoctorChecks, WithoutRequestsNothingIsFine) {
  EXPECT_EQ(judge_no_offender(true).severity, Severity::kFine);
  EXPECT_EQ(judge_no_offender(false).severity, Severity::kNote);
}

TEST(DoctorChecks, LinesBeginWithTheirWeight) {
  EXPECT_EQ(finding_line({Severity::kFine, "x"}), "ok    x\n");
  EXPECT_EQ(finding_line({Severity::kNote, "x"}), "note  x\n");
  EXPECT_EQ(finding_line({Severity::kProblem, "x"}), "wrong x\n");
}

}  // namespace
}  // namespace kvkeep::cli
