// The choice of the next call: tables of situations, then every small view against a naive twin and the laws of the
// header, and mutants that those must catch.

#include "policy/next_call.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <string>
#include <vector>

namespace kvkeep::policy {
namespace {

using Phase = ScheduledRequest::Phase;

constexpr std::size_t kTokens = 20;

ScheduledRequest waiting() { return {.phase = Phase::kWaiting, .tokens = kTokens}; }
ScheduledRequest must_wait() { return {.phase = Phase::kWaiting, .must_wait = true, .tokens = kTokens}; }
ScheduledRequest refused() { return {.phase = Phase::kWaiting, .ended = true, .tokens = kTokens}; }
ScheduledRequest loading(std::size_t held) { return {.phase = Phase::kLoading, .tokens = kTokens, .held = held}; }
ScheduledRequest prefilling(std::size_t held) { return {.phase = Phase::kPrefill, .tokens = kTokens, .held = held}; }
ScheduledRequest cut_at(std::size_t held, std::uint32_t cut) {
  ScheduledRequest request = prefilling(held);
  request.next_cut = Position{cut};
  return request;
}
ScheduledRequest decoding() { return {.phase = Phase::kDecode, .tokens = kTokens + 1, .held = kTokens}; }
std::vector<ScheduledRequest> queue_of(std::size_t count) {
  std::vector<ScheduledRequest> queue;
  while (queue.size() < count) queue.push_back(waiting());
  return queue;
}
ScheduledRequest answered() { return {.phase = Phase::kDecode, .ended = true, .tokens = kTokens + 1}; }

std::string text(const std::optional<NextStart>& start) {
  if (!start) return "none";
  return (start->from_queue ? "queue " : "") + std::to_string(start->at);
}
std::string text(const std::optional<NextSlice>& slice) {
  return slice ? std::to_string(slice->tokens) + " of " + std::to_string(slice->at) : "none";
}
std::string text(const std::optional<NextGiver>& giver) {
  if (!giver) return "none";
  return giver->idle ? "idle " + std::to_string(giver->idle->value()) : std::to_string(giver->at);
}

// ---- tables ----

TEST(NextStart, GoesByAdmissionThenByArrival) {
  struct Case {
    std::string name;
    std::vector<ScheduledRequest> admitted;
    std::size_t queued;
    std::string starts;
  };
  const std::vector<Case> cases{
      {"nobody is there", {}, 0, "none"},
      {"the first of the queue", {}, 2, "queue 0"},
      {"beside one that decodes", {decoding()}, 1, "queue 0"},
      {"beside one whose rows are read", {loading(0)}, 1, "queue 0"},
      {"not beside one that prefills", {prefilling(5)}, 1, "none"},
      {"one that gave its cells back comes before the queue", {decoding(), waiting()}, 1, "1"},
      {"the older of two that gave theirs back", {waiting(), waiting()}, 0, "0"},
      {"not beside one that prefills, either", {waiting(), prefilling(0)}, 0, "none"},
      {"nobody overtakes one that must wait", {decoding(), must_wait(), waiting()}, 1, "none"},
      {"one that was refused stands in nobody's way", {refused(), waiting()}, 1, "1"},
      {"as many as may run", {decoding(), decoding(), loading(0)}, 1, "none"},
      {"one that ended keeps its place until the round is over", {answered(), decoding(), decoding()}, 1, "none"},
  };
  for (const Case& each : cases) {
    ScheduleView view{.admitted = each.admitted, .queued = {}, .idle = {}, .most_admitted = 3, .limits = {}};
    view.queued = queue_of(each.queued);
    EXPECT_EQ(text(next_start(view)), each.starts) << each.name;
  }
}

TEST(NextDecode, TakesAllThatFitIntoABatch) {
  ScheduleView view;
  view.admitted = {decoding(), prefilling(3), decoding(), loading(0), decoding()};
  EXPECT_EQ(next_decode(view), (std::vector<std::size_t>{0, 2, 4}));
  view.limits.batch_tokens = 2;
  EXPECT_EQ(next_decode(view), (std::vector<std::size_t>{0, 2}));
}

TEST(NextSlice, EndsWhereTheFirstLimitDoes) {
  const CallLimits limits{
      .batch_tokens = 16, .busy_slice_tokens = 8, .ahead_slice_tokens = 4, .window_slice_tokens = 6};
  ScheduledRequest ahead = prefilling(0);
  ahead.ahead = true;
  ScheduledRequest windowed = prefilling(0);
  windowed.captured_by_window = true;
  const std::vector<std::tuple<std::string, std::vector<ScheduledRequest>, std::string>> cases{
      {"nobody prefills", {decoding(), waiting()}, "none"},
      {"the first one that prefills", {waiting(), prefilling(10), prefilling(0)}, "10 of 1"},
      {"a batch", {prefilling(0)}, "16 of 0"},
      {"less while others decode", {prefilling(0), decoding()}, "8 of 0"},
      {"as long as the round is not over, who ended counts", {answered(), prefilling(0)}, "8 of 1"},
      {"what is computed ahead is interrupted soon", {ahead}, "4 of 0"},
      {"window rows are captured before they slide off", {windowed}, "6 of 0"},
      {"up to a cut", {cut_at(7, 10)}, "3 of 0"},
      {"not beyond the prompt", {prefilling(19)}, "1 of 0"},
  };
  for (const auto& [name, admitted, slice] : cases) {
    const ScheduleView view{.admitted = admitted, .queued = {}, .idle = {}, .most_admitted = 3, .limits = limits};
    EXPECT_EQ(text(next_slice(view)), slice) << name;
  }
}

TEST(NextGiver, IsTheSequenceIdleLongestThenTheYoungestRequest) {
  ScheduleView view;
  view.admitted = {decoding(), decoding(), waiting(), loading(3), loading(0)};
  view.idle = {{SeqId{4}, 200}, {SeqId{6}, 100}, {SeqId{7}, 100}};
  EXPECT_EQ(text(next_giver(view, 0)), "idle 6");
  view.idle.clear();
  EXPECT_EQ(text(next_giver(view, 0)), "3") << "one without cells has none to give";
  view.admitted.resize(3);
  EXPECT_EQ(text(next_giver(view, 0)), "1");
  EXPECT_EQ(text(next_giver(view, 1)), "none") << "the other one is older";
}

TEST(AheadSlice, LastsAsLongAsAsked) {
  EXPECT_EQ(ahead_slice(2000, 100), 200U);
  EXPECT_EQ(ahead_slice(100, 100), kLeastAheadTokens);
  EXPECT_EQ(ahead_slice(0, 100), kLeastAheadTokens) << "no rate is known yet";
}

// ---- every small view ----

struct Order {
  std::function<std::optional<NextStart>(const ScheduleView&)> start = next_start;
  std::function<std::vector<std::size_t>(const ScheduleView&)> decode = next_decode;
  std::function<std::optional<NextSlice>(const ScheduleView&)> slice = next_slice;
  std::function<std::optional<NextGiver>(const ScheduleView&, std::size_t)> giver = next_giver;
};

// The rules, each spelt out over everything that there is.
struct ScheduleTwin {
  const ScheduleView& view;

