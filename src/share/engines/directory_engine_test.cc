// The directory on a simulated disk that fails, and its janitor; URLs and secrets.

#include "share/engines/directory_engine.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "share/engines/engine_fixture.h"
#include "share/shared_world_fixture.h"
#include "testing/sim/sim_file_system.h"

namespace kvkeep::share {
namespace {

constexpr std::int64_t kFar = std::int64_t{1} << 60;

// Whatever operation fails, once or from then on, or ends the process: an object is read whole or not at all.
TEST(DirectoryEngine, AnObjectIsWholeOrNotThereAfterAnyFault) {
  const std::vector<std::byte> head = sim::sample_bytes(1, 300);
  const std::vector<std::byte> payload = sim::sample_bytes(2, 5000);
  for (const sim::FaultKind kind : {sim::FaultKind::kFailOnce, sim::FaultKind::kFailForever, sim::FaultKind::kCrash}) {
    for (std::uint64_t operation = 1; operation < 40; ++operation) {
      sim::SimClock clock;
      sim::SimFileSystem files(operation);
      ASSERT_TRUE(files.make_directories("/nas").ok());
      files.set_plan({.kind = kind, .at_operation = operation});
      {
        DirectoryEngine engine({.path = "/nas"}, files, clock);
        (void)engine.put(object_name(1), head, payload, 3600, kFar);
      }
      files.set_plan({});
      if (kind == sim::FaultKind::kCrash) files.power_cut();
      DirectoryEngine engine({.path = "/nas"}, files, clock);
      const auto found = engine.heads({object_name(1)}, head.size(), kFar);
      if (found.front().ok()) {
        EXPECT_EQ(*found.front(), head);
        std::vector<std::byte> out(payload.size());
        ASSERT_TRUE(engine.get(object_name(1), {head.size(), 0, payload.size()}, out, [](std::size_t) {}, kFar).ok());
        EXPECT_EQ(out, payload) << operation;
      }
      EXPECT_TRUE(engine.put(object_name(1), head, payload, 3600, kFar).ok()) << operation;
    }
  }
}

TEST(DirectoryEngine, TheJanitorRemovesObjectsThatWereUsedLongestAgo) {
  sim::SimClock clock;
  sim::SimFileSystem files;
  ASSERT_TRUE(files.make_directories("/nas").ok());
  DirectoryEngine engine({.path = "/nas", .limit = ByteCount{10'500}}, files, clock);
  const std::vector<std::byte> bytes = sim::sample_bytes(1, 500);
  for (std::uint32_t i = 0; i < 20; ++i) {
    ASSERT_TRUE(engine.put(object_name(i), bytes, bytes, 3600, kFar).ok());
    clock.advance_ms(1000);
    ASSERT_TRUE(engine.touch({{object_name(i), 500}, {object_name(0), 500}}, 3600, kFar).ok());
  }
  engine.tidy(3600, kFar);
  std::vector<std::uint32_t> left;
  for (std::uint32_t i = 0; i < 20; ++i) {
    if (engine.heads({object_name(i)}, 10, kFar).front().ok()) left.push_back(i);
  }
  EXPECT_EQ(left, (std::vector<std::uint32_t>{0, 11, 12, 13, 14, 15, 16, 17, 18, 19}));
  clock.advance_ms(3'600'000 - 1500);
  engine.tidy(3600, kFar);
  EXPECT_TRUE(engine.heads({object_name(19)}, 10, kFar).front().ok());
  EXPECT_FALSE(engine.heads({object_name(11)}, 10, kFar).front().ok());
}

TEST(DirectoryEngine, WithoutALimitAsMuchStaysFreeAsObjectsTake) {
  sim::SimClock clock;
  sim::SimFileSystem files;
  ASSERT_TRUE(files.make_directories("/nas").ok());
  DirectoryEngine engine({.path = "/nas"}, files, clock);
  const std::vector<std::byte> payload = sim::sample_bytes(1, 65'536);
  const auto left = [&] {
    std::size_t count = 0;
    for (std::uint32_t i = 0; i < 20; ++i) count += engine.heads({object_name(i)}, 10, kFar).front().ok() ? 1 : 0;
    return count;
  };
  for (std::uint32_t i = 0; i < 20; ++i) {
    ASSERT_TRUE(engine.put(object_name(i), sim::sample_bytes(1, 100), payload, 3600, kFar).ok());
    ASSERT_TRUE(engine.touch({{object_name(i), payload.size()}}, 3600, kFar).ok());
  }
  files.set_free(ByteCount{40 * 65'536});
  engine.tidy(3600, kFar);
  EXPECT_EQ(left(), 20U);
  files.set_free(ByteCount{4 * 65'536});
  engine.tidy(3600, kFar);
  EXPECT_EQ(left(), 20U) << "not at each tick";
  clock.advance_ms(60'000);
  engine.tidy(3600, kFar);
  EXPECT_GE(left(), 10U);
  EXPECT_LE(left(), 13U);
}

TEST(DirectoryEngine, OneServerSweepsAtATime) {
  sim::SimClock clock;
  sim::SimFileSystem files;
  ASSERT_TRUE(files.make_directories("/nas").ok());
  DirectoryEngine engine({.path = "/nas", .limit = ByteCount{1}}, files, clock);
  const std::vector<std::byte> bytes = sim::sample_bytes(1, 500);
  ASSERT_TRUE(engine.put(object_name(1), bytes, bytes, 3600, kFar).ok());
  {
    const auto lock = files.lock("/nas/kv1/janitor");
    ASSERT_TRUE(lock.ok());
    engine.tidy(3600, kFar);
    EXPECT_TRUE(engine.heads({object_name(1)}, 10, kFar).front().ok());
  }
  clock.advance_ms(60'000);
  engine.tidy(3600, kFar);
  EXPECT_FALSE(engine.heads({object_name(1)}, 10, kFar).front().ok());
}

// A NAS may have so many files that a sweep takes minutes, and what waits to be published comes in between.
TEST(DirectoryEngine, ASweepGoesOnInPortions) {
  sim::SimClock clock;
  sim::SimFileSystem files;
  ASSERT_TRUE(files.make_directories("/nas").ok());
  DirectoryEngine engine({.path = "/nas", .limit = ByteCount{5'000}}, files, clock);
  const std::vector<std::byte> bytes = sim::sample_bytes(1, 500);
  constexpr std::uint32_t kObjects = 20;
  for (std::uint32_t i = 0; i < kObjects; ++i) {
    ASSERT_TRUE(engine.put(object_name(i), bytes, bytes, 3600, kFar).ok());
    ASSERT_TRUE(engine.touch({{object_name(i), 500}}, 3600, kFar).ok());
  }
  const auto left = [&] {
    std::size_t count = 0;
    for (std::uint32_t i = 0; i < kObjects; ++i) count += engine.heads({object_name(i)}, 10, kFar).front().ok() ? 1 : 0;
    return count;
  };
  std::vector<std::size_t> after;
  for (int portion = 0; portion < 60; ++portion) {
    engine.tidy(3600, clock.monotonic_ns());
    after.push_back(left());
  }
  for (std::size_t i = 1; i < after.size(); ++i) EXPECT_LE(after[i - 1] - after[i], 1U);
  EXPECT_EQ(after.front(), kObjects);
  EXPECT_EQ(after.back(), 5U);
  EXPECT_TRUE(files.lock("/nas/kv1/janitor").ok()) << "others may sweep";
}

// Its server published nothing for long: by now those files may be in use.
TEST(DirectoryEngine, ASweepThatWasHeldUpBeginsAnew) {
  sim::SimClock clock;
  sim::SimFileSystem files;
  ASSERT_TRUE(files.make_directories("/nas").ok());
  DirectoryEngine engine({.path = "/nas", .limit = ByteCount{1'000}}, files, clock);
  const std::vector<std::byte> bytes = sim::sample_bytes(1, 500);
  for (std::uint32_t i = 0; i < 2; ++i) {
    ASSERT_TRUE(engine.put(object_name(i), bytes, bytes, 360'000, kFar).ok());
    ASSERT_TRUE(engine.touch({{object_name(i), 500}}, 360'000, kFar).ok());
    clock.advance_ms(1'000);
  }
  for (int folder = 0; folder < 2; ++folder) engine.tidy(360'000, 0);  // both are listed
  clock.advance_ms(300'000);
  ASSERT_TRUE(engine.touch({{object_name(0), 500}}, 360'000, kFar).ok());
  engine.tidy(360'000, kFar);
  EXPECT_TRUE(engine.heads({object_name(0)}, 10, kFar).front().ok());
  EXPECT_FALSE(engine.heads({object_name(1)}, 10, kFar).front().ok());
}

// Half a millisecond for each file that is opened, as on a NAS: a long prompt's ends are asked for in time.
TEST(DirectoryEngine, ALongPromptIsFoundOnANasWithoutAFailure) {
  constexpr std::uint32_t kTokens = 100'000;
  constexpr std::uint32_t kStep = 2'048;
  sim::SimClock clock;
  FrailWorld other(clock);
  const Tokens prompt = share_prompt(1, kTokens);
  ShareServer(other).publish(prompt, every(kStep, kTokens));
  sim::SimFileSystem files;
  ASSERT_TRUE(files.make_directories("/nas").ok());
  auto engine = std::make_unique<DirectoryEngine>(DirectoryOptions{.path = "/nas"}, files, clock);
  for (const auto& [name, object] : other.objects) {
    std::vector<std::byte> payload;
    for (const auto& piece : object.pieces) payload.insert(payload.end(), piece.begin(), piece.end());
    ASSERT_TRUE(engine->put(name, object.head, payload, 3600, kFar).ok());
    ASSERT_TRUE(engine->touch({{name, payload.size()}}, 3600, kFar).ok());
  }
  files.set_pace(clock, {.operation_ns = 500'000});
  ShareServer reader(clock, std::move(engine));
  const auto path = reader.find(prompt, every(kStep / 8, kTokens));  // 390 ends
  ASSERT_TRUE(path.has_value());
  EXPECT_EQ(path->end, Position{kTokens / kStep * kStep});
  EXPECT_LT(path->ms, 300);
  EXPECT_EQ(reader.store().counters().failures, 0U);
}

// It may be on a file system that is not mounted: making it would fill another one.
TEST(DirectoryEngine, ADirectoryThatIsNotThereIsRefusedAndNotMade) {
  const auto folder = *os::TemporaryDirectory::make("kvkeep-share-");
  const std::string path = folder.path() + "/nas";
  const auto url = parse_engine_url("dir:" + path);
  ASSERT_TRUE(url.ok());
  const auto refused = make_engine(*url, {}, os::real_clock(), os::real_file_system());
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().kind, ErrorKind::kInvalid);
  EXPECT_NE(refused.error().message.find(path + " is not there: mount"), std::string::npos) << refused.error().message;
  EXPECT_FALSE(std::filesystem::exists(path));
  std::filesystem::create_directory(path);
  EXPECT_TRUE(make_engine(*url, {}, os::real_clock(), os::real_file_system()).ok());
}

TEST(DirectoryEngine, WhoOnlyLooksMakesNothing) {
  const auto folder = *os::TemporaryDirectory::make("kvkeep-share-");
  const auto url = parse_engine_url("dir:" + folder.path());
  ASSERT_TRUE(url.ok());
  const auto look = [&] { return *make_engine(*url, {}, os::real_clock(), os::real_file_system(), EngineUse::kLook); };
  const auto engine = look();
  EXPECT_TRUE(engine->probe(NodeId{0}, soon()).ok());
  EXPECT_TRUE(engine->list("", "", soon())->names.empty());
  const auto facts = engine->facts(soon());
  ASSERT_TRUE(facts.ok()) << facts.error().message;
  EXPECT_EQ(facts->keys, 0U);
  ASSERT_EQ(facts->warnings.size(), 1U);
  EXPECT_NE(facts->warnings.front().find("/kv1 is not there"), std::string::npos);
  EXPECT_EQ(engine->heads({object_name(1)}, 10, soon()).front().error().kind, ErrorKind::kNotFound);
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
  const std::vector<std::byte> bytes = sim::sample_bytes(1, 500);
  ASSERT_TRUE(open_engine("dir:" + folder.path())->put(object_name(1), bytes, bytes, 3600, soon()).ok());
  EXPECT_TRUE(look()->heads({object_name(1)}, 10, soon()).front().ok());
  EXPECT_TRUE(look()->facts(soon())->warnings.empty());
}

TEST(DirectoryEngine, AFileIsRefusedAtTheStart) {
  const auto folder = *os::TemporaryDirectory::make("kvkeep-share-");
  const std::string path = folder.path() + "/model.gguf";
  std::ofstream(path) << "no directory";
  const auto refused = make_engine(*parse_engine_url("dir:" + path), {}, os::real_clock(), os::real_file_system());
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().kind, ErrorKind::kInvalid);
  EXPECT_NE(refused.error().message.find("is a file"), std::string::npos) << refused.error().message;
}

// Such as a share that is mounted to be read only: objects are read on, and their uses are not reported.
TEST(DirectoryEngine, TimesThatCannotBeSetAreARefusalAndNoTrouble) {
  sim::SimClock clock;
  sim::SimFileSystem files;
  ASSERT_TRUE(files.make_directories("/nas").ok());
  DirectoryEngine engine({.path = "/nas"}, files, clock);
  const std::vector<std::byte> bytes = sim::sample_bytes(1, 500);
  ASSERT_TRUE(engine.put(object_name(1), bytes, bytes, 3600, kFar).ok());
  files.set_plan({sim::FaultKind::kFailForever, 1, {sim::Operation::kSetModified}});
  EXPECT_EQ(engine.touch({{object_name(1), 500}}, 3600, kFar).error().kind, ErrorKind::kUnsupported);
  files.heal();
  EXPECT_TRUE(engine.touch({{object_name(1), 500}}, 3600, kFar).ok());
  files.set_plan({sim::FaultKind::kFailForever, 1, {sim::Operation::kSetModified, sim::Operation::kList}});
  EXPECT_EQ(engine.touch({{object_name(1), 500}}, 3600, kFar).error().kind, ErrorKind::kIo)
      << "all of it is in trouble";
}

// Whether the mount point goes with its file system or stays as an empty directory.
TEST(DirectoryEngine, ADirectoryThatGoesAwayIsTroubleAndIsNotMadeAnew) {
  const auto folder = *os::TemporaryDirectory::make("kvkeep-share-");
  const std::string path = folder.path() + "/nas";
  std::filesystem::create_directory(path);
  DirectoryEngine engine({.path = path}, os::real_file_system(), os::real_clock());
  const std::vector<std::byte> bytes = sim::sample_bytes(1, 500);
  const auto put = [&](std::uint32_t number) { return engine.put(object_name(number), bytes, bytes, 3600, soon()); };
  ASSERT_TRUE(put(1).ok());
  for (const bool mount_point_stays : {false, true}) {
    SCOPED_TRACE(mount_point_stays);
    std::filesystem::rename(path, folder.path() + "/away");
    if (mount_point_stays) std::filesystem::create_directory(path);
    for (const auto& head : engine.heads({object_name(1), object_name(2)}, 10, soon())) {
      EXPECT_EQ(head.error().kind, ErrorKind::kIo);
    }
    EXPECT_EQ(read_payload(engine, object_name(1), 500, 500).error().kind, ErrorKind::kIo);
    EXPECT_EQ(put(2).error().kind, ErrorKind::kIo);
    EXPECT_EQ(engine.touch({{object_name(1), 500}}, 3600, soon()).error().kind, ErrorKind::kIo);
    EXPECT_EQ(engine.remove(object_name(1), soon()).error().kind, ErrorKind::kIo);
    EXPECT_EQ(engine.list("", "", soon()).error().kind, ErrorKind::kIo);
    EXPECT_EQ(engine.facts(soon()).error().kind, ErrorKind::kIo);
    EXPECT_EQ(engine.probe(NodeId{0}, soon()).error().kind, ErrorKind::kIo);
    engine.tidy(3600, kFar);
    EXPECT_EQ(std::filesystem::exists(path), mount_point_stays);
    EXPECT_TRUE(!mount_point_stays || std::filesystem::is_empty(path));
    std::filesystem::remove(path);
    std::filesystem::rename(folder.path() + "/away", path);
    EXPECT_TRUE(engine.probe(NodeId{0}, soon()).ok());
    EXPECT_TRUE(read_payload(engine, object_name(1), 500, 500).ok());
    EXPECT_TRUE(put(2).ok());
    EXPECT_EQ(engine.heads({object_name(3)}, 10, soon()).front().error().kind, ErrorKind::kNotFound);
  }
}

TEST(EngineUrls, AreReadAsTheyAreDocumented) {
  const auto valkey = parse_engine_url("valkeys://a:7000,[::1]:7001,c?ca=/etc/ca.pem");
  ASSERT_TRUE(valkey.ok());
  EXPECT_TRUE(valkey->tls);
  EXPECT_EQ(valkey->ca_file, "/etc/ca.pem");
  EXPECT_EQ(valkey->hosts, (std::vector<HostPort>{{"a", 7000}, {"::1", 7001}, {"c", 6379}}));
  const auto s3 = parse_engine_url("s3://my-bucket/a/b/?endpoint=http://127.0.0.1:9000/&region=eu-1");
  ASSERT_TRUE(s3.ok());
  EXPECT_EQ(s3->bucket, "my-bucket");
  EXPECT_EQ(s3->prefix, "a/b");
  EXPECT_EQ(s3->endpoint, "http://127.0.0.1:9000");
  EXPECT_EQ(parse_engine_url("s3://my-bucket?region=eu-1")->endpoint, "https://s3.eu-1.amazonaws.com");
  const auto directory = parse_engine_url("dir:/mnt/nas/?limit-gb=3");
  ASSERT_TRUE(directory.ok());
  EXPECT_EQ(directory->path, "/mnt/nas");
  EXPECT_EQ(directory->limit, mebibytes(3 * 1024));
}

TEST(EngineUrls, ALastSlashIsTaken) {
  EXPECT_EQ(parse_engine_url("redis://a:7000/")->hosts, (std::vector<HostPort>{{"a", 7000}}));
  EXPECT_EQ(parse_engine_url("valkeys://a/?ca=/x")->hosts, (std::vector<HostPort>{{"a", 6379}}));
}

TEST(EngineUrls, ErrorsNameThePartThatIsWrong) {
  const std::map<std::string, std::string> parts{{"valkey://a:6379/3", "database"},
                                                 {"valkey://a:99999", "port"},
                                                 {"valkey://a:x", "port"},
                                                 {"valkey://a:1,valkey://b:2", "scheme"},
                                                 {"valkey://a:1, b:2", "blank"},
                                                 {"valkey://a?ca=/x", "valkeys://"},
                                                 {"s3://ab?endpoint=http://x", "fewer than 3"},
                                                 {"http://a", "is none of"}};
  for (const auto& [text, part] : parts) {
    const auto url = parse_engine_url(text);
    ASSERT_FALSE(url.ok()) << text;
    EXPECT_NE(url.error().message.find(part), std::string::npos) << url.error().message;
  }
}

TEST(EngineUrls, OthersAreRefusedWithTheSpelling) {
  for (const char* text : {"",
                           "valkey",
                           "valkey://",
                           "http://a",
                           "valkey://a:0",
                           "valkey://a:70000",
                           "valkey://a:x",
                           "valkey://user:pw@a",
                           "valkey://a?ca=/x",
                           "valkeys://a?what=1",
                           "valkeys://a?ca=",
                           "valkeys://a?ca=1&ca=2",
                           "valkey://[::1",
                           "s3://",
                           "s3://ab",
                           "s3://Bucket",
                           "s3://bucket/A=b",
                           "s3://bucket?endpoint=ftp://x",
                           "s3://bucket?endpoint=http://k:s@x",
                           "dir:",
                           "dir:relative",
                           "dir:/x?limit-gb=0",
                           "dir:/x?limit-gb=x",
                           "dir:/x?limit=1"}) {
    const auto url = parse_engine_url(text);
    ASSERT_FALSE(url.ok()) << text;
    EXPECT_EQ(url.error().kind, ErrorKind::kInvalid) << text;
  }
  EXPECT_FALSE(parse_engine_url("valkey://" + std::string(5000, 'a')).ok());
}

// Errors get into logs that others read.
TEST(EngineUrl, ErrorsShowNoPassword) {
  for (const std::string_view text :
       {"http://user:hidden@host", "valkey//user:hidden@host", "valkey://user:hidden@host", "redis:/user:hidden@a@host",
        "user:hidden@host", "s3://bucket?endpoint=http://user:hidden@host", "valkeys://host?password=hidden",
        "s3://bucket/x?secret=hidden"}) {
    const auto url = parse_engine_url(text);
    ASSERT_FALSE(url.ok()) << text;
    EXPECT_EQ(url.error().message.find("hidden"), std::string::npos) << url.error().message;
  }
}

TEST(EngineSecrets, AreSentInClearOnlyWithAWarning) {
  const EngineSecrets all{.password = "hidden", .access_key = "key", .secret_key = "hidden", .session_token = "hidden"};
  const auto lines = [](const char* text, const EngineSecrets& secrets) {
    return exposed_secrets(parse_engine_url(text).value(), secrets);
  };
  for (const char* text : {"valkey://cache.lan", "valkey://127.0.0.1,10.0.0.5:7000", "redis://[2001:db8::1]:6379",
                           "s3://bucket?endpoint=http://s3.lan:9000"}) {
    ASSERT_EQ(lines(text, all).size(), 1u) << text;
    EXPECT_EQ(lines(text, all).front().find("hidden"), std::string::npos);
    EXPECT_TRUE(lines(text, {}).empty()) << text;
  }
  for (const char* text :
       {"valkeys://cache.lan", "valkey://localhost:7000,127.0.0.2,[::1]:8000", "s3://bucket?endpoint=https://s3.lan",
        "s3://bucket?endpoint=http://localhost:9000", "s3://bucket", "dir:/x"}) {
    EXPECT_TRUE(lines(text, all).empty()) << text;
  }
  const EngineSecrets keys{.access_key = "key", .secret_key = "hidden"};
  EXPECT_TRUE(lines("s3://bucket?endpoint=http://s3.lan", keys).empty()) << "a signature does not tell the key";
}

TEST(EngineSecrets, ComeFromTheEnvironmentOrFilesThatNobodyElseReads) {
  const auto folder = *os::TemporaryDirectory::make("kvkeep-secret-");
  const std::string path = folder.path() + "/password";
  std::ofstream(path) << "open sesame\n";
  std::filesystem::permissions(path, std::filesystem::perms::owner_read);
  const auto secrets = read_engine_secrets({{"KVKEEP_SHARE_USER", "kvkeep"},
                                            {"KVKEEP_SHARE_PASSWORD_FILE", path},
                                            {"AWS_ACCESS_KEY_ID", "key"},
                                            {"AWS_SECRET_ACCESS_KEY", "secret"},
                                            {"AWS_SESSION_TOKEN", "token"}});
  ASSERT_TRUE(secrets.ok()) << secrets.error().message;
  EXPECT_EQ(secrets->user, "kvkeep");
  EXPECT_EQ(secrets->password, "open sesame");
  EXPECT_EQ(secrets->access_key, "key");
  EXPECT_EQ(secrets->secret_key, "secret");
  EXPECT_EQ(secrets->session_token, "token");
  for (const std::string_view name : kSecretVariables) {
    const bool is_file = name.ends_with("_FILE");
    const auto alone = read_engine_secrets({{std::string(name), is_file ? path : "some text"}});
    ASSERT_TRUE(alone.ok()) << name;
    const std::string text = is_file ? "open sesame" : "some text";
    const auto all = {alone->user, alone->password, alone->access_key, alone->secret_key, alone->session_token};
    EXPECT_EQ(std::ranges::count(all, text), 1) << name;
  }
  EXPECT_EQ(secrets->password_from, "the file " + path);
  const auto both = read_engine_secrets({{"KVKEEP_SHARE_PASSWORD", "a"}, {"KVKEEP_SHARE_PASSWORD_FILE", path}});
  ASSERT_FALSE(both.ok()) << "nobody knows which one is right";
  EXPECT_NE(both.error().message.find("KVKEEP_SHARE_PASSWORD_FILE"), std::string::npos);
  std::filesystem::permissions(path, std::filesystem::perms::others_read, std::filesystem::perm_options::add);
  EXPECT_EQ(read_secret_file(path).error().kind, ErrorKind::kInvalid);
  EXPECT_FALSE(read_secret_file(folder.path() + "/none").ok());
  const auto folder_as_secret = read_secret_file(folder.path());
  ASSERT_FALSE(folder_as_secret.ok());
  EXPECT_NE(folder_as_secret.error().message.find("is a directory"), std::string::npos) << "and no chmod is advised";
}

TEST(EngineSecrets, AFileHasOneLine) {
  const auto folder = *os::TemporaryDirectory::make("kvkeep-secret-");
  int number = 0;
  const auto read = [&](const std::string& contents) {
    const std::string path = folder.path() + "/" + std::to_string(++number);
    std::ofstream(path) << contents;
    std::filesystem::permissions(path, std::filesystem::perms::owner_read);
    return read_secret_file(path);
  };
  for (const char* one : {"secret", "secret\n", "secret\r\n", "secret\n\n"}) {
    const auto secret = read(one);
    ASSERT_TRUE(secret.ok()) << secret.error().message;
    EXPECT_EQ(*secret, "secret");
  }
  for (const char* more : {"a\nb", "a\nb\n", "\na", "a\rb\n", ""}) {
    const auto secret = read(more);
    ASSERT_FALSE(secret.ok()) << more;
    EXPECT_EQ(secret.error().kind, ErrorKind::kInvalid);
  }
}

}  // namespace
}  // namespace kvkeep::share
