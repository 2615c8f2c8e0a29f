#include "server/http/intake.h"

#include <gtest/gtest.h>

#include <string>

#include "server/http/gunzip.h"

namespace kvkeep::server {
namespace {

using State = Intake::State;

class IntakeTest : public testing::Test {
 protected:
  static HttpOptions options() {
    HttpOptions given;
    given.body_bytes_max = 100;
    given.bodies_bytes_max = 150;
    given.requests_max = 2;
    return given;
  }
  IntakeTest() : core_(options(), Gatekeeper::make(options()).value()) {
    const auto nothing = [](const HttpRequest&, ResponseWriter&) {};
    core_.gatekeeper.add({"POST", "/heavy", nothing, {}});
    core_.gatekeeper.add({"POST", "/light", nothing, {.is_light = true}});
    core_.gatekeeper.add({"GET", "/page", nothing, {}});
  }
  static std::string head(const std::string& line, const std::string& fields = "") {
    return line + " HTTP/1.1\r\nHost: localhost\r\n" + fields + "\r\n";
  }
  static std::string post(std::size_t bytes, const std::string& path = "/heavy") {
    return head("POST " + path, "Content-Length: " + std::to_string(bytes) + "\r\n");
  }

  ServerCore core_;
  Intake intake_{core_, "127.0.0.1"};
};

TEST_F(IntakeTest, ABodyIsGathered) {
  const std::string bytes = post(5) + "12345GET ";
  EXPECT_EQ(intake_.feed(bytes.substr(0, 20)), 0U);
  EXPECT_EQ(intake_.state(), State::kHead);
  EXPECT_EQ(intake_.feed(bytes), bytes.size() - 4) << "what follows is the next request's";
  ASSERT_EQ(intake_.state(), State::kReady);
  EXPECT_FALSE(intake_.closes());
  const Exchange::Start start = intake_.release();
  EXPECT_EQ(start.body->bytes, "12345");
  EXPECT_EQ(start.request.remote_address, "127.0.0.1");
  EXPECT_FALSE(start.request.id.empty());
}

TEST_F(IntakeTest, ARefusalIsReadyBeforeTheBody) {
  intake_.feed(post(101));
  ASSERT_EQ(intake_.state(), State::kAnswered);
  EXPECT_EQ(intake_.verdict().status, 413);
  EXPECT_TRUE(intake_.closes()) << "the body may still come";
}

TEST_F(IntakeTest, ChunksAreRefusedByTheirAnnouncement) {
  const std::string bytes = head("POST /heavy", "Transfer-Encoding: chunked\r\n") + "65\r\n";
  intake_.feed(bytes);
  ASSERT_EQ(intake_.state(), State::kAnswered);
  EXPECT_EQ(intake_.verdict().status, 413);
}

TEST_F(IntakeTest, TheBodyOfAGetIsNotRead) {
  intake_.feed(head("GET /page", "Content-Length: 5\r\n") + "12345");
  ASSERT_EQ(intake_.state(), State::kReady);
  EXPECT_TRUE(intake_.closes());
  EXPECT_EQ(intake_.release().body, nullptr);
}

TEST_F(IntakeTest, RequestsAreBoundedButForLightOnes) {
  Budget::Share others(core_.places);
  ASSERT_TRUE(others.take(2));
  intake_.feed(post(5));
  EXPECT_EQ(intake_.verdict().status, 503);
  Intake light(core_, "");
  light.feed(post(1, "/light") + "1");
  EXPECT_EQ(light.state(), State::kReady);
}

// A body that never ends keeps nobody out; however a request ends, its place is free again.
TEST_F(IntakeTest, RequestsCountOnceTheyAreComplete) {
  Exchange::Start released;
  {
    Intake unfinished(core_, "");
    unfinished.feed(post(5));
    ASSERT_EQ(unfinished.state(), State::kBody);
    Intake ready(core_, "");
    ready.feed(post(1) + "1");
    ASSERT_EQ(ready.state(), State::kReady);
    Intake second(core_, "");
    second.feed(post(1) + "1");
    ASSERT_EQ(second.state(), State::kReady);
    unfinished.feed("12345");
    EXPECT_EQ(unfinished.verdict().status, 503) << "others were complete first";
    Intake fourth(core_, "");
    fourth.feed(post(5));
    EXPECT_EQ(fourth.verdict().status, 503) << "before it sends its body";
    released = ready.release();
  }
  EXPECT_TRUE(core_.places.has_room_for(1)) << "one left, and others were refused";
  EXPECT_FALSE(core_.places.has_room_for(2)) << "a handler has the other";
  released = {};
  EXPECT_TRUE(core_.places.has_room_for(2));
}

TEST_F(IntakeTest, ABodyWaitsForRoom) {
  Budget::Share others(core_.budget);
  ASSERT_TRUE(others.take(100));
  const std::string bytes = post(60) + std::string(60, 'x');
  const std::size_t used = intake_.feed(bytes);
  ASSERT_EQ(intake_.state(), State::kRoom);
  EXPECT_EQ(intake_.wanted_bytes(), 60U);
  EXPECT_EQ(intake_.held_bytes(), 0U);
  others.give_back();
  intake_.go_on();
  EXPECT_EQ(intake_.feed(bytes.substr(used)), 60U);
  EXPECT_EQ(intake_.state(), State::kReady);
}

// There may be room when a head comes, and none when its bytes do.
TEST_F(IntakeTest, ABodyGoesOnWhereRoomRanOut) {
  intake_.feed(post(60));
  ASSERT_EQ(intake_.state(), State::kBody);
  EXPECT_EQ(intake_.feed(std::string(30, 'x')), 30U);
  Budget::Share others(core_.budget);
  ASSERT_TRUE(others.take(100));
  EXPECT_EQ(intake_.feed(std::string(25, 'x')), 0U);
  ASSERT_EQ(intake_.state(), State::kRoom);
  EXPECT_EQ(intake_.wanted_bytes(), 25U);
  EXPECT_EQ(intake_.held_bytes(), 30U);
  others.give_back();
  intake_.go_on();
  EXPECT_EQ(intake_.feed(std::string(30, 'x')), 30U);
  EXPECT_EQ(intake_.state(), State::kReady);
}

// Zlib may take the last byte of its input with output still to make. A body that ends there would wait for bytes that
// are here already. It depends on zlib which lengths do that, so that many are tried.
TEST_F(IntakeTest, ACompressedBodyWhoseEndFindsNoRoomWaitsForIt) {
  HttpOptions given;
  given.body_bytes_max = 1 << 19;
  given.bodies_bytes_max = 1 << 20;
  ServerCore core(given, Gatekeeper::make(given).value());
  core.gatekeeper.add({"POST", "/heavy", [](const HttpRequest&, ResponseWriter&) {}, {}});
  Budget::Share others(core.budget);
  for (std::size_t size = 16'390; size < 19'000; size += 7) {
    const std::string packed = gzip(std::string(size, ' '));
    const std::string fields = "Content-Encoding: gzip\r\nContent-Length: " + std::to_string(packed.size()) + "\r\n";
    const std::string bytes = head("POST /heavy", fields) + packed;
    ASSERT_TRUE(others.take((1 << 20) - 20'000));
    Intake intake(core, "");
    const std::size_t used = intake.feed(bytes);
    ASSERT_EQ(intake.state(), State::kRoom) << size;
    ASSERT_LT(used, bytes.size()) << size;
    others.give_back();
    intake.go_on();
    intake.feed(std::string_view(bytes).substr(used));
    ASSERT_EQ(intake.state(), State::kReady) << size;
    ASSERT_EQ(intake.release().body->bytes, std::string(size, ' '));
  }
}

// 64 KiB that unpack to megabytes are too much for one turn of the thread that serves all connections.
TEST_F(IntakeTest, ACompressedBodyIsUnpackedInTurns) {
  HttpOptions given;
  given.body_bytes_max = given.bodies_bytes_max = 16 << 20;
  ServerCore core(given, Gatekeeper::make(given).value());
  core.gatekeeper.add({"POST", "/heavy", [](const HttpRequest&, ResponseWriter&) {}, {}});
  const std::string text(10 << 20, ' ');
  const std::string packed = gzip(text);
  const std::string fields = "Content-Encoding: gzip\r\nContent-Length: " + std::to_string(packed.size()) + "\r\n";
  const std::string bytes = head("POST /heavy", fields) + packed;
  Intake intake(core, "");
  std::size_t used = intake.feed(bytes);
  std::size_t turns = 1;
  for (; intake.is_paused(); ++turns) used += intake.feed(std::string_view(bytes).substr(used));
  ASSERT_EQ(intake.state(), State::kReady);
  EXPECT_EQ(used, bytes.size());
  EXPECT_GE(turns, text.size() / (kUnpackedAtATime + (16 << 10)));
  EXPECT_TRUE(intake.release().body->bytes == text);
}

TEST_F(IntakeTest, LeaveIsGrantedOnce) {
  intake_.feed(head("POST /heavy", "Content-Length: 5\r\nExpect: 100-continue\r\n"));
  EXPECT_EQ(intake_.state(), State::kBody);
  EXPECT_TRUE(intake_.grants_leave());
  EXPECT_FALSE(intake_.grants_leave());
}

TEST_F(IntakeTest, AServerThatStopsTakesNone) {
  core_.stopping = true;
  intake_.feed(post(5));
  EXPECT_EQ(intake_.verdict().status, 503);
}

}  // namespace
}  // namespace kvkeep::server
