// Figures depend on the machine; which things they measure does not.

#include "bench/parts/parts.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "testing/models/test_model.h"
#include "testing/sim/sim_clock.h"

namespace kvkeep::bench {
namespace {

PartsOptions options() {
  PartsOptions options;
  options.model = engine::llama::tiny_options();
  options.tokens = 600;
  options.repetitions = 3;
  return options;
}

TEST(Parts, MeasureEachSegmentSizeThatFits) {
  std::vector<std::size_t> steps;
  const auto figures = measure_parts(options(), os::real_clock(), [&](std::size_t done, std::size_t of) {
    steps.push_back(done);
    EXPECT_LE(done, of);
    return true;
  });
  ASSERT_TRUE(figures) << figures.error().message;
  std::vector<std::string> names;
  for (const PartFigures& part : *figures) {
    names.push_back(part.name);
    EXPECT_GT(part.median, 0) << part.name;
    EXPECT_LE(part.low_quartile, part.median);
    EXPECT_LE(part.median, part.high_quartile);
    EXPECT_FALSE(part.goal.empty());
    EXPECT_EQ(part.samples, part.unit == "bytes" ? 1U : 3U);
  }
  ASSERT_EQ(names.size(), 3U + 3U + 3U) << "restore and capture of 64, 256 and 512; lookup and two memories";
  EXPECT_TRUE(names[0].starts_with("restoring 600 tokens ("));
  EXPECT_TRUE(names[0].ends_with(" bytes each) in segments of 64, rate / bare state_seq_set_data"));
  EXPECT_EQ(names[5].substr(0, 45), "engine thread blocked to capture 512 tokens (");
  EXPECT_TRUE(std::ranges::is_sorted(steps));
}

TEST(Parts, MeasureWhatEachClassOfMemoryCaptures) {
  struct Case {
    const char* architecture;
    std::vector<std::string> names;  // their beginnings
  };
  const std::vector<Case> cases{
      {"gemma3",
       {"engine thread blocked to capture the rows of 512 tokens (", "engine thread blocked to capture a window of ",
        "restoring 600 tokens: rows and a window of "}},
      {"qwen35",
       {"engine thread blocked to capture the rows of 512 tokens (",
        "engine thread blocked to capture a point at 600 tokens (",
        "restoring 600 tokens: rows and a point at 600 tokens ("}},
      {"mamba2",
       {"engine thread blocked to capture a point at 600 tokens (", "restoring 600 tokens: a point at 600 tokens ("}},
      {"deepseek4",
       {"engine thread blocked to capture a point at 600 tokens (", "restoring 600 tokens: a point at 600 tokens (",
        "share of bytes that a point at 600 tokens repeats of one at 525, not rewritten"}},
  };
  for (const Case& one : cases) {
    SCOPED_TRACE(one.architecture);
    PartsOptions given = options();
    given.model.path = engine::llama::tiny_model_path(one.architecture);
    const auto figures = measure_parts(given, os::real_clock(), [](std::size_t, std::size_t) { return true; });
    ASSERT_TRUE(figures) << figures.error().message;
    ASSERT_EQ(figures->size(), one.names.size() + 3) << "and the index";
    for (std::size_t i = 0; i < one.names.size(); ++i) {
      EXPECT_TRUE((*figures)[i].name.starts_with(one.names[i])) << (*figures)[i].name;
      EXPECT_GT((*figures)[i].median, 0);
      const bool is_counted = (*figures)[i].unit == "ratio";
      EXPECT_EQ((*figures)[i].samples, is_counted ? 1U : 3U);
      EXPECT_TRUE(!is_counted || (*figures)[i].holds.value_or(false)) << (*figures)[i].median;
    }
  }
}

TEST(Parts, EndWhereTheyAreTold) {
  const auto figures =
      measure_parts(options(), os::real_clock(), [](std::size_t done, std::size_t) { return done < 2; });
  ASSERT_FALSE(figures);
  EXPECT_EQ(figures.error().kind, ErrorKind::kAborted);
}

TEST(Parts, EndInTheMiddleOfThePrefill) {
  std::size_t calls = 0;
  const auto figures = measure_parts(options(), os::real_clock(), [&](std::size_t done, std::size_t) {
    EXPECT_EQ(done, 0U);
    return ++calls < 2;
  });
  ASSERT_FALSE(figures);
  EXPECT_EQ(figures.error().kind, ErrorKind::kAborted);
  EXPECT_EQ(calls, 2U) << "of three batches";
}

TEST(Parts, SayWhyAModelCannotBeMeasured) {
  PartsOptions missing = options();
  missing.model.path = "/nonexistent/model.gguf";
  const auto figures = measure_parts(missing, os::real_clock(), [](std::size_t, std::size_t) { return true; });
  ASSERT_FALSE(figures);
  EXPECT_EQ(figures.error().kind, ErrorKind::kNotFound);
}

TEST(Parts, IndexMemoryMeetsItsGoal) {
  sim::SimClock clock;
  for (const PartFigures& part : measure_index(1, clock)) {
    if (part.unit != "bytes") continue;
    EXPECT_TRUE(part.holds.value_or(false)) << part.name << ": " << part.median;
  }
}

}  // namespace
}  // namespace kvkeep::bench