  std::vector<std::size_t> in(Phase phase) const {
    std::vector<std::size_t> found;
    for (std::size_t i = 0; i < view.admitted.size(); ++i) {
      if (view.admitted[i].phase == phase) found.push_back(i);
    }
    return found;
  }
  std::optional<NextStart> start() const {
    std::vector<NextStart> candidates;
    for (const std::size_t at : in(Phase::kWaiting)) {
      if (!view.admitted[at].ended) candidates.push_back({.from_queue = false, .at = at});
    }
    const bool place = view.admitted.size() < view.most_admitted;
    for (std::size_t at = 0; place && at < view.queued.size(); ++at)
      candidates.push_back({.from_queue = true, .at = at});
    if (candidates.empty() || !in(Phase::kPrefill).empty()) return std::nullopt;
    const NextStart first = candidates.front();
    if (!first.from_queue && view.admitted[first.at].must_wait) return std::nullopt;
    return first;
  }
  std::vector<std::size_t> decode() const {
    std::vector<std::size_t> members = in(Phase::kDecode);
    members.resize(std::min(members.size(), view.limits.batch_tokens));
    return members;
  }
  std::optional<NextSlice> slice() const {
    if (in(Phase::kPrefill).empty()) return std::nullopt;
    const std::size_t at = in(Phase::kPrefill).front();
    const ScheduledRequest& request = view.admitted[at];
    // One token more is one too many for a request.
    for (std::size_t tokens = 1;; ++tokens) {
      const std::size_t end = request.held + tokens;
      const bool most = tokens == view.limits.batch_tokens || end == request.tokens ||
                        (!in(Phase::kDecode).empty() && tokens == view.limits.busy_slice_tokens) ||
                        (request.ahead && tokens == view.limits.ahead_slice_tokens) ||
                        (request.captured_by_window && tokens == view.limits.window_slice_tokens) ||
                        (request.next_cut && end == request.next_cut->value());
      if (most) return NextSlice{.at = at, .tokens = tokens};
    }
  }
  std::optional<NextGiver> giver(std::size_t needy) const {
    std::optional<NextGiver> found;
    for (std::size_t at = needy + 1; at < view.admitted.size(); ++at) {
      if (view.admitted[at].held > 0) found = NextGiver{.idle = std::nullopt, .at = at};
    }
    std::optional<std::int64_t> last_used_ns;
    for (const IdleSequence& idle : view.idle) {
      if (last_used_ns && *last_used_ns <= idle.last_used_ns) continue;
      last_used_ns = idle.last_used_ns;
      found = NextGiver{.idle = idle.seq, .at = 0};
    }
    return found;
  }
};

// Calls `see` with every view of at most three admitted requests, two queued ones and two idle sequences.
void for_each_view(const std::function<void(const ScheduleView&)>& see) {
  ScheduledRequest ahead = prefilling(0);
  ahead.ahead = true;
  ScheduledRequest windowed = cut_at(2, 15);
  windowed.captured_by_window = true;
  const std::vector<ScheduledRequest> kinds{waiting(),  must_wait(),   refused(),     loading(0),
                                            loading(5), prefilling(0), prefilling(8), cut_at(8, 10),
                                            ahead,      windowed,      decoding(),    answered()};
  const std::vector<std::vector<IdleSequence>> idles{
      {}, {{SeqId{3}, 7}}, {{SeqId{3}, 7}, {SeqId{4}, 7}}, {{SeqId{3}, 7}, {SeqId{4}, 6}}};
  const CallLimits limits{
      .batch_tokens = 16, .busy_slice_tokens = 8, .ahead_slice_tokens = 4, .window_slice_tokens = 6};
  ScheduleView view{.admitted = {}, .queued = {}, .idle = {}, .most_admitted = 3, .limits = limits};
  const std::function<void()> grow = [&] {
    for (std::size_t queued = 0; queued <= 2; ++queued) {
      view.queued = queue_of(queued);
      for (const auto& idle : idles) {
        view.idle = idle;
        for (view.limits.batch_tokens = 2; view.limits.batch_tokens <= 16; view.limits.batch_tokens += 14) see(view);
      }
    }
    if (view.admitted.size() == view.most_admitted) return;
    for (const ScheduledRequest& kind : kinds) {
      view.admitted.push_back(kind);
      grow();
      view.admitted.pop_back();
    }
  };
  grow();
}

// How many views an order is wrong in.
std::size_t complaints(const Order& order) {
  std::size_t wrong = 0;
  for_each_view([&](const ScheduleView& view) {
    const ScheduleTwin twin{view};
    bool right =
        order.start(view) == twin.start() && order.decode(view) == twin.decode() && order.slice(view) == twin.slice();
    for (std::size_t needy = 0; needy < view.admitted.size(); ++needy) {
      right = right && order.giver(view, needy) == twin.giver(needy);
    }
    wrong += right ? 0 : 1;
  });
  return wrong;
}

TEST(NextCall, AgreesWithTheTwinOnEverySmallView) { EXPECT_EQ(complaints({}), 0U); }

// Somebody always gets on, unless all that is left waits for a disk or for room.
TEST(NextCall, SomeRequestAlwaysGoesOn) {
  for_each_view([](const ScheduleView& view) {
    const bool called = next_start(view) || !next_decode(view).empty() || next_slice(view);
    const auto waits = [](const ScheduledRequest& request) {
      return request.ended || request.must_wait || request.phase == Phase::kLoading;
    };
    const bool all_wait = std::ranges::all_of(view.admitted, waits);
    const bool blocked = std::ranges::any_of(view.admitted, &ScheduledRequest::must_wait);
    const bool full = view.admitted.size() == view.most_admitted;
    ASSERT_TRUE(called || (all_wait && (view.queued.empty() || blocked || full)) || blocked);
  });
}

// Requests that come start in the order in which they came, whatever room there is for each.
TEST(NextCall, NoRequestOvertakesAnother) {
  for (std::size_t refusals = 0; refusals < 16; ++refusals) {
    ScheduleView view{.admitted = {}, .queued = {}, .idle = {}, .most_admitted = 4, .limits = {}};
    for (std::size_t number = 1; number <= 4; ++number) view.queued.push_back({.tokens = number});
    std::vector<std::size_t> started;
    std::size_t tries = refusals;  // a bit for each request: the first look finds no room
    for (int round = 0; round < 16; ++round) {
      for (ScheduledRequest& request : view.admitted) request.must_wait = false;
      while (const auto next = next_start(view)) {
        if (next->from_queue) {
          view.admitted.push_back(view.queued.front());
          view.queued.erase(view.queued.begin());
        }
        ScheduledRequest& request = next->from_queue ? view.admitted.back() : view.admitted[next->at];
        const std::size_t bit = std::size_t{1} << (request.tokens - 1);
        request.must_wait = (tries & bit) != 0;
        tries &= ~bit;
        if (request.must_wait) continue;
        request.phase = Phase::kDecode;
        started.push_back(request.tokens);
      }
    }
    EXPECT_EQ(started, (std::vector<std::size_t>{1, 2, 3, 4})) << refusals;
  }
}

// ---- mutants ----

TEST(NextCallMutants, AreCaught) {
  const auto with = [](const ScheduleView& view, const std::function<void(ScheduleView&)>& change) {
    ScheduleView changed = view;
    change(changed);
    return changed;
  };
  const auto forget_waits = [](ScheduleView& view) {
    for (ScheduledRequest& request : view.admitted) request.must_wait = false;
  };
  std::vector<std::pair<std::string, Order>> mutants(7);
  mutants[0].first = "starts beside one that prefills";
  mutants[0].second.start = [&](const ScheduleView& view) {
    return next_start(with(view, [](ScheduleView& changed) {
      for (ScheduledRequest& request : changed.admitted) {
        if (request.phase == Phase::kPrefill) request.phase = Phase::kDecode;
      }
    }));
  };
  mutants[1].first = "looks again though nothing changed";
  mutants[1].second.start = [&](const ScheduleView& view) { return next_start(with(view, forget_waits)); };
  mutants[2].first = "admits one too many";
  mutants[2].second.start = [&](const ScheduleView& view) {
    return next_start(with(view, [](ScheduleView& changed) { ++changed.most_admitted; }));
  };
  mutants[3].first = "decodes more than a batch takes";
  mutants[3].second.decode = [&](const ScheduleView& view) {
    return next_decode(with(view, [](ScheduleView& changed) { ++changed.limits.batch_tokens; }));
  };
  mutants[4].first = "prefills over a cut";
  mutants[4].second.slice = [&](const ScheduleView& view) {
    return next_slice(with(view, [](ScheduleView& changed) {
      for (ScheduledRequest& request : changed.admitted) request.next_cut.reset();
    }));
  };
  mutants[5].first = "takes cells from older requests";
  mutants[5].second.giver = [](const ScheduleView& view, std::size_t) { return next_giver(view, 0); };
  mutants[6].first = "sets requests aside though sequences lie idle";
  mutants[6].second.giver = [&](const ScheduleView& view, std::size_t needy) {
    const auto found = next_giver(with(view, [](ScheduleView& changed) { changed.idle.clear(); }), needy);
    return found ? found : next_giver(view, needy);
  };
  for (const auto& [name, order] : mutants) EXPECT_GT(complaints(order), 0U) << name;
}

}  // namespace
}  // namespace kvkeep::policy
