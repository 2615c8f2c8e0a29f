// Servers that share an engine and no disk: a conversation goes on at another server without a token that was computed
// before, for each class of models; and an engine that hangs fails nobody.

#include <gtest/gtest.h>

#include "server/run/class_talk_fixture.h"
#include "share/frail_engine_fixture.h"

namespace kvkeep::server {
namespace {

// One engine for threads of several servers.
class CommonEngine {
 public:
  std::unique_ptr<share::ObjectEngine> connect() { return std::make_unique<Connection>(*this); }
  void hang() {
    const MutexLock lock(mutex_);
    for (auto& node : world_.nodes) node = share::FrailWorld::Node::kHung;
  }
  void lose_payloads() {
    const MutexLock lock(mutex_);
    for (auto& [name, object] : world_.objects) object.pieces.clear();
  }
  std::uint64_t puts() {
    const MutexLock lock(mutex_);
    return world_.puts;
  }

 private:
  class Connection final : public share::ObjectEngine {
   public:
    explicit Connection(CommonEngine& common) : common_(common), engine_(common.world_) {}
    std::string address() const override { return engine_.address(); }
    Pace pace() const override { return engine_.pace(); }
    share::NodeId node_of(const share::ObjectName& name) const override { return engine_.node_of(name); }
    std::size_t nodes() const override { return engine_.nodes(); }
    std::string node_address(share::NodeId node) const override { return engine_.node_address(node); }
    std::vector<share::HeadBytes> heads(const std::vector<share::ObjectName>& names, std::size_t first_bytes,
                                        std::int64_t deadline_ns) override {
      const MutexLock lock(common_.mutex_);
      return engine_.heads(names, first_bytes, deadline_ns);
    }
    Status get(const share::ObjectName& name, const share::PayloadSlice& slice, MutableByteSpan out,
               const Arrived& arrived, const share::TransferLimits& limits) override {
      const MutexLock lock(common_.mutex_);
      return engine_.get(name, slice, out, arrived, limits);
    }
    Status put(const share::ObjectName& name, ByteSpan head, ByteSpan payload, std::int64_t ttl_s,
               const share::TransferLimits& limits) override {
      const MutexLock lock(common_.mutex_);
      return engine_.put(name, head, payload, ttl_s, limits);
    }
    Result<std::vector<share::ObjectName>> touch(const std::vector<Touched>& objects, std::int64_t ttl_s,
                                                 std::int64_t deadline_ns) override {
      const MutexLock lock(common_.mutex_);
      return engine_.touch(objects, ttl_s, deadline_ns);
    }
    Status remove(const share::ObjectName& name, std::int64_t deadline_ns) override {
      const MutexLock lock(common_.mutex_);
      return engine_.remove(name, deadline_ns);
    }
    Result<share::NamesPage> list(const std::string& space, const std::string& from,
                                  std::int64_t deadline_ns) override {
      const MutexLock lock(common_.mutex_);
      return engine_.list(space, from, deadline_ns);
    }
    Status probe(share::NodeId node, std::int64_t deadline_ns) override {
      const MutexLock lock(common_.mutex_);
      return engine_.probe(node, deadline_ns);
    }
    Result<share::EngineFacts> facts(std::int64_t deadline_ns) override { return engine_.facts(deadline_ns); }

   private:
    CommonEngine& common_;
    share::FrailEngine engine_;
  };

  Mutex mutex_;
  sim::SimClock clock_;  // how long answers take; nobody waits for it
  share::FrailWorld world_{clock_};
};

class SharedServers : public testing::TestWithParam<MemoryClass> {
 protected:
  WorldOptions options() {
    WorldOptions options = class_world(GetParam());
    options.shared = [this] { return engine_.connect(); };
    return options;
  }
  Tokens text(std::size_t count) {
    Tokens tokens(count);
    for (TokenId& token : tokens) token = static_cast<TokenId>(10 + random_() % 900);
    return tokens;
  }
  ClassTalk long_talk() {
    ClassTalk talk;
    talk.tokens = text(900);
    talk.user(text(120));
    return talk;
  }
  // Starts both. The first one has computed and published the conversation; the second one knows nothing of it.
  ClassTalk publish_talk(World& first, World& second) {
    first.start();
    second.start();
    ClassTalk talk = long_talk();
    (void)ask(first, talk);
    first.publish();
    return talk;
  }
  std::mt19937 random_{seed()};
  CommonEngine engine_;
};

TEST_P(SharedServers, AConversationWandersWithoutPrefillingAnythingTwice) {
  World first(options());
  World second(options());
  first.start();
  second.start();
  ClassTalk talk = long_talk();
  std::size_t known = 0;
  for (int turn = 0; turn < 4; ++turn) {
    World& server = turn % 2 == 0 ? first : second;
    const Reply reply = ask(server, talk);
    EXPECT_EQ(reply.stats.cached_tokens, known) << "turn " << turn;
    if (turn == 1) {
      EXPECT_EQ(reply.stats.shared_tokens, known);
      EXPECT_EQ(reply.stats.source, CacheSource::kSharedToken);
      EXPECT_GT(reply.stats.search_ms, 0);
    }
    server.publish();
    known = decoded(reply);
    talk.assistant(reply.tokens);
    talk.user(text(300));
  }
}

TEST_P(SharedServers, StateThatWasEvictedMeanwhileCostsAPrefill) {
  World first(options());
  World second(options());
  const ClassTalk talk = publish_talk(first, second);
  engine_.lose_payloads();
  const Reply reply = ask(second, talk);
  EXPECT_EQ(reply.stats.cached_tokens, 0U);
}

TEST_P(SharedServers, AnEngineThatHangsFailsNobody) {
  World first(options());
  World second(options());
  const ClassTalk talk = publish_talk(first, second);
  engine_.hang();
  EXPECT_EQ(ask(second, talk).stats.cached_tokens, 0U);
  EXPECT_GT(ask(second, talk).stats.cached_tokens, 1000U) << "its own state serves it as always";
}

TEST_P(SharedServers, ShortPromptsAskNobody) {
  World world(options());
  world.start();
  ClassTalk talk;
  talk.user(text(100));
  EXPECT_EQ(ask(world, talk).stats.search_ms, 0);
  EXPECT_EQ(world.cache.share_counters()->lookups, 0U);
}

INSTANTIATE_TEST_SUITE_P(All, SharedServers,
                         testing::Values(MemoryClass::kSliceable, MemoryClass::kWindowed, MemoryClass::kHybrid,
                                         MemoryClass::kRecurrent, MemoryClass::kOpaque),
                         class_name);

}  // namespace
}  // namespace kvkeep::server
