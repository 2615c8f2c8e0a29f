// Calls to an engine that hangs: they are left, and hold up nothing else.

#include "share/engines/detached_engine.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <iterator>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "base/mutex.h"
#include "os/clock.h"
#include "os/executor.h"
#include "os/threads.h"
#include "share/engines/engine_fixture.h"
#include "share/shared_store.h"

namespace kvkeep::share {
namespace {

// An engine that hangs until it is told to go on.
class HangingEngine : public ObjectEngine {
 public:
  explicit HangingEngine(std::atomic<bool>& hangs) : hangs_(hangs) {}
  std::string address() const override { return "hanging"; }
  Pace pace() const override { return {5, 50, 8}; }
  NodeId node_of(const ObjectName&) const override { return NodeId{0}; }
  std::size_t nodes() const override { return 1; }
  std::string node_address(NodeId) const override { return "hanging"; }
  std::vector<HeadBytes> heads(const std::vector<ObjectName>& names, std::size_t, std::int64_t) override {
    hang();
    return std::vector<HeadBytes>(names.size(), HeadBytes(not_found("nothing")));
  }
  Status get(const ObjectName&, const PayloadSlice&, MutableByteSpan out, const Arrived& arrived,
             const TransferLimits&) override {
    hang();
    std::ranges::fill(out, std::byte{7});
    arrived(out.size());
    return {};
  }
  Status put(const ObjectName&, ByteSpan, ByteSpan, std::int64_t, const TransferLimits&) override {
    hang();
    return {};
  }
  Result<std::vector<ObjectName>> touch(const std::vector<Touched>&, std::int64_t, std::int64_t) override {
    hang();
    return std::vector<ObjectName>{};
  }
  Status remove(const ObjectName&, std::int64_t) override {
    hang();
    return {};
  }
  void tidy(std::int64_t, std::int64_t) override { hang(); }
  Result<NamesPage> list(const std::string&, const std::string&, std::int64_t) override {
    hang();
    return NamesPage{};
  }
  Status probe(NodeId, std::int64_t) override {
    hang();
    return {};
  }
  Result<EngineFacts> facts(std::int64_t) override {
    hang();
    return EngineFacts{};
  }

 protected:
  void hang() const {
    while (hangs_) os::pause(std::chrono::milliseconds(1));
  }

