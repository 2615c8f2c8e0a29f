#include "server/http/reply_head.h"

#include <gtest/gtest.h>

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

}  // namespace
}  // namespace kvkeep::server
