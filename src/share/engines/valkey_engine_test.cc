// Valkey in trouble: killed, stopped, full, moved, refusing; and how keys and slots are computed.

#include "share/engines/valkey_engine.h"

#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <sstream>
#include <thread>

#include "share/engines/engine_fixture.h"
#include "share/engines/tls_fixture.h"
#include "share/engines/valkey_server_fixture.h"

namespace kvkeep::share {
namespace {

const std::vector<std::byte> kSomeHead = sim::sample_bytes(1, 1000);

Status put_object(ObjectEngine& engine, std::uint32_t number, std::size_t size, std::int64_t deadline_ns = soon()) {
  return engine.put(object_name(number), kSomeHead, sim::sample_bytes(number, size), 3600, deadline_ns);
}

TEST(Slots, AreThoseOfTheProtocolsDescription) {
  EXPECT_EQ(slot_of("123456789"), 0x31c3u % kClusterSlots);
  EXPECT_EQ(slot_of("foo"), 12182u);
  EXPECT_EQ(slot_of("{user1000}.following"), slot_of("user1000"));
  EXPECT_EQ(slot_of("foo{}{bar}"), slot_of("foo{}{bar}"));
  EXPECT_NE(slot_of("foo{}{bar}"), slot_of("bar"));
  EXPECT_EQ(slot_of("foo{{bar}}zap"), slot_of("{bar"));
  for (std::uint32_t i = 0; i < 100; ++i) {
    EXPECT_EQ(slot_of(object_name(i)), slot_of(object_name(i).join("kv1:", ":{", "}:"))) << i;
  }
}

TEST(Slots, MovedIsLearnedAndJunkIsNot) {
  SlotMap map({{"seed", 7000}});
  EXPECT_EQ(map.node_of(3999), NodeId{0});
  map.learn_moved("MOVED 3999 127.0.0.1:6381", {"seed", 7000});
  EXPECT_EQ(map.host(map.node_of(3999)), (HostPort{"127.0.0.1", 6381}));
  const ObjectName name = object_name(3);
  EXPECT_EQ(map.node_of(name), NodeId{0});
  map.learn_moved("MOVED " + std::to_string(slot_of(name)) + " 127.0.0.1:6381", {"seed", 7000});
  EXPECT_EQ(map.host(map.node_of(name)), (HostPort{"127.0.0.1", 6381}));
  EXPECT_EQ(map.node_of(object_name(4)), NodeId{0});
  map.learn_moved("MOVED 4000 :7000", {"seed", 7000});
  EXPECT_EQ(map.node_of(4000), NodeId{0});
  for (const char* junk :
       {"MOVED", "MOVED x y", "MOVED 99999 h:1", "MOVED 1 h:0", "MOVED 1 h:99999", "MOVED 1:2 h", ""}) {
    map.learn_moved(junk, {"seed", 7000});
  }
  EXPECT_EQ(map.size(), 2u);
  map.learn({.kind = ValkeyReply::Kind::kList, .list = {{}, {.kind = ValkeyReply::Kind::kList, .list = {{}, {}, {}}}}},
            {"seed", 7000});
  EXPECT_EQ(map.size(), 2u);
}

TEST(ValkeyErrors, AreNamedByWhatTheCallerDoes) {
  EXPECT_EQ(valkey_error("OOM command not allowed").kind, ErrorKind::kNoSpace);
  EXPECT_EQ(valkey_error("WRONGPASS invalid username").kind, ErrorKind::kInvalid);
  EXPECT_EQ(valkey_error("NOPERM no permissions").kind, ErrorKind::kInvalid);
  EXPECT_EQ(valkey_error("MOVED 1 h:1").kind, ErrorKind::kBusy);
  EXPECT_EQ(valkey_error("CLUSTERDOWN Hash slot not served").kind, ErrorKind::kBusy);
  EXPECT_EQ(valkey_error("ERR unknown command").kind, ErrorKind::kDamaged);
}

TEST(ValkeyEngine, AKilledServerIsRefusedAtOnceAndServesAgainAfterAStart) {
  ValkeyServer server;
  const auto engine = open_engine(server.url());
  ASSERT_TRUE(put_object(*engine, 1, 3 << 20).ok());
  server.kill();
  const std::int64_t from_ns = os::real_clock().monotonic_ns();
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(engine->heads({object_name(1)}, 100, in_ms(5000)).front().error().kind, ErrorKind::kIo);
    EXPECT_EQ(put_object(*engine, 1, 100, in_ms(5000)).error().kind, ErrorKind::kIo);
  }
  EXPECT_LT(os::elapsed_ms(from_ns, os::real_clock().monotonic_ns()), 3000);
  server.start();
  ASSERT_TRUE(engine->probe(NodeId{0}, soon()).ok());
  EXPECT_EQ(engine->heads({object_name(1)}, 100, soon()).front().error().kind, ErrorKind::kNotFound);
  EXPECT_TRUE(put_object(*engine, 1, 100).ok());
  // It is asked only after it is back: connections to the old process are not used.
  server.kill();
  server.start();
  EXPECT_EQ(engine->heads({object_name(1)}, 100, soon()).front().error().kind, ErrorKind::kNotFound);
}

TEST(ValkeyEngine, AStoppedServerCostsTheDeadline) {
  ValkeyServer server;
  const auto engine = open_engine(server.url());
  ASSERT_TRUE(put_object(*engine, 1, 3 << 20).ok());
  server.stop();
  const std::int64_t from_ns = os::real_clock().monotonic_ns();
  EXPECT_EQ(engine->heads({object_name(1)}, 100, in_ms(60)).front().error().kind, ErrorKind::kIo);
  EXPECT_EQ(read_payload(*engine, object_name(1), kSomeHead.size(), 3 << 20, in_ms(60)).error().kind, ErrorKind::kIo);
  EXPECT_EQ(put_object(*engine, 2, 3 << 20, in_ms(60)).error().kind, ErrorKind::kIo);
  EXPECT_EQ(engine->probe(NodeId{0}, in_ms(60)).error().kind, ErrorKind::kIo);
  EXPECT_LT(os::elapsed_ms(from_ns, os::real_clock().monotonic_ns()), 4 * 60 + 2000);
  server.go_on();
  // Answers to abandoned questions must not be taken for answers to later ones.
  ASSERT_TRUE(engine->probe(NodeId{0}, soon()).ok());
  const auto read = read_payload(*engine, object_name(1), kSomeHead.size(), 3 << 20);
  ASSERT_TRUE(read.ok());
  EXPECT_TRUE(*read == sim::sample_bytes(1, 3 << 20));
}

TEST(ValkeyEngine, AFullServerThatEvictsNothingHasNoSpace) {
  ValkeyServer server({"--maxmemory", "12mb", "--maxmemory-policy", "noeviction"});
  const auto engine = open_engine(server.url());
  Status written;
  for (std::uint32_t i = 0; i < 20 && written.ok(); ++i) written = put_object(*engine, i, 1 << 20);
  ASSERT_FALSE(written.ok());
  EXPECT_EQ(written.error().kind, ErrorKind::kNoSpace);
  const auto facts = engine->facts(soon());
  ASSERT_TRUE(facts.ok());
  EXPECT_EQ(facts->policy, "noeviction");
  EXPECT_EQ(facts->max_bytes, 12u << 20);
  ASSERT_EQ(facts->warnings.size(), 1u);
  EXPECT_NE(facts->warnings.front().find("allkeys-lru"), std::string::npos);
}

// There is room for its first pieces and for its head, which comes last.
TEST(ValkeyEngine, AnObjectThatDoesNotFitHasNoHead) {
  ValkeyServer server({"--maxmemory", "12mb", "--maxmemory-policy", "noeviction"});
  const auto engine = open_engine(server.url());
  std::uint32_t count = 0;
  while (count < 20 && put_object(*engine, count, 1 << 20).ok()) ++count;
  ASSERT_GT(count, 4u);
  for (const std::uint32_t number : {0, 1, 2}) ASSERT_TRUE(engine->remove(object_name(number), soon()).ok());
  // The server frees memory next to its other work.
  ASSERT_TRUE(os::wait_until(5000, [&] { return put_object(*engine, 60, 1).ok(); }));
  EXPECT_EQ(put_object(*engine, 50, 10 << 20).error().kind, ErrorKind::kNoSpace);
  EXPECT_EQ(engine->heads({object_name(50)}, 100, soon()).front().error().kind, ErrorKind::kNotFound);
}

TEST(ValkeyEngine, AServerThatEvictsKeepsOrMissesWholePieces) {
  ValkeyServer server({"--maxmemory", "12mb", "--maxmemory-policy", "allkeys-lru"});
  const auto engine = open_engine(server.url());
  int whole = 0;
  for (std::uint32_t i = 0; i < 30; ++i) ASSERT_TRUE(put_object(*engine, i, 1'500'000).ok());
  for (std::uint32_t i = 0; i < 30; ++i) {
    const auto read = read_payload(*engine, object_name(i), kSomeHead.size(), 1'500'000);
    if (!read.ok()) {
      EXPECT_EQ(read.error().kind, ErrorKind::kNotFound);
      continue;
    }
    ++whole;
    EXPECT_TRUE(*read == sim::sample_bytes(i, 1'500'000));
  }
  EXPECT_GT(whole, 0);
  EXPECT_LT(whole, 30);
}

// Returns the words of the line for valkey.conf in docs/sharing.md that begins so.
Arguments documented_line(const std::string& begin) {
  std::ifstream page(std::string(KVKEEP_TESTING) + "/../docs/sharing.md");
  for (std::string line; std::getline(page, line);) {
    if (!line.starts_with(begin)) continue;
    std::istringstream words(line);
    return {std::istream_iterator<std::string>(words), std::istream_iterator<std::string>()};
  }
  ADD_FAILURE() << "docs/sharing.md has no line " << begin;
  return {};
}

TEST(ValkeyEngine, AUserOfFewRightsIsEnough) {
  ValkeyServer server;
  Arguments user = documented_line("user kvkeep ");
  ASSERT_GT(user.size(), 2u);
  user.erase(user.begin());
  user.insert(user.begin(), {"ACL", "SETUSER"});
  server.cli(user);
  const auto engine = open_engine(server.url(), {.user = "kvkeep", .password = "PASSWORD"});
  EXPECT_TRUE(engine->probe(NodeId{0}, soon()).ok());
  EXPECT_TRUE(put_object(*engine, 1, 3 << 20).ok());
  EXPECT_TRUE(read_payload(*engine, object_name(1), kSomeHead.size(), 3 << 20).ok());
  EXPECT_TRUE(engine->touch({{object_name(1), 3 << 20}}, 100, soon()).ok());
  EXPECT_TRUE(engine->facts(soon()).ok());
  const auto listed = engine->list("", "", soon());
  ASSERT_TRUE(listed.ok());
  EXPECT_EQ(listed->names, std::vector{object_name(1)});
  server.cli({"ACL", "SETUSER", "kvkeep", "-pexpire"});
  EXPECT_EQ(engine->touch({{object_name(1), 3 << 20}}, 100, soon()).error().kind, ErrorKind::kUnsupported);
  EXPECT_TRUE(read_payload(*engine, object_name(1), kSomeHead.size(), 3 << 20).ok());
  EXPECT_TRUE(engine->remove(object_name(1), soon()).ok());

  const auto stranger = open_engine(server.url(), {.user = "kvkeep", .password = "wrong"});
  EXPECT_EQ(stranger->probe(NodeId{0}, soon()).error().kind, ErrorKind::kInvalid);
  EXPECT_EQ(put_object(*stranger, 1, 100).error().kind, ErrorKind::kInvalid);
  EXPECT_EQ(stranger->touch({{object_name(1), 100}}, 100, soon()).error().kind, ErrorKind::kInvalid)
      << "that is no right to renew which it lacks";
}

TEST(ValkeyEngine, AServerThatWasStartedAnewIsNoticedWithoutACall) {
  ValkeyServer server;
  const auto engine = open_engine(server.url());
  ASSERT_TRUE(put_object(*engine, 1, 100).ok());
  EXPECT_TRUE(engine->hung_up().empty());
  server.kill();
  server.start();
  EXPECT_EQ(engine->hung_up(), std::vector{NodeId{0}});
  EXPECT_TRUE(engine->hung_up().empty()) << "told once";
  ASSERT_TRUE(put_object(*engine, 1, 100).ok());
  server.kill();
  server.start();
  EXPECT_TRUE(put_object(*engine, 1, 100).ok()) << "over a connection of its own";
  EXPECT_EQ(engine->hung_up(), std::vector{NodeId{0}});
}

// Which of the names, variables and files is wrong, nobody sees from the server's own words.
TEST(ValkeyEngine, ALogInThatFailsNamesTheUserAndWhereThePasswordCameFrom) {
  ValkeyServer server({"--requirepass", "right"});
  const auto why = [&](const EngineSecrets& secrets) {
    const Status probed = open_engine(server.url(), secrets)->probe(NodeId{0}, soon());
    return probed.ok() ? std::string() : probed.error().message;
  };
  EXPECT_EQ(why({.password = "right", .password_from = "KVKEEP_SHARE_PASSWORD"}), "");
  const std::string without = why({});
  EXPECT_NE(without.find("NOAUTH"), std::string::npos) << without;
  EXPECT_NE(without.find("KVKEEP_SHARE_PASSWORD_FILE"), std::string::npos) << without;
  const std::string nameless = why({.password = "wrong", .password_from = "KVKEEP_SHARE_PASSWORD"});
  EXPECT_NE(nameless.find("WRONGPASS"), std::string::npos) << nameless;
  EXPECT_NE(nameless.find("the default user"), std::string::npos) << nameless;
  EXPECT_NE(nameless.find("KVKEEP_SHARE_USER"), std::string::npos) << nameless;
  EXPECT_NE(nameless.find("password of KVKEEP_SHARE_PASSWORD"), std::string::npos) << nameless;
  const std::string named = why({.user = "someone", .password = "wrong", .password_from = "the file /etc/pw"});
  EXPECT_NE(named.find("user 'someone'"), std::string::npos) << named;
  EXPECT_NE(named.find("password of the file /etc/pw"), std::string::npos) << named;
  for (const std::string& text : {without, nameless, named}) EXPECT_EQ(text.find("wrong "), std::string::npos) << text;
}

TEST(ValkeyEngine, ObjectsLeaveAfterTheirTimeUnlessTheyAreUsed) {
  ValkeyServer server;
  const auto engine = open_engine(server.url());
  ASSERT_TRUE(put_object(*engine, 1, 2'000'000).ok());
  const std::string key = object_name(1).join("kv1:", ":{", "}:");
  for (const std::string& one : {key, key + ":0", key + ":1"}) {
    EXPECT_NEAR(std::stod(server.cli({"TTL", one})), 3600, 60) << one;
  }
  ASSERT_TRUE(engine->touch({{object_name(1), 2'000'000}}, 7200, soon()).ok());
  for (const std::string& one : {key, key + ":0", key + ":1"}) {
    EXPECT_NEAR(std::stod(server.cli({"TTL", one})), 7200, 60) << one;
  }
}

TEST(ValkeyEngine, TouchingFindsObjectsWithoutAllOfTheirPieces) {
  ValkeyServer server;
  const auto engine = open_engine(server.url());
  for (std::uint32_t i = 1; i <= 3; ++i) ASSERT_TRUE(put_object(*engine, i, 2'000'000).ok());
  server.cli({"DEL", object_name(2).join("kv1:", ":{", "}:") + ":1"});
  server.cli({"DEL", object_name(3).join("kv1:", ":{", "}:")});
  const std::vector<ObjectEngine::Touched> all{
      {object_name(1), 2'000'000}, {object_name(2), 2'000'000}, {object_name(3), 2'000'000}};
  const auto broken = engine->touch(all, 7200, soon());
  ASSERT_TRUE(broken.ok());
  EXPECT_EQ(*broken, std::vector{object_name(2)}) << "the third is absent";
}

// Its host is a replica of the other one, until that one is gone or they change places.
TEST(ValkeyEngine, NamesBelongToThePrimaryOfSeveralHosts) {
  ValkeyServer one;
  ValkeyServer other;
  const auto replicate = [](const ValkeyServer& replica, const ValkeyServer& primary) {
    replica.cli({"REPLICAOF", "127.0.0.1", std::to_string(primary.port())});
    EXPECT_TRUE(os::wait_until(
        20'000, [&] { return replica.cli({"INFO", "replication"}).find("link_status:up") != std::string::npos; }));
  };
  replicate(other, one);
  const auto engine = open_engine(one.url() + ",127.0.0.1:" + std::to_string(other.port()));
  ASSERT_TRUE(put_object(*engine, 1, 3 << 20).ok());
  EXPECT_EQ(engine->node_of(object_name(1)), NodeId{0});
  EXPECT_FALSE(engine->has_names(NodeId{1}));

  other.cli({"REPLICAOF", "NO", "ONE"});
  replicate(one, other);
  EXPECT_EQ(put_object(*engine, 2, 100).error().kind, ErrorKind::kBusy);
  EXPECT_TRUE(engine->probe(NodeId{0}, soon()).ok());
  EXPECT_EQ(engine->node_of(object_name(1)), NodeId{1});
  EXPECT_TRUE(put_object(*engine, 2, 100).ok());
  EXPECT_TRUE(engine->heads({object_name(1)}, 100, soon()).front().ok());
  ASSERT_TRUE(os::wait_until(20'000, [&] { return one.cli({"DBSIZE"}) == other.cli({"DBSIZE"}); }));

  other.kill();
  one.cli({"REPLICAOF", "NO", "ONE"});
  EXPECT_EQ(engine->heads({object_name(2)}, 100, soon()).front().error().kind, ErrorKind::kIo);
  EXPECT_FALSE(engine->probe(NodeId{1}, soon()).ok());
  EXPECT_TRUE(engine->heads({object_name(2)}, 100, soon()).front().ok());
  EXPECT_TRUE(put_object(*engine, 3, 100).ok());
  EXPECT_TRUE(engine->facts(soon()).ok()) << "of the one that has names";
}

// A proxy or a name may lead to another server: connections to the old one are left when it takes no writes.
TEST(ValkeyEngine, AProbeConnectsAnewAfterAServerTookNoWrites) {
  ValkeyServer server;
  const auto engine = open_engine(server.url());
  ASSERT_TRUE(put_object(*engine, 1, 100).ok());
  server.cli({"REPLICAOF", "127.0.0.1", "1"});
  EXPECT_EQ(put_object(*engine, 1, 100).error().kind, ErrorKind::kBusy);
  const auto connections = [&] {
    const std::string info = server.cli({"INFO", "stats"});
    const std::string name = "total_connections_received:";
    return std::stoi(info.substr(info.find(name) + name.size()));
  };
  const int before = connections();
  EXPECT_TRUE(engine->probe(NodeId{0}, soon()).ok()) << "it may be read";
  EXPECT_EQ(connections(), before + 2) << "one of them asks for this number";
}

TEST(ValkeyEngine, TheServersCertificateMustBeOfTheCaAndOfTheHost) {
  const TlsServer server;
  const Certificates others;
  EXPECT_TRUE(open_engine(server.url(), TlsServer::secrets())->probe(NodeId{0}, soon()).ok());
  const auto refused_by = [](const std::string& url) {
    return open_engine(url, TlsServer::secrets())->probe(NodeId{0}, soon()).error().message;
  };
  const std::string of_another_ca = refused_by(server.url_with(others));
  EXPECT_TRUE(of_another_ca.starts_with("the server's certificate is refused: ")) << of_another_ca;
  const TlsServer misnamed("elsewhere.test");
  const std::string of_another_host = refused_by(misnamed.url());
  EXPECT_NE(of_another_host.find("ostname mismatch"), std::string::npos) << of_another_host;
}

TEST(ValkeyEngine, TheCaIsReadOnce) {
  const TlsServer server;
  const auto engine = open_engine(server.url(), TlsServer::secrets());
  ASSERT_TRUE(engine->probe(NodeId{0}, soon()).ok());
  std::filesystem::remove(server.url().substr(server.url().find("?ca=") + 4));
  EXPECT_TRUE(engine->probe(NodeId{0}, soon()).ok()) << "each connection would read the system's CAs anew";
}

// A cluster that is well after each test: to form one takes seconds.
class OneCluster : public ::testing::Test {
 protected:
  static void SetUpTestSuite() { cluster_ = std::make_unique<ValkeyCluster>(); }
  static void TearDownTestSuite() { cluster_.reset(); }
  static std::unique_ptr<ValkeyCluster> cluster_;
};

std::unique_ptr<ValkeyCluster> OneCluster::cluster_;

TEST_F(OneCluster, ADeadNodeCostsOnlyItsOwnNamesAndSlotsThatMoveAreFollowed) {
  ValkeyCluster& cluster = *cluster_;
  const auto engine = open_engine(cluster.url());
  ASSERT_EQ(engine->nodes(), 3u);
  std::vector<ObjectName> names;
  for (std::uint32_t i = 0; i < 60; ++i) {
    names.push_back(object_name(i));
    ASSERT_TRUE(put_object(*engine, i, 1000).ok());
  }
  const auto count = [&](std::int64_t deadline_ns) {
    std::map<NodeId, int> there;
    const auto heads = engine->heads(names, 100, deadline_ns);
    for (std::size_t i = 0; i < names.size(); ++i) there[engine->node_of(names[i])] += heads[i].ok() ? 1 : 0;
    return there;
  };
  const auto before = count(soon());
  ASSERT_EQ(before.size(), 3u);
  cluster.node(1).stop();
  auto stopped = count(in_ms(1000));
  NodeId dead{};
  for (const auto& [node, heads] : before) {
    if (engine->node_address(node).ends_with(':' + std::to_string(cluster.node(1).port()))) dead = node;
  }
  for (const auto& [node, heads] : before) EXPECT_EQ(stopped[node], node == dead ? 0 : heads);
  cluster.node(1).go_on();
  ASSERT_TRUE(os::wait_until(20'000, [&] {
    return engine->probe(dead, soon()).ok() &&
           cluster.node(1).cli({"cluster", "info"}).find("state:ok") != std::string::npos;
  }));
  EXPECT_TRUE(os::wait_until(20'000, [&] { return count(soon()) == before; }));

  // A client that knows nothing yet asks the wrong node, is told, and asks the right one next.
  const auto parsed = parse_engine_url(cluster.url());
  ValkeyEngine fresh(*parsed, {}, os::real_clock());
  int wrong = 0;
  for (const ObjectName& name : names) {
    const auto first = fresh.heads({name}, 100, soon());
    if (first.front().ok()) continue;
    EXPECT_EQ(first.front().error().kind, ErrorKind::kBusy);
    ++wrong;
    EXPECT_TRUE(fresh.heads({name}, 100, soon()).front().ok());
  }
  EXPECT_GT(wrong, 0);
}

// Look-ups that have to connect do so at all nodes at once: a frozen one takes none of the others' time.
TEST_F(OneCluster, ANodeThatHangsWhileConnectingCostsOnlyItsOwnNames) {
  ValkeyCluster& cluster = *cluster_;
  const auto engine = open_engine(cluster.url());
  std::vector<ObjectName> names;
  for (std::uint32_t i = 100; i < 160; ++i) names.push_back(object_name(i));
  cluster.node(0).stop();  // the seed, which is asked first
  std::vector<std::thread> threads;
  std::vector<std::vector<HeadBytes>> answers(6);
  for (auto& own : answers) threads.emplace_back([&] { own = engine->heads(names, 100, in_ms(1'000)); });
  for (std::thread& thread : threads) thread.join();
  std::size_t failed = 0;
  for (const auto& own : answers) {
    for (std::size_t i = 0; i < names.size(); ++i) {
      const bool hangs =
          engine->node_address(engine->node_of(names[i])).ends_with(std::to_string(cluster.node(0).port()));
      EXPECT_EQ(own[i].error().kind, hangs ? ErrorKind::kIo : ErrorKind::kNotFound) << own[i].error().message;
      failed += hangs ? 1 : 0;
    }
  }
  EXPECT_GT(failed, 0U);
  cluster.node(0).go_on();
}

// They tell clients under TLS of each other's ports of TLS, and of their addresses, which certificates must have.
TEST(ValkeyCluster, NodesAreFoundUnderTls) {
  const Certificates certificates("127.0.0.1");
  std::array<Arguments, 3> more;
  std::vector<std::string> ports;
  for (Arguments& own : more) {
    ports.push_back(std::to_string(*os::free_port()));
    own = {"--tls-port",         ports.back(),
           "--tls-cert-file",    certificates.path("s.crt"),
           "--tls-key-file",     certificates.path("s.key"),
           "--tls-ca-cert-file", certificates.path("ca.crt"),
           "--tls-auth-clients", "no"};
  }
  const ValkeyCluster cluster(more);
  const auto engine = open_engine("valkeys://127.0.0.1:" + ports.front() + "?ca=" + certificates.path("ca.crt"));
  ASSERT_EQ(engine->nodes(), 3U);
  std::vector<ObjectName> names;
  for (std::uint32_t i = 0; i < 30; ++i) {
    names.push_back(object_name(i));
    ASSERT_TRUE(put_object(*engine, i, 1000).ok());
  }
  for (const HeadBytes& head : engine->heads(names, 100, soon())) EXPECT_TRUE(head.ok()) << head.error().message;
  for (std::uint32_t i = 0; i < engine->nodes(); ++i) {
    const std::string address = engine->node_address(NodeId{i});
    const auto ends = [&](const std::string& port) { return address.ends_with(':' + port); };
    EXPECT_TRUE(std::ranges::any_of(ports, ends)) << address;
  }
}

TEST(ValkeyCluster, AReplicaThatTookOverIsFoundThroughTheOthers) {
  ValkeyCluster cluster;
  ValkeyServer& replica = cluster.add_replica(1);
  const auto engine = open_engine(cluster.url());
  ASSERT_EQ(engine->nodes(), 3u);
  std::vector<ObjectName> names;
  for (std::uint32_t i = 0; i < 30; ++i) {
    names.push_back(object_name(i));
    ASSERT_TRUE(put_object(*engine, i, 1000).ok());
  }
  const auto node_at = [&](const ValkeyServer& server) {
    for (std::uint32_t node = 0; node < engine->nodes(); ++node) {
      if (engine->node_address(NodeId{node}).ends_with(':' + std::to_string(server.port()))) return NodeId{node};
    }
    return NodeId{99};
  };
  const NodeId dead = node_at(cluster.node(1));
  ASSERT_TRUE(os::wait_until(20'000, [&] { return replica.cli({"DBSIZE"}) == cluster.node(1).cli({"DBSIZE"}); }));
  cluster.node(1).kill();
  ASSERT_TRUE(os::wait_until(
      60'000, [&] { return replica.cli({"INFO", "replication"}).find("role:master") != std::string::npos; }));
  // Its probe fails, and asks the others.
  ASSERT_TRUE(os::wait_until(20'000, [&] {
    EXPECT_FALSE(engine->probe(dead, in_ms(1000)).ok());
    return !engine->has_names(dead);
  }));
  EXPECT_EQ(engine->nodes(), 4u);
  for (const HeadBytes& head : engine->heads(names, 100, soon())) EXPECT_TRUE(head.ok()) << head.error().message;
  for (std::uint32_t i = 0; i < 30; ++i) EXPECT_TRUE(put_object(*engine, i, 1000).ok());
  EXPECT_TRUE(engine->facts(soon()).ok());
  EXPECT_TRUE(engine->list("", "", soon()).ok());
}

}  // namespace
}  // namespace kvkeep::share
