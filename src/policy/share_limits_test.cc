// Breakers and deadlines of the shared tier: every short history against a naive twin, and the curve of deadlines.

#include "policy/share_limits.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

namespace kvkeep::policy {
namespace {

constexpr std::int64_t kStepNs = 2'600'000'000;  // two of them are longer than the first opening

// The same rules over the whole history, without a state of its own.
class NaiveBreaker {
 public:
  enum class Event {
    kLookupAnswer,
    kTransferAnswer,
    kLookupFailure,
    kTransferFailure,
    kSilence,
    kProbeAnswer,
    kProbeFailure
  };

  // Returns true if the event opened it.
  bool note(Event event, std::int64_t now_ns) {
    const bool was_closed = closed_;
    if (was_closed) {
      if (event == Event::kLookupFailure) return fail(lookups_, "lookup", now_ns);
      if (event == Event::kTransferFailure) return fail(transfers_, "transfer", now_ns);
      if (event == Event::kSilence) {
        closed_ = false;
        transfers_ = 3;
        open("transfer", now_ns);
        return true;
      }
      if (event == Event::kLookupAnswer) answer(lookups_, "lookup");
      if (event == Event::kTransferAnswer) answer(transfers_, "transfer");
      return false;
    }
    const bool is_open = open_until_ns_ > 0;
    if (event == Event::kProbeAnswer) {
      probed_ns_ = now_ns;
      if (is_open && !down_ && now_ns < open_until_ns_) return false;
      if (is_open) lookups_ = transfers_ = 0;
      if (is_open && down_) openings_ = 0;
      closed_ = true;
      open_until_ns_ = 0;
    }
    if (event != Event::kProbeFailure) return false;
    probed_ns_ = now_ns;
    const bool opens = !is_open && fail(lookups_, "lookup", now_ns);
    down_ = is_open || opens;
    return opens;
  }
  bool closed() const { return closed_; }
  bool wants_probe(std::int64_t now_ns) const {
    if (closed_ || open_until_ns_ == 0) return !closed_;
    const bool is_over = !down_ && now_ns >= open_until_ns_ && probed_ns_ < open_until_ns_;
    return is_over || now_ns >= probed_ns_ + 2'000'000'000;
  }

 private:
  bool fail(int& count, const char* which, std::int64_t now_ns) {
    closed_ = false;
    if (++count < 3) return false;
    open(which, now_ns);
    return true;
  }
  void answer(int& count, const std::string& which) {
    count = 0;
    if (which == opened_by_) openings_ = 0;
  }
  void open(const std::string& which, std::int64_t now_ns) {
    opened_by_ = which;
    std::int64_t seconds = 5;
    for (int i = 0; i < openings_; ++i) seconds = std::min<std::int64_t>(300, 2 * seconds);
    ++openings_;
    down_ = false;
    probed_ns_ = now_ns;
    open_until_ns_ = now_ns + seconds * 1'000'000'000;
  }

