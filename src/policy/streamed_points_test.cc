// Points along a reply: a table, then every length of a reply against a naive twin and the law of the header, and
// mutants that the law must catch.

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <string>
#include <vector>

#include "policy/cut.h"
#include "policy/numbers_fixture.h"

namespace kvkeep::policy::streamed_points {
namespace {

std::string text(const std::vector<Position>& positions) {
  std::string out;
  for (const Position position : positions) out += std::to_string(position.value()) + " ";
  return out;
}

TEST(StreamedPoints, LieTheWiderApartTheOlderTheyAre) {
  const std::vector<std::pair<std::string, std::string>> steps{
      {"100 ", ""},
      {"100 200 ", ""},
      {"200 300 ", "100 "},
      {"200 300 400 ", ""},
      {"200 400 500 ", "300 "},
      {"400 500 600 ", "200 "},
      {"400 600 700 ", "500 "},
      {"400 600 700 800 ", ""},
      {"400 600 800 900 ", "700 "},
      {"400 800 900 1000 ", "600 "},
      {"400 800 1000 1100 ", "900 "},
      {"800 1000 1100 1200 ", "400 "},
  };
  StreamedPoints points;
  for (std::size_t i = 0; i < steps.size(); ++i) {
    const std::vector<Position> left = points.add(at((i + 1) * 100), 4);
    EXPECT_EQ(text(points.held()), steps[i].first);
    EXPECT_EQ(text(left), steps[i].second);
  }
}

TEST(StreamedPoints, WhenTheReplyIsWholeNoneStays) {
  StreamedPoints points;
  for (std::size_t i = 1; i <= 8; ++i) points.add(at(i), 4);
  EXPECT_EQ(text(points.end(false)), "4 6 7 8 ");
  EXPECT_TRUE(points.held().empty());
  EXPECT_EQ(text(points.end(false)), "");
}

TEST(StreamedPoints, TheLastTwoStayForAClientThatLeft) {
  StreamedPoints points;
  EXPECT_EQ(text(points.end(true)), "");
  points.add(at(1), 4);
  EXPECT_EQ(text(points.end(true)), "");
  for (std::size_t i = 1; i <= 8; ++i) points.add(at(i), 4);
  EXPECT_EQ(text(points.end(true)), "4 6 ");
  EXPECT_EQ(text(points.add(at(9), 4)), "") << "another reply begins anew";
}

TEST(StreamedPoints, NoMoreThanAllowedButOne) {
  for (std::size_t most = 0; most < 5; ++most) {
    StreamedPoints points;
    for (std::size_t i = 1; i < 40; ++i) {
      points.add(at(i), most);
      EXPECT_LE(points.held().size(), std::max<std::size_t>(most, 1));
      EXPECT_EQ(points.held().back(), at(i));
    }
  }
}

TEST(StreamedPoints, FitIntoAShareOfMemory) {
  EXPECT_EQ(points_that_fit(mebibytes(8192), 8, mebibytes(150), 4), 4U);
  EXPECT_EQ(points_that_fit(mebibytes(2048), 8, mebibytes(150), 4), 1U);
  EXPECT_EQ(points_that_fit(mebibytes(1024), 8, mebibytes(150), 4), 0U);
  EXPECT_EQ(points_that_fit(ByteCount{}, 8, ByteCount{1}, 4), 0U);
  EXPECT_EQ(points_that_fit(mebibytes(1), 8, ByteCount{}, 4), 4U);
}

using Thin = std::function<std::vector<std::size_t>(std::size_t taken)>;

// Returns the points held after so many were taken, chosen from all of them at once.
std::vector<std::size_t> twin(std::size_t taken) {
  std::vector<std::size_t> held;
  for (std::size_t i = 1; i <= taken; ++i) {
    std::size_t scale = 1;
    while (i % (2 * scale) == 0) scale *= 2;
    if (taken - i < 2 * scale) held.push_back(i);
  }
  return held;
}

std::vector<std::size_t> real(std::size_t taken) {
  StreamedPoints points;
  for (std::size_t i = 1; i <= taken; ++i) points.add(at(i), SIZE_MAX);
  std::vector<std::size_t> held;
  for (const Position position : points.held()) held.push_back(position.value());
  return held;
}

// The header's law for every place that a client may have seen, in strides; and that few are held.
std::string broken_law(const Thin& thin) {
  for (std::size_t taken = 1; taken < 130; ++taken) {
    const std::vector<std::size_t> held = thin(taken);
    if (!std::ranges::is_sorted(held) || (!held.empty() && held.back() > taken)) return "not ascending";
    for (std::size_t unseen = 0; unseen < taken; ++unseen) {
      const std::size_t seen = taken - unseen;
      std::size_t nearest = 0;
      for (const std::size_t point : held) nearest = point <= seen ? point : nearest;
      if (seen - nearest > (unseen < 2 ? 0 : 2 * unseen)) return "nothing near what was seen";
    }
    if (held.size() > 18) return "too many";
  }
  return "";
}

TEST(StreamedPoints, APointIsNearWhereverAClientLeaves) {
  EXPECT_EQ(broken_law(real), "");
  for (std::size_t taken = 0; taken < 130; ++taken) EXPECT_EQ(real(taken), twin(taken)) << taken;
}

TEST(StreamedPoints, TheLawCatchesMutants) {
  const auto without = [](std::function<bool(std::size_t held, std::size_t taken)> drops) {
    return [drops](std::size_t taken) {
      std::vector<std::size_t> held = twin(taken);
      std::erase_if(held, [&](std::size_t point) { return drops(point, taken); });
      return held;
    };
  };
  const std::vector<Thin> mutants{
      without([](std::size_t point, std::size_t taken) { return point == taken; }),
      without([](std::size_t point, std::size_t taken) { return point + 1 == taken; }),
      without([](std::size_t point, std::size_t taken) { return point + 8 < taken; }),
      without([](std::size_t point, std::size_t) { return point % 4 == 0; }),
      [](std::size_t taken) { return std::vector<std::size_t>(1, taken); },
      [](std::size_t taken) { return std::vector<std::size_t>{taken, 1}; },
      [](std::size_t taken) {
        std::vector<std::size_t> all;
        for (std::size_t i = 1; i <= taken; ++i) all.push_back(i);
        return all;
      },
  };
  for (std::size_t i = 0; i < mutants.size(); ++i) EXPECT_NE(broken_law(mutants[i]), "") << "mutant " << i;
}

}  // namespace
}  // namespace kvkeep::policy::streamed_points
