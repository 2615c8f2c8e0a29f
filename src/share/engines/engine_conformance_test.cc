// The promises of every engine, tested with each of them: the directory, Valkey alone, as a cluster and under TLS, and
// S3.

#include <gtest/gtest.h>

#include <functional>
#include <thread>

#include "share/engines/engine_fixture.h"
#include "share/engines/tls_fixture.h"
#include "share/engines/valkey_server_fixture.h"

namespace kvkeep::share {
namespace {

// An engine and the server that must outlive it.
struct Running {
  std::shared_ptr<void> server;
  std::unique_ptr<ObjectEngine> engine;
};

Running run_engine(const std::string& kind) {
  if (kind == "Directory") {
    auto folder = std::make_shared<os::TemporaryDirectory>(*os::TemporaryDirectory::make("kvkeep-share-"));
    return {folder, open_engine("dir:" + folder->path())};
  }
  if (kind == "Valkey") {
    auto server = std::make_shared<ValkeyServer>();
    return {server, open_engine(server->url())};
  }
  if (kind == "Cluster") {
    auto cluster = std::make_shared<ValkeyCluster>();
    return {cluster, open_engine(cluster->url())};
  }
  if (kind == "Tls") {
    auto server = std::make_shared<TlsServer>();
    return {server, open_engine(server->url(), TlsServer::secrets())};
  }
  auto server = std::make_shared<S3Double>();
  return {server, open_engine(server->url(), S3Double::secrets())};
}

class EngineConformance : public ::testing::TestWithParam<std::string> {
 protected:
  EngineConformance() : running_(run_engine(GetParam())), engine_(*running_.engine) {}