 private:
  std::atomic<bool>& hangs_;
};

TEST(DetachedEngine, CallsThatHangAreLeftAtTheirDeadline) {
  std::atomic<bool> hangs = true;
  DetachedEngine engine(std::make_unique<HangingEngine>(hangs), os::real_clock(), 2);
  const std::int64_t from_ns = os::real_clock().monotonic_ns();
  {
    std::vector<std::byte> out(100);
    for (int i = 0; i < 6; ++i) {
      const Status read = engine.get(object_name(1), {0, 0, 100}, out, [](std::size_t) {}, in_ms(20));
      EXPECT_EQ(read.error().kind, ErrorKind::kIo);
    }
    EXPECT_EQ(out, std::vector<std::byte>(100));
  }
  EXPECT_EQ(engine.probe(NodeId{0}, in_ms(20)).error().kind, ErrorKind::kIo);
  EXPECT_EQ(engine.list("", "", in_ms(20)).error().kind, ErrorKind::kIo);
  EXPECT_EQ(engine.facts(in_ms(20)).error().kind, ErrorKind::kIo);
  engine.tidy(3600, in_ms(20));
  EXPECT_EQ(engine.remove(object_name(1), in_ms(20)).error().kind, ErrorKind::kIo);
  EXPECT_EQ(engine.touch({{object_name(1), 5}}, 3600, in_ms(20)).error().kind, ErrorKind::kIo);
  EXPECT_EQ(engine.put(object_name(1), {}, {}, 3600, in_ms(20)).error().kind, ErrorKind::kIo);
  EXPECT_LT(os::elapsed_ms(from_ns, os::real_clock().monotonic_ns()), 5000);
  hangs = false;
  EXPECT_TRUE(os::wait_until(10'000, [&] { return engine.probe(NodeId{0}, in_ms(1000)).ok(); }));
  std::vector<std::byte> out(3 * kPieceBytes + 5);
  EXPECT_TRUE(engine.get(object_name(1), {0, 0, out.size()}, out, [](std::size_t) {}, soon()).ok());
  EXPECT_EQ(out, std::vector<std::byte>(out.size(), std::byte{7}));
}

TEST(DetachedEngine, AReadThatIsSilentIsLeftBeforeItsDeadline) {
  std::atomic<bool> hangs = true;
  DetachedEngine engine(std::make_unique<HangingEngine>(hangs), os::real_clock(), 2);
  std::vector<std::byte> out(100);
  const std::int64_t from_ns = os::real_clock().monotonic_ns();
  const TransferLimits limits{in_ms(8'000), 20'000'000};
  const Status read = engine.get(object_name(1), {0, 0, 100}, out, [](std::size_t) {}, limits);
  EXPECT_EQ(read.error().kind, ErrorKind::kIo);
  EXPECT_LT(os::elapsed_ms(from_ns, os::real_clock().monotonic_ns()), 5'000);
  hangs = false;
}

std::atomic<bool> never_hangs = false;

// Its first publications and its sweeps hang until they are told to go on, and nothing else does.
class HangingWriter final : public HangingEngine {
 public:
  explicit HangingWriter(std::atomic<bool>& hangs) : HangingEngine(never_hangs), writes_hang_(hangs) {}
  Status put(const ObjectName&, ByteSpan head, ByteSpan payload, std::int64_t, const TransferLimits&) override {
    if (++puts <= hanging_puts) wait();
    const MutexLock lock(mutex_);
    written_.assign(head.begin(), head.end());
    written_.insert(written_.end(), payload.begin(), payload.end());
    ++done;
    return {};
  }
  void tidy(std::int64_t, std::int64_t) override {
    ++sweeps;
    wait();
  }
  std::vector<std::byte> written() const {
    const MutexLock lock(mutex_);
    return written_;
  }
  int hanging_puts = 1;
  std::atomic<int> puts = 0;
  std::atomic<int> done = 0;
  std::atomic<int> sweeps = 0;

 private:
  void wait() const {
    while (writes_hang_) os::pause(std::chrono::milliseconds(1));
  }
  std::atomic<bool>& writes_hang_;
  mutable Mutex mutex_;
  std::vector<std::byte> written_ GUARDED_BY(mutex_);
};

TEST(DetachedEngine, APublicationThatHangsHoldsNothingUp) {
  std::atomic<bool> hangs = true;
  auto made = std::make_unique<HangingWriter>(hangs);
  const HangingWriter& writer = *made;
  DetachedEngine engine(std::move(made), os::real_clock(), 1);
  std::vector<std::byte> head(10, std::byte{1}), payload(100, std::byte{2});
  const std::int64_t from_ns = os::real_clock().monotonic_ns();
  EXPECT_EQ(engine.put(object_name(1), head, payload, 3600, in_ms(20)).error().kind, ErrorKind::kIo);
  EXPECT_LT(os::elapsed_ms(from_ns, os::real_clock().monotonic_ns()), 5'000);
  EXPECT_EQ(engine.heads({object_name(1)}, 10, soon()).front().error().kind, ErrorKind::kNotFound);
  EXPECT_TRUE(engine.probe(NodeId{0}, soon()).ok());
  EXPECT_TRUE(engine.touch({{object_name(1), 5}}, 3600, soon()).ok());
  EXPECT_TRUE(engine.put(object_name(2), head, payload, 3600, soon()).ok()) << "the next publication";
  std::ranges::fill(payload, std::byte{9});
  hangs = false;
  ASSERT_TRUE(os::wait_until(20'000, [&] { return writer.done == 2; }));
  std::vector<std::byte> as_offered(10, std::byte{1});
  as_offered.resize(110, std::byte{2});
  EXPECT_EQ(writer.written(), as_offered) << "bytes of its own, which its caller does not change";
}

TEST(DetachedEngine, ASweepThatHangsIsLeftAndNoneBeginsBesideIt) {
  std::atomic<bool> hangs = true;
  auto made = std::make_unique<HangingWriter>(hangs);
  HangingWriter& writer = *made;
  writer.hanging_puts = 0;
  DetachedEngine engine(std::move(made), os::real_clock(), 1);
  for (int tick = 0; tick < 10; ++tick) {
    engine.tidy(3600, in_ms(20));
    EXPECT_TRUE(engine.put(object_name(1), {}, {}, 3600, soon()).ok());
  }
  EXPECT_EQ(writer.sweeps, 1);
  hangs = false;
  EXPECT_TRUE(os::wait_until(20'000, [&] {
    engine.tidy(3600, soon());
    return writer.sweeps > 1;
  })) << "the next one";
}

// All threads hang. Done later, a publication would replace newer state.
TEST(DetachedEngine, APublicationThatWasLeftBeforeItBeganIsNeverDone) {
  std::atomic<bool> hangs = true;
  auto made = std::make_unique<HangingWriter>(hangs);
  HangingWriter& writer = *made;
  writer.hanging_puts = 2;
  DetachedEngine engine(std::move(made), os::real_clock(), 1);
  for (int put = 1; put <= 2; ++put) {
    EXPECT_FALSE(engine.put(object_name(1), {}, {}, 3600, in_ms(200)).ok());
    ASSERT_TRUE(os::wait_until(20'000, [&] { return writer.puts == put; }));
  }
  engine.tidy(3600, in_ms(20));
  ASSERT_TRUE(os::wait_until(20'000, [&] { return writer.sweeps == 1; }));
  EXPECT_FALSE(engine.put(object_name(1), {}, {}, 3600, in_ms(20)).ok());
  hangs = false;
  EXPECT_TRUE(engine.put(object_name(2), {}, {}, 3600, soon()).ok());
  ASSERT_TRUE(os::wait_until(20'000, [&] { return writer.done == 3; }));
  EXPECT_EQ(writer.puts, 3);
}

TEST(DetachedEngine, PublishingGoesOnWhileACallHangs) {
  std::atomic<bool> hangs = true;
  const auto worker = os::make_thread_executor("worker");
  const auto prober = os::make_thread_executor("prober");
  auto made = std::make_unique<HangingWriter>(hangs);
  const HangingWriter& writer = *made;
  const auto store =
      *SharedStore::make(std::make_unique<DetachedEngine>(std::move(made), os::real_clock(), 2),
                         {.fingerprint = sim::sample_fingerprint(1)}, os::real_clock(), *worker, prober.get());
  worker->drain();
  EXPECT_TRUE(store->offer_record(PrefixHash{}, {std::byte{1}}));
  EXPECT_TRUE(os::wait_until(20'000, [&] {
    store->tick();
    return store->counters().published == 1;
  })) << "after its deadline of about a second, and a probe";
  EXPECT_EQ(writer.puts, 2);
  EXPECT_EQ(writer.sweeps, 1);
  hangs = false;
  worker->drain();
  prober->drain();
}

// Passes on bytes one by one, each only after its reader knows of the one before.
class DrippingEngine final : public HangingEngine {
 public:
  explicit DrippingEngine(const std::atomic<std::size_t>& known) : HangingEngine(never_hangs), known_(known) {}
  Status get(const ObjectName&, const PayloadSlice&, MutableByteSpan out, const Arrived& arrived,
             const TransferLimits&) override {
    for (std::size_t at = 0; at < out.size(); ++at) {
      if (!os::wait_until(20'000, [&] { return known_ >= at; })) return io_error("the reader was not told");
      out[at] = static_cast<std::byte>(at);
      arrived(at + 1);
    }
    return {};
  }

 private:
  const std::atomic<std::size_t>& known_;
};

TEST(DetachedEngine, BytesOfAPieceAreHandedOnAsTheyCome) {
  std::atomic<std::size_t> known = 0;
  DetachedEngine engine(std::make_unique<DrippingEngine>(known), os::real_clock(), 2);
  std::vector<std::byte> out(50);
  const Status read = engine.get(object_name(1), {0, 0, out.size()}, out,
                                 [&](std::size_t count) {
                                   for (std::size_t i = known; i < count; ++i)
                                     EXPECT_EQ(out[i], static_cast<std::byte>(i));
                                   known = count;
                                 },
                                 {soon(), 30'000'000'000});
  EXPECT_TRUE(read.ok()) << read.error().message;
  EXPECT_EQ(known, out.size());
}

// Answers only once so many calls are under way.
class MeetingEngine final : public HangingEngine {
 public:
  explicit MeetingEngine(int calls) : HangingEngine(never_hangs), calls_(calls) {}
  std::vector<HeadBytes> heads(const std::vector<ObjectName>& names, std::size_t, std::int64_t) override {
    ++under_way_;
    const bool all = os::wait_until(20'000, [&] { return under_way_ >= calls_; });
    std::vector<HeadBytes> heads;
    for (const ObjectName& name : names) {
      const ByteSpan text = std::as_bytes(std::span(name.id.text()));
      heads.push_back(all ? HeadBytes(std::vector<std::byte>(text.begin(), text.end()))
                          : HeadBytes(not_found("alone")));
    }
    return heads;
  }

 private:
  const int calls_;
  std::atomic<int> under_way_ = 0;
};

TEST(DetachedEngine, ManyHeadsAreReadOnSeveralThreadsAndComeInTheirOrder) {
  DetachedEngine engine(std::make_unique<MeetingEngine>(4), os::real_clock(), 4);
  std::vector<ObjectName> names;
  for (std::uint32_t i = 0; i < 101; ++i) names.push_back(object_name(i));
  const auto heads = engine.heads(names, 100, soon());
  ASSERT_EQ(heads.size(), names.size());
  for (std::size_t i = 0; i < names.size(); ++i) {
    ASSERT_TRUE(heads[i].ok()) << i;
    EXPECT_TRUE(std::ranges::equal(*heads[i], std::as_bytes(std::span(names[i].id.text())))) << i;
  }
}

// Tells how often it was read: a call that took its place reads it and waits.
class CountingClock final : public os::Clock {
 public:
  std::int64_t monotonic_ns() override {
    ++reads;
    return os::real_clock().monotonic_ns();
  }
  std::int64_t wall_ns() override { return os::real_clock().wall_ns(); }
  std::atomic<int> reads = 0;
};

TEST(DetachedEngine, ManyCallsAtOnceWaitForEachOther) {
  std::atomic<bool> hangs = true;
  std::atomic<int> begun = 0;
  std::atomic<int> answered = 0;
  DetachedEngine engine(std::make_unique<HangingEngine>(hangs), os::real_clock(), 2);
  const auto callers = os::make_thread_pool(20, "callers");
  for (int i = 0; i < 20; ++i) {
    callers->post([&] {
      ++begun;
      const auto heads = engine.heads({object_name(1)}, 10, soon());
      if (heads.front().error().kind == ErrorKind::kNotFound) ++answered;
    });
  }
  EXPECT_TRUE(os::wait_until(20'000, [&] { return begun == 20; }));
  hangs = false;
  EXPECT_TRUE(os::wait_until(20'000, [&] { return answered == 20; }));
}

TEST(DetachedEngine, PlacesThatAreTakenForLongAreNoTroubleOfTheOtherSide) {
  std::atomic<bool> hangs = true;
  CountingClock clock;
  DetachedEngine engine(std::make_unique<HangingEngine>(hangs), clock, 1);
  const auto callers = os::make_thread_pool(2, "callers");
  for (int i = 0; i < 2; ++i) {
    callers->post([&] { EXPECT_TRUE(engine.probe(NodeId{0}, soon()).ok()); });
  }
  EXPECT_TRUE(os::wait_until(20'000, [&] { return clock.reads >= 2; }));
  EXPECT_EQ(engine.probe(NodeId{0}, in_ms(20)).error().kind, ErrorKind::kBusy);
  hangs = false;
}

}  // namespace
}  // namespace kvkeep::share