  bool closed_ = true;
  int lookups_ = 0;
  int transfers_ = 0;
  int openings_ = 0;  // since the last answer of the kind that opened it
  std::string opened_by_ = "lookup";
  std::int64_t open_until_ns_ = 0;
  bool down_ = false;  // a probe failed while it was open
  std::int64_t probed_ns_ = 0;
};

bool apply(ShareBreaker& breaker, NaiveBreaker::Event event, std::int64_t now_ns) {
  switch (event) {
    case NaiveBreaker::Event::kLookupAnswer: breaker.note_answer(ShareCall::kLookup); return false;
    case NaiveBreaker::Event::kTransferAnswer: breaker.note_answer(ShareCall::kTransfer); return false;
    case NaiveBreaker::Event::kLookupFailure: return breaker.note_failure(ShareCall::kLookup, now_ns);
    case NaiveBreaker::Event::kTransferFailure: return breaker.note_failure(ShareCall::kTransfer, now_ns);
    case NaiveBreaker::Event::kSilence: return breaker.note_silence(now_ns);
    case NaiveBreaker::Event::kProbeAnswer: return breaker.note_probe(true, now_ns);
    case NaiveBreaker::Event::kProbeFailure: return breaker.note_probe(false, now_ns);
  }
  return false;
}

TEST(ShareBreaker, AgreesWithItsTwinOverEveryHistoryOfEightEvents) {
  constexpr std::size_t kEvents = 7;
  constexpr std::size_t kLength = 8;
  std::size_t histories = 1;
  for (std::size_t i = 0; i < kLength; ++i) histories *= kEvents;
  for (std::size_t number = 0; number < histories; ++number) {
    ShareBreaker breaker;
    NaiveBreaker twin;
    std::size_t left = number;
    for (std::size_t i = 1; i <= kLength; ++i, left /= kEvents) {
      const auto event = static_cast<NaiveBreaker::Event>(left % kEvents);
      const std::int64_t now_ns = static_cast<std::int64_t>(i) * kStepNs;
      ASSERT_EQ(apply(breaker, event, now_ns), twin.note(event, now_ns)) << number;
      ASSERT_EQ(breaker.closed(), twin.closed()) << number;
      ASSERT_EQ(breaker.wants_probe(now_ns), twin.wants_probe(now_ns)) << number;
      ASSERT_EQ(breaker.wants_probe(now_ns + kStepNs), twin.wants_probe(now_ns + kStepNs)) << number;
    }
  }
}

// Returns for how long a node stays open whose probes fail up to `down_s`, and are answered from then on.
std::int64_t seconds_open(ShareBreaker& breaker, std::int64_t& now_ns, std::int64_t down_s) {
  while (breaker.closed()) {
    breaker.note_failure(ShareCall::kLookup, now_ns);
    if (breaker.suspected()) breaker.note_probe(true, now_ns);
  }
  const std::int64_t from_ns = now_ns;
  while (!breaker.closed()) {
    now_ns += 1'000'000'000;
    if (breaker.wants_probe(now_ns)) breaker.note_probe(now_ns > from_ns + down_s * 1'000'000'000, now_ns);
  }
  return (now_ns - from_ns) / 1'000'000'000;
}

TEST(ShareBreaker, ANodeThatAnswersOnlyProbesStaysOpenForTwiceAsLongEachTimeUpToFiveMinutes) {
  ShareBreaker breaker;
  std::int64_t now_ns = 0;
  std::vector<std::int64_t> seconds;
  for (int i = 0; i < 9; ++i) seconds.push_back(seconds_open(breaker, now_ns, 0));
  EXPECT_EQ(seconds, (std::vector<std::int64_t>{5, 10, 20, 40, 80, 160, 300, 300, 300}));
}

TEST(ShareBreaker, ANodeThatWasDownForAnyTimeIsAskedTwoSecondsAfterItHealed) {
  ShareBreaker breaker;
  std::int64_t now_ns = 0;
  for (const std::int64_t down_s : {3, 4, 50, 51, 3600, 3601}) {
    const std::int64_t seconds = seconds_open(breaker, now_ns, down_s);
    EXPECT_GT(seconds, down_s);
    EXPECT_LE(seconds, down_s + 2);
  }
}

// Requests failed then because it was down, and not because it answers only probes.
TEST(ShareBreaker, AnOutageThatEndedDoesNotLengthenTheNextOpening) {
  ShareBreaker breaker;
  std::int64_t now_ns = 0;
  EXPECT_EQ(seconds_open(breaker, now_ns, 0), 5);
  EXPECT_GT(seconds_open(breaker, now_ns, 60), 60);
  EXPECT_EQ(seconds_open(breaker, now_ns, 0), 5);
  EXPECT_EQ(seconds_open(breaker, now_ns, 0), 10);
}

TEST(ShareLatency, DeadlinesAreFourTimesTheSteadyUsualInsideTheRange) {
  for (const double usual : {0.01, 0.3, 0.6, 1.0, 3.0, 6.0, 12.0, 13.0, 100.0}) {
    ShareLatency latency({.least_ms = 5, .most_ms = 50});
    EXPECT_EQ(latency.deadline_ms(), 50);
    latency.note(usual);
    EXPECT_DOUBLE_EQ(latency.deadline_ms(), std::clamp(5 * usual, 5.0, 50.0)) << "of one sample";
    for (int i = 0; i < 3; ++i) latency.note(usual);
    EXPECT_DOUBLE_EQ(latency.usual_ms(), usual);
    EXPECT_DOUBLE_EQ(latency.deadline_ms(), std::clamp(4 * usual, 5.0, 50.0));
  }
}

// Samples of 10 and 30 ms in turn: the usual is about 20, and they differ from it by about 10.
TEST(ShareLatency, DeadlinesOfNodesThatVaryAreLonger) {
  ShareLatency latency({.least_ms = 50, .most_ms = 300});
  for (int i = 0; i < 40; ++i) latency.note(i % 2 == 0 ? 10 : 30);
  EXPECT_NEAR(latency.usual_ms(), 20, 4);
  EXPECT_NEAR(latency.deadline_ms(), 100, 20);
  for (int i = 0; i < 20; ++i) latency.note(12);
  EXPECT_DOUBLE_EQ(latency.deadline_ms(), 50);
}

TEST(ShareLatency, ANodeThatBecameSlowerIsMeasuredAgain) {
  ShareLatency latency({.least_ms = 5, .most_ms = 50});
  latency.note(0.3);
  std::vector<double> deadlines;
  for (int i = 0; i < 5; ++i) {
    deadlines.push_back(latency.deadline_ms());
    latency.note_late();
  }
  EXPECT_EQ(deadlines, (std::vector<double>{5, 10, 20, 40, 50}));
  for (int i = 0; i < 30; ++i) latency.note(0.3);
  EXPECT_DOUBLE_EQ(latency.deadline_ms(), 5);
}

TEST(DividedTime, IsChargedToAllThatGoOn) {
  DividedTime time;
  const std::int64_t first = time.begin(1'000);
  EXPECT_EQ(time.end(first, 1'600), 600) << "by itself";
  const std::int64_t second = time.begin(5'000);
  const std::int64_t third = time.begin(5'100);
  const std::int64_t fourth = time.begin(5'300);
  EXPECT_EQ(time.end(third, 5'900), 200 / 2 + 600 / 3);
  EXPECT_EQ(time.end(second, 6'000), 100 + 200 / 2 + 600 / 3 + 100 / 2);
  EXPECT_EQ(time.end(fourth, 6'100), 600 / 3 + 100 / 2 + 100);
  const std::int64_t fifth = time.begin(6'500);
  EXPECT_EQ(time.end(fifth, 6'400), 0) << "threads read the clock before they wait for each other";
}

TEST(ShareLatency, TransfersMayTakeFourTimesAsLongAsUsual) {
  EXPECT_DOUBLE_EQ(transfer_deadline_ms(20, ByteCount{}, 0), 20);
  EXPECT_DOUBLE_EQ(transfer_deadline_ms(20, mebibytes(16), 0), 4020);
  EXPECT_DOUBLE_EQ(transfer_deadline_ms(20, ByteCount{1'000'000}, 1e9), 24);
}

}  // namespace
}  // namespace kvkeep::policy