  Running running_;
  ObjectEngine& engine_;
};

const std::vector<std::byte> kHead = sim::sample_bytes(1, 1500);
constexpr std::size_t kLargeBytes = 20 * kPieceBytes + 17;

// Objects 1 to 6, of every size that is near a piece's.
void keeps_objects(ObjectEngine& engine) {
  std::uint32_t number = 0;
  for (const std::size_t size :
       {std::size_t{0}, std::size_t{1}, kPieceBytes - 1, kPieceBytes, kPieceBytes + 1, kLargeBytes}) {
    SCOPED_TRACE(size);
    const ObjectName name = object_name(++number);
    EXPECT_EQ(engine.heads({name}, 100, soon()).front().error().kind, ErrorKind::kNotFound);
    const std::vector<std::byte> payload = sim::sample_bytes(number, size);
    const Status written = engine.put(name, kHead, payload, 3600, soon());
    ASSERT_TRUE(written.ok()) << written.error().message;
    const auto first = engine.heads({name}, 100, soon());
    ASSERT_TRUE(first.front().ok()) << first.front().error().message;
    EXPECT_EQ(*first.front(), std::vector(kHead.begin(), kHead.begin() + 100));
    const auto whole = engine.heads({name}, kHead.size(), soon());
    ASSERT_TRUE(whole.front().ok());
    EXPECT_EQ(*whole.front(), kHead);
    const auto read = read_payload(engine, name, kHead.size(), size);
    ASSERT_TRUE(read.ok()) << read.error().message;
    EXPECT_EQ(*read == payload, true);
    EXPECT_EQ(read_payload(engine, name, kHead.size(), size + 1).ok(), false);
  }
}

// Those that are absent are a miss, and others' kinds are others.
void answers_many_names_in_their_order(ObjectEngine& engine) {
  std::vector<ObjectName> names;
  for (std::uint32_t i = 0; i < 40; ++i) names.push_back(object_name(i));
  names.push_back(object_name(3, ObjectKind::kPoint));
  const auto many = engine.heads(names, 50, soon());
  ASSERT_EQ(many.size(), names.size());
  for (std::size_t i = 0; i < names.size(); ++i) {
    EXPECT_EQ(many[i].ok(), i >= 1 && i <= 6) << i;
    EXPECT_EQ(many[i].ok() ? ErrorKind::kNotFound : many[i].error().kind, ErrorKind::kNotFound);
  }
}

void reads_slices_that_begin_at_a_piece(ObjectEngine& engine) {
  const std::vector<std::byte> payload = sim::sample_bytes(6, kLargeBytes);
  std::vector<std::byte> part(2 * kPieceBytes);
  ASSERT_TRUE(
      engine.get(
                object_name(6), {kHead.size(), 3 * kPieceBytes, payload.size()}, part, [](std::size_t) {}, soon())
          .ok());
  EXPECT_TRUE(std::equal(part.begin(), part.end(), payload.begin() + 3 * kPieceBytes));
}

void replaces_touches_and_removes(ObjectEngine& engine) {
  const ObjectName large = object_name(6);
  const std::vector<std::byte> other = sim::sample_bytes(99, 700);
  ASSERT_TRUE(engine.put(object_name(2), other, other, 3600, soon()).ok());
  EXPECT_EQ(*engine.heads({object_name(2)}, other.size(), soon()).front(), other);
  EXPECT_EQ(*read_payload(engine, object_name(2), other.size(), other.size()), other);
  EXPECT_TRUE(engine.touch({{large, kLargeBytes}, {object_name(77), 5}}, 7200, soon()).ok());
  EXPECT_TRUE(engine.remove(large, soon()).ok());
  EXPECT_TRUE(engine.remove(large, soon()).ok());
  EXPECT_EQ(engine.heads({large}, 100, soon()).front().error().kind, ErrorKind::kNotFound);
  EXPECT_EQ(read_payload(engine, large, kHead.size(), kLargeBytes).error().kind, ErrorKind::kNotFound);
}

void reports_on_itself(ObjectEngine& engine) {
  EXPECT_EQ(engine.heads({object_name(1)}, 100, in_ms(-1)).front().error().kind, ErrorKind::kIo);

  const auto facts = engine.facts(soon());
  ASSERT_TRUE(facts.ok()) << facts.error().message;
  EXPECT_FALSE(facts->description.empty());
  EXPECT_GE(facts->keys.value_or(5), 5u);
  for (std::uint32_t node = 0; node < engine.nodes(); ++node) EXPECT_TRUE(engine.probe(NodeId{node}, soon()).ok());
}

void serves_threads_at_once(ObjectEngine& engine) {
  std::vector<std::jthread> threads;
  for (std::uint32_t thread = 0; thread < 4; ++thread) {
    threads.emplace_back([&, thread] {
      for (std::uint32_t i = 0; i < 5; ++i) {
        const ObjectName name = object_name(1000 + 10 * thread + i);
        const std::vector<std::byte> bytes = sim::sample_bytes(10 * thread + i, 300'000);
        EXPECT_TRUE(engine.put(name, kHead, bytes, 3600, soon()).ok());
        const auto read = read_payload(engine, name, kHead.size(), bytes.size());
        EXPECT_TRUE(read.ok() && *read == bytes);
      }
    });
  }
}

// Returns all pages of a namespace, or of all.
std::vector<ObjectName> listed(ObjectEngine& engine, std::string_view space) {
  std::vector<ObjectName> names;
  std::string from;
  std::size_t pages = 0;
  do {
    auto page = engine.list(std::string(space), from, soon());
    EXPECT_TRUE(page.ok()) << page.error().message;
    if (!page.ok() || ++pages > 1000) return names;
    names.insert(names.end(), page->names.begin(), page->names.end());
    from = page->next;
  } while (!from.empty());
  std::ranges::sort(names);
  names.erase(std::unique(names.begin(), names.end()), names.end());
  return names;
}

// Heads only, whatever their kind; pieces and other namespaces are not among them.
void lists_what_is_there(ObjectEngine& engine) {
  const std::vector<ObjectName> before = listed(engine, object_name(0).space);
  EXPECT_FALSE(before.empty());
  std::vector<ObjectName> expected = before;
  ObjectName elsewhere = object_name(3001);
  elsewhere.space = "ffeeddccbbaa9988";
  const std::vector<std::byte> payload = sim::sample_bytes(5, 2 * kPieceBytes + 1);
  ASSERT_TRUE(engine.put(elsewhere, kHead, payload, 3600, soon()).ok());
  const ObjectKind kinds[] = {ObjectKind::kRows, ObjectKind::kWindowRows, ObjectKind::kPoint, ObjectKind::kWhole,
                              ObjectKind::kRecord};
  for (std::uint32_t i = 0; i < 30; ++i) {
    expected.push_back(object_name(2000 + i, kinds[i % std::size(kinds)]));
    ASSERT_TRUE(engine.put(expected.back(), kHead, i == 0 ? payload : ByteSpan{}, 3600, soon()).ok());
  }
  std::ranges::sort(expected);
  EXPECT_EQ(listed(engine, object_name(0).space), expected);
  EXPECT_EQ(listed(engine, elsewhere.space), std::vector{elsewhere});
  EXPECT_EQ(listed(engine, "0000000000000000"), std::vector<ObjectName>{});
  expected.push_back(elsewhere);
  std::ranges::sort(expected);
  EXPECT_EQ(listed(engine, ""), expected);
  ASSERT_TRUE(engine.remove(elsewhere, soon()).ok());
  expected.erase(std::ranges::find(expected, elsewhere));
  EXPECT_EQ(listed(engine, ""), expected);
  EXPECT_EQ(engine.list("", "", in_ms(-1)).error().kind, ErrorKind::kIo);
}

// One server serves all promises of its kind, because a cluster takes seconds to start.
TEST_P(EngineConformance, KeepsItsPromises) {
  keeps_objects(engine_);
  answers_many_names_in_their_order(engine_);
  reads_slices_that_begin_at_a_piece(engine_);
  replaces_touches_and_removes(engine_);
  reports_on_itself(engine_);
  serves_threads_at_once(engine_);
  lists_what_is_there(engine_);
}

INSTANTIATE_TEST_SUITE_P(All, EngineConformance, ::testing::Values("Directory", "Valkey", "Cluster", "Tls", "S3"),
                         [](const auto& kind) { return kind.param; });

}  // namespace
}  // namespace kvkeep::share
