#include "bench/sessions/overlap.h"

#include <gtest/gtest.h>

namespace kvkeep::bench {
namespace {

using Places = std::vector<std::size_t>;

// A request whose conversation is one user message per letter.
RecordedRequest asked(const std::string& letters, std::uint32_t in_flight) {
  RecordedRequest out;
  out.method = "POST";
  out.path = "/v1/chat/completions";
  out.in_flight = in_flight;
  out.body["messages"] = nlohmann::ordered_json::array();
  for (const char letter : letters)
    out.body["messages"].push_back({{"role", "user"}, {"content", std::string(1, letter)}});
  return out;
}

std::vector<Places> ended(std::vector<RecordedRequest> requests) {
  return ended_before({.name = "", .client = "", .requests = std::move(requests)});
}

TEST(Overlap, OfOneRequestAfterAnotherIsNone) {
  EXPECT_EQ(ended({asked("a", 1), asked("b", 1), asked("c", 1)}), (std::vector<Places>{{}, {0}, {1}}));
}

TEST(Overlap, LastsUntilFewerAreUnderWay) {
  EXPECT_EQ(ended({asked("a", 1), asked("b", 2), asked("c", 3), asked("d", 2), asked("e", 1)}),
            (std::vector<Places>{{}, {}, {}, {0, 1}, {2, 3}}));
}

TEST(Overlap, EndsForAConversationThatGoesOn) {
  // b's second turn is sent while c, which began later than b, is under way.
  EXPECT_EQ(ended({asked("c", 1), asked("b", 2), asked("bb", 2)}), (std::vector<Places>{{}, {}, {1}}));
  // Even if more are reported to be under way than can be.
  EXPECT_EQ(ended({asked("b", 1), asked("bb", 9)}), (std::vector<Places>{{}, {0}}));
  EXPECT_EQ(ended({asked("b", 1), asked("b", 2)}), (std::vector<Places>{{}, {}})) << "the same twice at once";
}

TEST(Overlap, OfOtherRequestsIsCountedLikeAny) {
  RecordedRequest probe;
  probe.method = "GET";
  probe.path = "/v1/models";
  EXPECT_EQ(ended({probe, probe, asked("a", 1)}), (std::vector<Places>{{}, {0}, {1}}));
}

}  // namespace
}  // namespace kvkeep::bench
