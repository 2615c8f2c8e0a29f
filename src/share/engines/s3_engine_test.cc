// What is S3's own: how it refuses, and what a network costs that takes its time, or loses packets.

#include <gtest/gtest.h>

#include "share/engines/engine_fixture.h"

namespace kvkeep::share {
namespace {

TEST(S3Engine, OtherKeysRegionsAndBucketsAreRefused) {
  S3Double server;
  EXPECT_TRUE(open_engine(server.url(), S3Double::secrets())->probe(NodeId{0}, soon()).ok());
  const auto refused = [](const std::string& url, const EngineSecrets& secrets) {
    const Status probed = open_engine(url, secrets)->probe(NodeId{0}, soon());
    return !probed.ok() && probed.error().kind == ErrorKind::kInvalid;
  };
  EXPECT_TRUE(refused(server.url(), {.access_key = "kvkey", .secret_key = "wrong"}));
  EXPECT_TRUE(refused(server.url(), {.access_key = "other", .secret_key = "kvsecret"}));
  EXPECT_TRUE(refused(server.url(), {}));
  EXPECT_TRUE(refused(server.url("us-1"), S3Double::secrets()));
  const std::vector<std::byte> bytes = sim::sample_bytes(1, 10);
  const auto elsewhere = open_engine(server.url("eu-test-1", "other-bucket"), S3Double::secrets());
  EXPECT_EQ(elsewhere->put(object_name(1), bytes, bytes, 100, soon()).error().kind, ErrorKind::kInvalid);
  EXPECT_TRUE(refused(server.url("eu-test-1", "other-bucket"), S3Double::secrets()));
  EXPECT_FALSE(elsewhere->facts(soon()).ok());
  server.kill();
  const auto dead = open_engine(server.url(), S3Double::secrets());
  EXPECT_EQ(dead->heads({object_name(1)}, 10, in_ms(2000)).front().error().kind, ErrorKind::kIo);
}

std::vector<ObjectName> many_names(std::uint32_t count) {
  std::vector<ObjectName> names;
  for (std::uint32_t i = 0; i < count; ++i) names.push_back(object_name(i));
  return names;
}

// Returns the milliseconds after which each of these names was answered: all are missing but the first.
double ms_of_heads(ObjectEngine& engine, const std::vector<ObjectName>& names) {
  const std::int64_t from_ns = os::real_clock().monotonic_ns();
  const auto heads = engine.heads(names, 100, soon());
  const double ms = os::elapsed_ms(from_ns, os::real_clock().monotonic_ns());
  EXPECT_EQ(heads.size(), names.size());
  for (std::size_t i = 0; i < heads.size(); ++i) {
    EXPECT_EQ(heads[i].ok(), i == 0) << i;
    EXPECT_EQ(heads[i].ok() ? ErrorKind::kNotFound : heads[i].error().kind, ErrorKind::kNotFound) << i;
  }
  return ms;
}

TEST(S3Engine, ManyHeadsTakeFewRoundTrips) {
  constexpr double kDelayMs = 300;
  S3Double server({"--delay-ms", "300"});
  const auto engine = open_engine(server.url(), S3Double::secrets());
  ASSERT_TRUE(engine->put(object_name(0), sim::sample_bytes(1, 200), {}, 100, soon()).ok());
  EXPECT_LT(ms_of_heads(*engine, many_names(96)), 6 * kDelayMs);
}

TEST(S3Engine, ManyObjectsAreTouchedInFewRoundTrips) {
  constexpr double kDelayMs = 300;
  S3Double server({"--delay-ms", "300"});
  const auto engine = open_engine(server.url(), S3Double::secrets());
  std::vector<ObjectEngine::Touched> objects;
  for (const ObjectName& name : many_names(32)) objects.push_back({name, 100});
  const std::int64_t from_ns = os::real_clock().monotonic_ns();
  EXPECT_TRUE(engine->touch(objects, 100, soon()).ok());
  EXPECT_LT(os::elapsed_ms(from_ns, os::real_clock().monotonic_ns()), 4 * kDelayMs);
}

// Returns objects that are older than half of a second's time to live.
std::vector<ObjectEngine::Touched> put_many(ObjectEngine& engine, std::uint32_t count, std::size_t bytes) {
  std::vector<ObjectEngine::Touched> objects;
  for (const ObjectName& name : many_names(count)) {
    EXPECT_TRUE(engine.put(name, sim::sample_bytes(1, 300), sim::sample_bytes(2, bytes), 1, soon()).ok());
    objects.push_back({name, bytes});
  }
  return objects;
}

// The service copies 8 MB in a second and a half, four at once: all together take longer than the time to look at them.
TEST(S3Engine, SlowCopiesRenewAllThatIsUsed) {
  S3Double server({"--copy-ms-per-mb", "190"});
  const auto engine = open_engine(server.url(), S3Double::secrets());
  const auto objects = put_many(*engine, 5, 8'000'000);
  const auto touched = engine->touch(objects, 1, in_ms(2'000));
  EXPECT_TRUE(touched.ok()) << touched.error().message;
  server.kill();
  EXPECT_TRUE(engine->touch(objects, 1, in_ms(2'000)).ok()) << "each was made new, so nobody is asked";
}

// Reads go on at a node that does not copy, and it is not asked to copy with each use.
TEST(S3Engine, ACopyThatHangsIsNoFailureOfTheNode) {
  S3Double server({"--hang-copies-of", std::string(object_name(1).id.text()) + ".r"});
  const auto engine = open_engine(server.url(), S3Double::secrets());
  const auto objects = put_many(*engine, 6, 1'000);
  const auto touched = engine->touch(objects, 1, soon());
  ASSERT_FALSE(touched.ok());
  EXPECT_EQ(touched.error().kind, ErrorKind::kBusy) << touched.error().message;
  EXPECT_TRUE(engine->heads({objects[1].name}, 100, soon()).front().ok());
  server.kill();
  EXPECT_TRUE(engine->touch(objects, 1, in_ms(2'000)).ok());
}

// One of many connections was never answered, as if its packets were lost: others carry what it was asked.
TEST(S3Engine, AConnectionThatIsSilentHoldsNothingUp) {
  S3Double server({"--silent-connection", "9"});
  const auto engine = open_engine(server.url(), S3Double::secrets());
  ASSERT_TRUE(engine->put(object_name(0), sim::sample_bytes(1, 200), {}, 100, soon()).ok());
  EXPECT_LT(ms_of_heads(*engine, many_names(32)), 20'000);
}

// Bytes come, and then no more: a long deadline is not waited for.
TEST(S3Engine, APayloadThatStopsInItsMiddleIsGivenUp) {
  constexpr std::size_t kCome = 50'000;
  S3Double server({"--stall-after", std::to_string(kCome)});
  const auto engine = open_engine(server.url(), S3Double::secrets());
  const std::vector<std::byte> payload = sim::sample_bytes(1, 2 * kCome);
  ASSERT_TRUE(engine->put(object_name(0), {}, payload, 100, soon()).ok());
  std::vector<std::byte> out(payload.size());
  std::size_t come = 0;
  const std::int64_t from_ns = os::real_clock().monotonic_ns();
  const Status read = engine->get(object_name(0), {0, 0, out.size()}, out, [&](std::size_t count) { come = count; },
                                  {soon(), 500'000'000});
  EXPECT_EQ(read.error().kind, ErrorKind::kIo);
  EXPECT_EQ(come, kCome);
  EXPECT_LT(os::elapsed_ms(from_ns, os::real_clock().monotonic_ns()), 20'000);
}

TEST(S3Engine, AnObjectThatNobodyTakesIsGivenUp) {
  S3Double server({"--silent-connection", "1"});  // nothing is probed, so that it is the first one
  const auto url = parse_engine_url(server.url());
  ASSERT_TRUE(url.ok());
  const auto engine = make_engine(*url, S3Double::secrets(), os::real_clock(), os::real_file_system());
  ASSERT_TRUE(engine.ok());
  const std::int64_t from_ns = os::real_clock().monotonic_ns();
  const std::vector<std::byte> payload = sim::sample_bytes(1, 1'000);
  const Status written = (*engine)->put(object_name(0), {}, payload, 100, {soon(), 500'000'000});
  ASSERT_FALSE(written.ok());
  EXPECT_EQ(written.error().kind, ErrorKind::kIo);
  EXPECT_LT(os::elapsed_ms(from_ns, os::real_clock().monotonic_ns()), 20'000);
}

// The next answer on that connection begins with the rest of this one, and is none.
TEST(S3Engine, BytesThatWereNotAnnouncedAreNoAnswer) {
  S3Double server({"--excess-bytes", "700"});
  const auto engine = open_engine(server.url(), S3Double::secrets());
  const std::vector<std::byte> bytes = sim::sample_bytes(1, 200);
  ASSERT_TRUE(engine->put(object_name(0), bytes, {}, 100, soon()).ok());
  std::size_t answered = 0;
  const std::int64_t from_ns = os::real_clock().monotonic_ns();
  for (int i = 0; i < 20; ++i) {
    const HeadBytes head = engine->heads({object_name(0)}, bytes.size(), soon()).front();
    if (head.ok()) {
      EXPECT_EQ(*head, bytes) << i;
      ++answered;
    } else {
      EXPECT_EQ(head.error().kind, ErrorKind::kIo) << head.error().message;
    }
  }
  EXPECT_GT(answered, 0u);
  EXPECT_LT(os::elapsed_ms(from_ns, os::real_clock().monotonic_ns()), 20'000) << "none waits for its deadline";
}

}  // namespace
}  // namespace kvkeep::share
