// The gatekeeper without sockets: which requests reach which route, and what the others are told.

#include "server/http/gatekeeper.h"

#include <gtest/gtest.h>

namespace kvkeep::server {
namespace {

Gatekeeper gatekeeper(HttpOptions options = {}) {
  Gatekeeper made = std::move(*Gatekeeper::make(options));
  for (const char* path : {"/health", "/v1/health", "/v1/models", "/v1/models/a", "/props"}) {
    made.add({"GET", path, {}, {.is_public = true}});
  }
  for (const char* path : {"/v1/chat/completions", "/v1/chat/completions/input_tokens", "/v1/completions", "/props"}) {
    made.add({"POST", path, {}, {}});
  }
  return made;
}

HttpRequest request_of(std::string method, std::string path, HeaderList more = {}) {
  HttpRequest request;
  request.method = std::move(method);
  request.path = std::move(path);
  request.headers = {{"Host", "localhost"}};
  request.headers.insert(request.headers.end(), more.begin(), more.end());
  return request;
}

std::string field_of(const Verdict& verdict, std::string_view name) {
  for (const auto& [field, value] : verdict.headers) {
    if (field == name) return value;
  }
  return "";
}

TEST(Gatekeeper, AllowListsTheMethodsThatThePathHas) {
  const Gatekeeper keeper = gatekeeper();
  for (const auto& [path, methods] :
       std::vector<std::pair<std::string, std::string>>{{"/health", "GET, HEAD, OPTIONS"},
                                                        {"/v1/completions", "POST, OPTIONS"},
                                                        {"/props", "GET, HEAD, POST, OPTIONS"},
                                                        {"*", "GET, HEAD, POST, OPTIONS"}}) {
    const Verdict options = keeper.judge(request_of("OPTIONS", path));
    EXPECT_EQ(options.status, 200) << path;
    EXPECT_EQ(field_of(options, "Allow"), methods) << path;
  }
  const Verdict wrong = keeper.judge(request_of("DELETE", "/health"));
  EXPECT_EQ(wrong.status, 405);
  EXPECT_EQ(field_of(wrong, "Allow"), "GET, HEAD, OPTIONS");
  EXPECT_EQ(wrong.reason, "Path '/health' takes GET, HEAD, OPTIONS, not DELETE");
  EXPECT_EQ(keeper.judge(request_of("OPTIONS", "/nowhere")).status, 404);
}

TEST(Gatekeeper, AStarStandsForOneSegment) {
  Gatekeeper keeper = gatekeeper();
  keeper.add({"POST", "/slots/*", {}, {}});
  for (const char* path : {"/slots/0", "/slots/abc", "/slots/*"}) {
    ASSERT_NE(keeper.judge(request_of("POST", path)).route, nullptr) << path;
    EXPECT_EQ(keeper.judge(request_of("POST", path)).route->path, "/slots/*");
  }
  EXPECT_EQ(keeper.judge(request_of("GET", "/slots/0")).status, 405);
  for (const char* path : {"/slots/", "/slots", "/slots/0/1", "/slot/0"}) {
    EXPECT_EQ(keeper.judge(request_of("POST", path)).status, 404) << path;
  }
  EXPECT_EQ(keeper.judge(request_of("POST", "/slot/*")).reason.find("did you mean"), std::string::npos);
  EXPECT_EQ(keeper.route("POST", "/slots/7"), keeper.judge(request_of("POST", "/slots/8")).route);
  EXPECT_EQ(keeper.route("POST", "/nowhere"), nullptr);
}

// Else the browser would show its page no reason at all.
TEST(Gatekeeper, APreflightOfAnUnknownPathPasses) {
  HttpOptions options;
  options.allowed_origins = {"http://page.example"};
  const Gatekeeper keeper = gatekeeper(options);
  const HeaderList asked = {{"Origin", "http://page.example"}, {"Access-Control-Request-Method", "GET"}};
  const Verdict known = keeper.judge(request_of("OPTIONS", "/health", asked));
  EXPECT_EQ(field_of(known, "Access-Control-Allow-Methods"), "GET, HEAD, OPTIONS");
  const Verdict unknown = keeper.judge(request_of("OPTIONS", "/nowhere", asked));
  EXPECT_EQ(unknown.status, 200);
  EXPECT_EQ(field_of(unknown, "Access-Control-Allow-Methods"), "GET, HEAD, POST, OPTIONS");
}

TEST(Gatekeeper, ABaseUrlNamesThePathsBelowIt) {
  Gatekeeper keeper = gatekeeper();
  const std::string below =
      "is not served here, but below it there is '/v1/health', '/v1/models', '/v1/chat/completions', '/v1/completions'";
  EXPECT_EQ(keeper.judge(request_of("GET", "/v1")).reason, "Path '/v1' " + below);
  EXPECT_EQ(keeper.judge(request_of("POST", "/v1/")).reason, "Path '/v1/' " + below);
  EXPECT_EQ(keeper.judge(request_of("GET", "/v1/chat")).reason,
            "Path '/v1/chat' is not served here, but below it there is '/v1/chat/completions'");
  EXPECT_EQ(keeper.judge(request_of("GET", "/v1/model")).reason,
            "Path '/v1/model' is not served here; did you mean '/v1/models'?");
  EXPECT_EQ(keeper.judge(request_of("GET", "/nowhere")).reason, "Path '/nowhere' is not served here");
  keeper.explain_path("/other/chat", "; ask '/v1/chat/completions'");
  keeper.explain_path("/other/*", ": another program's");
  EXPECT_EQ(keeper.judge(request_of("GET", "/other/chat")).reason,
            "Path '/other/chat' is not served here; ask '/v1/chat/completions'");
  EXPECT_EQ(keeper.judge(request_of("POST", "/other/chats")).reason,
            "Path '/other/chats' is not served here: another program's");
  EXPECT_EQ(keeper.judge(request_of("GET", "/other/chat")).status, 404);
}

TEST(HttpRequest, ParametersAreFoundByTheirWholeName) {
  HttpRequest request;
  EXPECT_EQ(request.parameter("a"), "");
  request.query = "ab=1&a=&b=2&a=3&c=%20=x";
  EXPECT_EQ(request.parameter("a"), "");
  EXPECT_EQ(request.parameter("b"), "2");
  EXPECT_EQ(request.parameter("ab"), "1");
  EXPECT_EQ(request.parameter("c"), "%20=x");
  EXPECT_EQ(request.parameter("d"), "");
}

TEST(Gatekeeper, ARefusalNamesAFewPathsOnly) {
  Gatekeeper keeper = gatekeeper();
  for (const char letter : std::string("abcdefghijklm")) keeper.add({"GET", std::string("/many/") + letter, {}, {}});
  const std::string reason = keeper.judge(request_of("GET", "/many")).reason;
  EXPECT_NE(reason.find("'/many/h'"), std::string::npos) << reason;
  EXPECT_EQ(reason.find("'/many/i'"), std::string::npos) << reason;
}

}  // namespace
}  // namespace kvkeep::server
