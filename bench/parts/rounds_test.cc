// Figures depend on the machine; that rounds were measured, and that each load is the one it says, does not.

#include <gtest/gtest.h>

#include "bench/parts/parts.h"
#include "testing/models/test_model.h"

namespace kvkeep::bench {
namespace {

RoundOptions few_rounds() {
  RoundOptions options{.model = engine::llama::tiny_options(), .running = 4, .waiting = 30};
  options.rounds = 20;
  options.repetitions = 2;
  return options;
}

TEST(Rounds, AreMeasuredUnderEachLoad) {
  std::vector<std::size_t> steps;
  const auto figures = measure_rounds(few_rounds(), os::real_clock(), [&](std::size_t done, std::size_t of) {
    steps.push_back(done);
    EXPECT_EQ(of, 6U);
    return true;
  });
  ASSERT_TRUE(figures) << figures.error().message;
  ASSERT_EQ(figures->size(), 3U);
  for (const PartFigures& part : *figures) {
    EXPECT_TRUE(part.name.starts_with("CPU time of a round of 4 requests besides the engine, 30 waiting "))
        << part.name;
    EXPECT_GT(part.low_quartile, 0) << part.name;
    EXPECT_EQ(part.samples, 2U);
  }
  EXPECT_EQ(figures->front().goal, "<= 0.01");
  EXPECT_EQ(figures->back().goal, "") << "a start and an end are more than scheduling";
  EXPECT_EQ(steps, (std::vector<std::size_t>{1, 2, 3, 4, 5, 6}));
}

TEST(Rounds, EndWhereTheyAreTold) {
  const auto figures =
      measure_rounds(few_rounds(), os::real_clock(), [](std::size_t done, std::size_t) { return done < 2; });
  ASSERT_FALSE(figures);
  EXPECT_EQ(figures.error().kind, ErrorKind::kAborted);
}

TEST(Rounds, SayWhyAModelCannotBeMeasured) {
  RoundOptions missing = few_rounds();
  missing.model.path = "/nonexistent/model.gguf";
  const auto figures = measure_rounds(missing, os::real_clock(), [](std::size_t, std::size_t) { return true; });
  ASSERT_FALSE(figures);
  EXPECT_EQ(figures.error().kind, ErrorKind::kNotFound);
}

}  // namespace
}  // namespace kvkeep::bench
