// The choice of the next call: tables of situations, then every small view against a naive twin and the laws of the
// header, and mutants that those must catch.

#include "policy/next_call.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <random>
#include <string>
#include <tuple>
#include <vector>

#include "policy/next_call_fixture.h"

namespace kvkeep::policy {
namespace {

// ---- tables ----

TEST(NextStart, GoesByAdmissionThenByArrivalWherePlacesSuffice) {
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
      {"beside one that prefills", {prefilling(5)}, 1, "queue 0"},
      {"one that gave its cells back comes before the queue", {decoding(), waiting()}, 1, "1"},
      {"the older of two that gave theirs back", {waiting(), waiting()}, 0, "0"},
      {"one that must wait lets a younger one start", {decoding(), must_wait(), waiting()}, 1, "2"},
      {"and one of the queue", {decoding(), must_wait()}, 1, "queue 0"},
      {"but not for ever", {decoding(), overtaken(), waiting()}, 1, "none"},
      {"whoever comes after another one that waits", {must_wait(), overtaken()}, 1, "none"},
      {"one that awaits a prefix stands in nobody's way", {prefilling(0), awaiting()}, 1, "queue 0"},
      {"one that was refused stands in nobody's way", {refused(), waiting()}, 1, "1"},
      {"as many as may run", {decoding(), decoding(), loading(0)}, 1, "none"},
      {"one that ended keeps its place until the round is over", {answered(), decoding(), decoding()}, 1, "none"},
  };
  for (const Case& each : cases) {
    const std::vector<QueuedRequest> queue = queue_of(std::vector<std::size_t>(each.queued, kTokens));
    const ScheduleView view{.admitted = each.admitted, .queued = queue, .idle = {}, .most_admitted = 3, .limits = {}};
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
      .batch_tokens = 18, .shared_slice_tokens = 8, .own_slice_tokens = 16, .ahead_slice_tokens = 4};
  ScheduledRequest ahead = prefilling(0);
  ahead.ahead = true;
  const std::vector<std::tuple<std::string, std::vector<ScheduledRequest>, std::string>> cases{
      {"nobody prefills", {decoding(), waiting()}, "none"},
      {"the one that has least to prefill", {waiting(), prefilling(0), prefilling(15)}, "5 of 2"},
      {"the first one of equals", {prefilling(10), prefilling(10)}, "8 of 0"},
      {"long by itself", {prefilling(0)}, "16 of 0"},
      {"long while others wait for it or for room", {prefilling(0), awaiting(), must_wait()}, "16 of 0"},
      {"less while others decode", {prefilling(0), decoding()}, "8 of 0"},
      {"less while others load", {prefilling(0), loading(3)}, "8 of 0"},
      {"as long as the round is not over, who ended counts", {answered(), prefilling(0)}, "8 of 1"},
      {"what is computed ahead is interrupted soon", {ahead}, "4 of 0"},
      {"up to a cut", {cut_at(7, 10)}, "3 of 0"},
      {"not beyond the prompt", {prefilling(19)}, "1 of 0"},
      {"one that was passed often enough", {passed(prefilling(0), kMostPassed), prefilling(15)}, "8 of 0"},
      {"not before", {passed(prefilling(0), kMostPassed - 1), prefilling(15)}, "5 of 1"},
      {"the one that was passed most",
       {passed(prefilling(15), kMostPassed), passed(prefilling(0), kMostPassed + 1)},
       "8 of 1"},
      {"the lowest priority", {prefilling(15), urgent(prefilling(2))}, "8 of 1"},
      {"not before one that was passed often enough",
       {passed(prefilling(0), kMostPassed), urgent(prefilling(2))},
       "8 of 0"},
      {"a session's second request counts twice",
       {of_session(prefilling(14), 7), of_session(decoding(), 7), of_session(prefilling(10), 8)},
       "8 of 2"},
  };
  for (const auto& [name, admitted, slice] : cases) {
    const ScheduleView view{.admitted = admitted, .queued = {}, .idle = {}, .most_admitted = 3, .limits = limits};
    EXPECT_EQ(text(next_slice(view)), slice) << name;
  }
}

TEST(NextRestore, IsOfTheOneThatHasLeastToDo) {
  const auto restoring = [](std::size_t held, std::size_t restores) {
    return ScheduledRequest{.phase = Phase::kRestoring, .tokens = kTokens, .held = held, .restores = restores};
  };
  ScheduledRequest encodes = prefilling(19);
  encodes.encodes = true;
  const std::vector<std::tuple<std::string, std::vector<ScheduledRequest>, std::string>> cases{
      {"nobody restores", {decoding(), prefilling(0)}, "none"},
      {"what is restored takes a tenth of the time", {restoring(0, 10), restoring(0, 19)}, "1"},
      {"the first one of equals", {restoring(0, 19), restoring(0, 19)}, "0"},
      {"before a longer prefill", {prefilling(15), restoring(0, 17)}, "1"},
      {"after a shorter one", {prefilling(17), restoring(0, 10)}, "none"},
      {"not after one that waits for its picture", {encodes, restoring(0, 10)}, "1"},
      {"a restore that was passed often enough", {prefilling(19), passed(restoring(0, 10), kMostPassed)}, "1"},
      {"after a prefill that was", {passed(prefilling(0), kMostPassed), restoring(0, 19)}, "none"},
      {"the lowest priority", {urgent(prefilling(0)), restoring(0, 19)}, "none"},
  };
  for (const auto& [name, admitted, restore] : cases) {
    ScheduleView view{.admitted = admitted, .queued = {}, .idle = {}, .most_admitted = 3, .limits = {}};
    view.limits.restored_token = 0.1;
    const auto found = next_restore(view);
    EXPECT_EQ(found ? std::to_string(*found) : "none", restore) << name;
  }
}

// Carried out as the scheduler does: a restore takes as many turns as it has rows, and leaves no slice in its rounds.
TEST(NextRestore, NeitherItNorAPrefillIsHeldUpForEver) {
  ScheduleView view{.admitted = {}, .queued = {}, .idle = {}, .most_admitted = 3, .limits = {}};
  view.admitted = {prefilling(0), prefilling(0), prefilling(0)};
  std::vector<std::size_t> turns(3);
  for (int round = 0; round < 300; ++round) {
    for (std::size_t at = 0; at < 2; ++at) {  // short restores come all the time, next to a giant
      if (view.admitted[at].phase == Phase::kRestoring && view.admitted[at].restores > 0) continue;
      view.admitted[at] = {.phase = Phase::kRestoring, .tokens = kTokens, .restores = 5, .passed = 0};
    }
    view.admitted[2].tokens = 1'000'000;
    const auto restore = next_restore(view);
    const std::size_t at = restore ? *restore : next_slice(view)->at;
    if (restore) --view.admitted[at].restores;
    if (restore) ++view.admitted[at].held;
    ++turns[at];
    for (std::size_t i = 0; i < 3; ++i) view.admitted[i].passed = i == at ? 0 : view.admitted[i].passed + 1;
  }
  for (const std::size_t had : turns) EXPECT_GE(had, 300 / (kMostPassed + 2) - 1);
}

TEST(NextSlice, IsOfNobodyWhereOtherWorkTookIt) {
  ScheduleView view{.admitted = {prefilling(0)}, .queued = {}, .idle = {}, .most_admitted = 3, .limits = {}};
  view.limits.slice_is_taken = true;
  EXPECT_EQ(text(next_slice(view)), "none");
}

TEST(NextSlice, IsShortWhileSomebodyWaitsForAPlace) {
  const CallLimits limits{.batch_tokens = 18, .shared_slice_tokens = 8, .own_slice_tokens = 16};
  auto queue = queue_of({5});
  ScheduleView view{.admitted = {prefilling(0)}, .queued = queue, .idle = {}, .limits = limits};
  EXPECT_EQ(text(next_slice(view)), "8 of 0");
  queue.front().awaits = true;
  EXPECT_EQ(text(next_slice(view)), "16 of 0") << "it waits for just this";
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

TEST(NextSlice, WhatFillsNoTileGoesFirst) {
  ScheduledRequest request = prefilling(0);
  request.tokens = 1'000;
  const auto slices = [&request](std::size_t most) {
    std::vector<std::size_t> found;
    ScheduledRequest left = request;
    while (left.held < left.tokens) {
      ScheduleView view;
      view.admitted = {left};
      view.limits.own_slice_tokens = most;
      found.push_back(next_slice(view)->tokens);
      left.held += found.back();
      if (left.next_cut && left.next_cut->value() <= left.held) left.next_cut = std::nullopt;
    }
    return found;
  };
  EXPECT_EQ(slices(256), (std::vector<std::size_t>{232, 256, 256, 256}));
  EXPECT_EQ(slices(300), (std::vector<std::size_t>{296, 256, 256, 192}));
  EXPECT_EQ(slices(16).front(), 16U) << "no tile fits";
  request.next_cut = Position{500};
  EXPECT_EQ(slices(256), (std::vector<std::size_t>{244, 256, 244, 256}));
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
    for (const std::size_t at : in(Phase::kWaiting)) {
      const ScheduledRequest& request = view.admitted[at];
      if (request.ended || request.awaits) continue;
      if (request.must_wait && request.overtaken >= kMostOvertaken) return std::nullopt;
      if (!request.must_wait) return NextStart{.from_queue = false, .at = at};
    }
    std::vector<std::size_t> ready;
    for (std::size_t at = 0; at < view.queued.size(); ++at) {
      if (!view.queued[at].awaits) ready.push_back(at);
    }
    const std::size_t places = view.most_admitted - view.admitted.size();
    if (places == 0 || ready.empty()) return std::nullopt;
    if (ready.size() <= places) return NextStart{.from_queue = true, .at = ready.front()};
    // One rule after the other leaves fewer.
    const auto keep_least = [&](const std::function<std::size_t(const QueuedRequest&)>& value) {
      std::size_t least = SIZE_MAX;
      for (const std::size_t at : ready) least = std::min(least, value(view.queued[at]));
      std::erase_if(ready, [&](std::size_t at) { return value(view.queued[at]) != least; });
    };
    keep_least([&](const QueuedRequest& request) { return running_of_key(request.key); });
    keep_least([](const QueuedRequest& request) { return request.key_started; });
    const auto waits_long = [](const QueuedRequest& request) { return 1'000U - request.passed; };
    const bool any_waits_too_long =
        std::ranges::any_of(ready, [&](std::size_t at) { return view.queued[at].passed >= kMostOvertaken; });
    if (any_waits_too_long) keep_least(waits_long);
    keep_least([](const QueuedRequest& request) { return static_cast<std::size_t>(request.priority + 10); });
    if (!any_waits_too_long) {
      keep_least([&](const QueuedRequest& request) { return others_of(request.session); });
      keep_least([&](const QueuedRequest& request) {
        return request.session == view.served_last && request.session != kNoSession ? 1U : 0U;
      });
      keep_least([](const QueuedRequest& request) {
        std::size_t bits = 0;
        for (std::size_t left = request.work; left > 0; left /= 2) ++bits;
        return bits;
      });
      keep_least(waits_long);
    }
    return NextStart{.from_queue = true, .at = first_overtaken(ready.front())};
  }
  std::size_t first_overtaken(std::size_t chosen) const {
    const QueuedRequest& request = view.queued[chosen];
    for (std::size_t at = 0; at < view.queued.size(); ++at) {
      const QueuedRequest& other = view.queued[at];
      const bool same = other.key == request.key && other.session == request.session && request.session != kNoSession;
      if (same && !other.awaits && other.overtaken >= kMostOvertaken) return at;
    }
    return chosen;
  }
  std::size_t others_of(std::uint64_t session) const {
    std::size_t count = 0;
    for (const ScheduledRequest& request : view.admitted) {
      if (session != kNoSession && request.session == session) ++count;
    }
    return count;
  }
  std::size_t running_of_key(std::uint64_t key) const {
    std::size_t count = 0;
    for (const ScheduledRequest& request : view.admitted) count += request.key == key ? 1 : 0;
    return count;
  }
  std::vector<std::size_t> decode() const {
    std::vector<std::size_t> members = in(Phase::kDecode);
    members.resize(std::min(members.size(), view.limits.batch_tokens));
    return members;
  }
  // The places of those that prefill, those that are due first, then by their weighed work.
  std::vector<std::size_t> prefill_order() const {
    std::vector<std::size_t> order = in(Phase::kPrefill);
    std::ranges::sort(order, {}, [this](std::size_t at) {
      const ScheduledRequest& request = view.admitted[at];
      const int due = request.passed < kMostPassed ? 0 : -static_cast<int>(request.passed);
      const std::size_t left = request.tokens - request.held;
      const std::size_t work = request.session == kNoSession ? left : left * others_of(request.session);
      return std::tuple(due, request.priority, work, at);
    });
    return order;
  }
  bool alone(std::size_t at) const {
    for (std::size_t i = 0; i < view.admitted.size(); ++i) {
      if (i != at && view.admitted[i].phase != Phase::kWaiting) return false;
    }
    return std::ranges::all_of(view.queued, &QueuedRequest::awaits);
  }
  std::optional<NextSlice> slice() const {
    if (in(Phase::kPrefill).empty()) return std::nullopt;
    const std::size_t at = prefill_order().front();
    const ScheduledRequest& request = view.admitted[at];
    const bool own = alone(at);
    const Position prompt_end = Position{} + request.tokens;
    const std::size_t end = std::min(prompt_end, request.next_cut.value_or(prompt_end)).value();
    const auto fits = [&](std::size_t tokens) {
      return tokens <= end - request.held && tokens <= view.limits.batch_tokens &&
             tokens <= (own ? view.limits.own_slice_tokens : view.limits.shared_slice_tokens) &&
             (!request.ahead || tokens <= view.limits.ahead_slice_tokens);
    };
    std::size_t longest = 0;
    std::size_t leaves_tiles = 0;
    for (std::size_t tokens = 1; fits(tokens); ++tokens) {
      longest = tokens;
      if ((end - request.held - tokens) % view.limits.tile_tokens == 0) leaves_tiles = tokens;
    }
    return NextSlice{.at = at, .tokens = leaves_tiles > 0 ? leaves_tiles : longest};
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

// Calls `see` with every view of at most three admitted requests, some queues and two idle sequences.
void for_each_view(const std::function<void(const ScheduleView&)>& see) {
  ScheduledRequest ahead = prefilling(0);
  ahead.ahead = true;
  const std::vector<ScheduledRequest> kinds{waiting(),
                                            must_wait(),
                                            overtaken(),
                                            refused(),
                                            awaiting(),
                                            loading(5),
                                            of_session(prefilling(0), 7),
                                            prefilling(8),
                                            urgent(prefilling(5)),
                                            passed(prefilling(2), kMostPassed),
                                            passed(cut_at(8, 10), kMostPassed + 1),
                                            ahead,
                                            of_session(decoding(), 7),
                                            of_key(decoding(), 9),
                                            answered()};
  const std::vector<std::vector<IdleSequence>> idles{
      {}, {{SeqId{3}, 7}}, {{SeqId{3}, 7}, {SeqId{4}, 7}}, {{SeqId{3}, 7}, {SeqId{4}, 6}}};
  std::vector<std::vector<QueuedRequest>> queues{{}, queue_of({5}), queue_of({9, 3, 2}), queue_of({3, 3, 9, 1})};
  queues[2][1].awaits = true;
  queues.push_back(queues[3]);
  for (const std::size_t i : {0U, 1U, 3U}) queues[4][i].session = 7;
  queues.push_back(queues[4]);
  queues[5][3].overtaken = kMostOvertaken;
  queues.push_back(queues[3]);
  queues[6][1].priority = 2;
  queues[6][2].priority = -3;
  queues.push_back(queues[3]);
  for (const std::size_t i : {0U, 1U, 3U}) queues[7][i].key = 9;
  queues.push_back(queues[7]);
  queues[8][0].passed = kMostOvertaken;
  for (const std::size_t i : {0U, 1U, 3U}) queues[8][i].key_started = 2;
  queues.push_back(queues[5]);
  queues[9][0].passed = kMostOvertaken;
  queues[9][2].passed = kMostOvertaken + 1;
  queues.push_back(queues[4]);
  queues[10][1].passed = 1;
  const CallLimits limits{
      .batch_tokens = 16, .shared_slice_tokens = 8, .own_slice_tokens = 12, .ahead_slice_tokens = 4, .tile_tokens = 3};
  ScheduleView view{.admitted = {}, .queued = {}, .idle = {}, .most_admitted = 3, .limits = limits};
  const std::function<void()> grow = [&] {
    for (const auto& queue : queues) {
      view.queued = queue;
      for (view.served_last = 0; view.served_last <= 7; view.served_last += 7) {
        for (const auto& idle : idles) {
          view.idle = idle;
          for (view.limits.batch_tokens = 2; view.limits.batch_tokens <= 16; view.limits.batch_tokens += 14) see(view);
        }
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

// Nothing is called only if all wait: for a disk, a prefix, room, a place, or one that was overtaken often enough.
TEST(NextCall, SomeRequestGoesOnWhereAnyCan) {
  for_each_view([](const ScheduleView& view) {
    const auto computes = [](const ScheduledRequest& request) {
      return request.phase == Phase::kDecode || request.phase == Phase::kPrefill;
    };
    const auto blocker = std::ranges::find(view.admitted, overtaken());
    const bool has_place = blocker == view.admitted.end() && view.admitted.size() < view.most_admitted;
    const bool queue_starts = has_place && !std::ranges::all_of(view.queued, &QueuedRequest::awaits);
    const bool older_starts = std::find(view.admitted.begin(), blocker, waiting()) != blocker;
    const bool called = next_start(view) || !next_decode(view).empty() || next_slice(view);
    ASSERT_EQ(called, older_starts || queue_starts || std::ranges::any_of(view.admitted, computes));
  });
}

// ---- nobody starves ----

// Carries slices out, one by one, for requests of random length that come all the time.
TEST(NextSlice, EachRequestGetsOneInABoundedNumber) {
  std::mt19937 random(5);
  for (std::size_t places = 1; places <= 6; ++places) {
    ScheduleView view{.admitted = {}, .queued = {}, .idle = {}, .most_admitted = places, .limits = {}};
    view.limits.shared_slice_tokens = 32;
    std::size_t giants_share = 0;
    constexpr std::size_t kSlices = 4'000;
    for (std::size_t i = 0; i < kSlices; ++i) {
      while (view.admitted.size() < places) {
        const std::size_t tokens = view.admitted.empty() ? 1'000'000 : 1 + random() % 300;
        const int priority = view.admitted.empty() ? 0 : static_cast<int>(random() % 3) - 1;
        view.admitted.push_back(
            {.phase = Phase::kPrefill, .session = random() % 3, .priority = priority, .tokens = tokens});
      }
      const NextSlice slice = *next_slice(view);
      giants_share += slice.at == 0 ? 1 : 0;
      for (std::size_t at = 0; at < places; ++at) {
        view.admitted[at].passed = at == slice.at ? 0 : view.admitted[at].passed + 1;
        ASSERT_LE(view.admitted[at].passed, kMostPassed + places - 2) << places;
      }
      ScheduledRequest& chosen = view.admitted[slice.at];
      chosen.held += slice.tokens;
      if (chosen.held == chosen.tokens)
        view.admitted.erase(view.admitted.begin() + static_cast<std::ptrdiff_t>(slice.at));
    }
    EXPECT_GE(giants_share * (kMostPassed + places - 1), kSlices - kMostPassed - places) << places;
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
  const auto forget_sessions = [](ScheduleView& view) {
    for (ScheduledRequest& request : view.admitted) request.session = kNoSession;
    view.served_last = kNoSession;
  };
  std::vector<std::pair<std::string, Order>> mutants(11);
  mutants[10].first = "forgets priorities";
  mutants[10].second.slice = [&](const ScheduleView& view) {
    return next_slice(with(view, [](ScheduleView& changed) {
      for (ScheduledRequest& request : changed.admitted) request.priority = 0;
    }));
  };
  mutants[0].first = "starts one that awaits a prefix";
  mutants[0].second.start = [&](const ScheduleView& view) {
    std::vector<QueuedRequest> queue(view.queued.begin(), view.queued.end());
    for (QueuedRequest& request : queue) request.awaits = false;
    return next_start(with(view, [&queue](ScheduleView& changed) { changed.queued = queue; }));
  };
  mutants[7].first = "forgets how long requests were passed";
  mutants[7].second.slice = [&](const ScheduleView& view) {
    return next_slice(with(view, [](ScheduleView& changed) {
      for (ScheduledRequest& request : changed.admitted) request.passed = 0;
    }));
  };
  mutants[8].first = "serves a session twice in a row";
  mutants[8].second.start = [&](const ScheduleView& view) { return next_start(with(view, forget_sessions)); };
  mutants[9].first = "prefills all of a session first";
  mutants[9].second.slice = [&](const ScheduleView& view) { return next_slice(with(view, forget_sessions)); };
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
