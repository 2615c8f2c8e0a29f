// The head of a reply, and its line of the log.

#include "server/http/reply_head.h"

#include <gtest/gtest.h>
#include <spdlog/sinks/base_sink.h>
#include <spdlog/spdlog.h>

#include <memory>
#include <optional>
#include <string>

#include "base/log_fields.h"
#include "base/mutex.h"  // std::mutex
#include "server/http/http_log.h"

namespace kvkeep::server {
namespace {

TEST(ReplyHead, AWholeReply) {
  const ReplyHead head{.status = 200, .content_type = "text/plain", .body_bytes = 3, .idle_s = 30};
  EXPECT_EQ(reply_head(head, {{"A", "1"}}, {{"B", "2"}}),
            "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 3\r\nA: 1\r\nB: 2\r\n"
            "Keep-Alive: timeout=30\r\n\r\n");
}

TEST(ReplyHead, AStreamThatEndsTheConnection) {
  EXPECT_EQ(
      reply_head({.status = 200, .content_type = "text/event-stream", .closes = true, .is_chunked = true}, {}, {}),
      "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n");
}

TEST(ReplyHead, RefusalsForNowSayWhenToComeAgain) {
  for (const int status : {503, 529}) {
    const std::string head = reply_head({.status = status, .body_bytes = 0}, {}, {});
    EXPECT_NE(head.find("\r\nRetry-After: 1\r\n"), std::string::npos) << head;
  }
  EXPECT_TRUE(is_for_now(503) && is_for_now(529) && !is_for_now(500));
  const std::string own = reply_head({.status = 503, .body_bytes = 0}, {}, {{"retry-after", "7"}});
  EXPECT_EQ(own.find("Retry-After: 1"), std::string::npos) << own;
  EXPECT_EQ(reply_head({.status = 500, .body_bytes = 0}, {}, {}).find("Retry-After"), std::string::npos);
}

TEST(ReplyHead, NoContentHasNoLength) {
  EXPECT_EQ(reply_head({.status = 204, .body_bytes = 0}, {}, {}).find("Content-Length"), std::string::npos);
}

// Keeps the last line and its fields.
class LastLine final : public spdlog::sinks::base_sink<std::mutex> {
 public:
  std::string text;
  std::optional<LogFields> fields;

 private:
  void sink_it_(const spdlog::details::log_msg& message) override {
    text.assign(message.payload.data(), message.payload.size());
    fields.reset();
    if (const LogFields* given = WithLogFields::current()) fields = *given;
  }
  void flush_() override {}
};

TEST(LogExchange, RefusalsHaveFieldsThatNoTextOfAClientCanFake) {
  const auto line = std::make_shared<LastLine>();
  const auto before = spdlog::default_logger();
  spdlog::set_default_logger(std::make_shared<spdlog::logger>("test", line));
  log_exchange("POST", "/v1/x", 400, R"({"error":{"message":"no \"status=200\"\n","code":400}})");
  EXPECT_TRUE(line->text.starts_with("http POST /v1/x 400 {\"error\"")) << line->text;
  const LogFields refused = {
      {"method", "POST"}, {"path", "/v1/x"}, {"status", std::int64_t{400}}, {"error", "no \"status=200\"?"}};
  EXPECT_EQ(line->fields, refused);
  log_exchange("GET", "/", 503, R"({"error":"asleep"})");
  ASSERT_TRUE(line->fields);
  EXPECT_EQ(line->fields->back(), (LogField{"error", "asleep"}));
  for (const char* body : {"", "{", "[]", R"({"error":{}})", R"({"error":7})", R"({"error":{"message":7}})"}) {
    log_exchange("GET", "/", 404, body);
    ASSERT_TRUE(line->fields);
    EXPECT_EQ(line->fields->size(), 3U) << body;
  }
  line->text.clear();
  log_exchange("GET", "/", 200, "{}");
  EXPECT_EQ(line->text, "") << "a line of the debug level";
  spdlog::set_default_logger(before);
}

}  // namespace
}  // namespace kvkeep::server
