#include "server/web/page.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <regex>
#include <set>
#include <string>

#include "server/http/gunzip.h"

namespace kvkeep::server {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

std::string_view text_of(std::string_view path) {
  for (const PageFile& file : page_files()) {
    if (file.path == path) return file.text;
  }
  return {};
}

std::string unpacked(std::string_view packed) {
  Gunzip gunzip;
  std::string text(1 << 20, '\0');
  const Gunzip::Step step = gunzip.unpack(packed, text);
  EXPECT_FALSE(step.damaged);
  EXPECT_TRUE(gunzip.at_end());
  text.resize(step.made);
  return text;
}

TEST(Page, LoadsOnlyFilesOfThisServerThatAreThere) {
  const std::string page(text_of("/"));
  const std::regex reference(R"re((?:href|src)="([^"?]*)\?v=[0-9a-f]{12}")re");
  std::set<std::string> loaded;
  for (std::sregex_iterator at(page.begin(), page.end(), reference), end; at != end; ++at)
    loaded.insert("/" + (*at)[1].str());
  std::set<std::string> there;
  for (const PageFile& file : page_files().subspan(1)) there.emplace(file.path);
  EXPECT_EQ(loaded, there);
  EXPECT_EQ(page_files().front().path, "/");
}

TEST(Page, ReachesNoOtherPlace) {
  for (const PageFile& file : page_files()) {
    std::string text(file.text);
    // Names of vocabularies, which nothing is loaded from.
    for (const std::string name :
         {"http://www.w3.org/2000/svg", "http://www.w3.org/1999/xhtml", "http://www.w3.org/1998/Math/MathML"}) {
      for (auto at = text.find(name); at != std::string::npos; at = text.find(name)) text.erase(at, name.size());
    }
    EXPECT_THAT(text, Not(HasSubstr("http://"))) << file.path;
    EXPECT_THAT(text, Not(HasSubstr("https://"))) << file.path;
    EXPECT_THAT(text, Not(HasSubstr("eval("))) << file.path;
    // Preact can make markup of a string, for a property that no element of the page has.
    EXPECT_THAT(text, Not(HasSubstr("dangerouslySetInnerHTML:"))) << file.path;
    EXPECT_FALSE(std::regex_search(text, std::regex(R"(innerHTML=(?!\w+\.__html))"))) << file.path;
  }
}

TEST(Page, IsSmall) {
  std::size_t bytes = 0;
  std::size_t packed_bytes = 0;
  for (const PageFile& file : page_files()) {
    bytes += file.text.size();
    packed_bytes += gzip(file.text).size();
    EXPECT_FALSE(file.text.empty());
  }
  EXPECT_LE(bytes, 300'000U);
  EXPECT_LE(packed_bytes, bytes / 2);
}

TEST(Page, IsPackedWithoutLoss) {
  for (const PageFile& file : page_files()) EXPECT_EQ(unpacked(gzip(file.text)), file.text) << file.path;
  EXPECT_EQ(unpacked(gzip("")), "");
}

TEST(Page, IsPackedOnlyForClientsThatSaySo) {
  for (const char* accepted : {"gzip", "gzip, deflate, br", "br;q=1.0, GZIP;q=0.8", "deflate,x-gzip", "*",
                               "identity;q=0, *;q=0.5", "gzip ; q=1"}) {
    EXPECT_TRUE(accepts_gzip(accepted)) << accepted;
  }
  for (const char* other : {"", "identity", "br", "gzip;q=0", "gzip;q=0.000", "*;q=0", "gzip;q=", "gzip;q=much",
                            "gzip;q=0, *", "gzipped", ",;,"}) {
    EXPECT_FALSE(accepts_gzip(other)) << other;
  }
}

TEST(Page, IsHeldToItsOwnScriptsAndServer) {
  const auto value = [](const HeaderList& fields, std::string_view name) {
    const auto found = std::ranges::find(fields, name, [](const auto& field) { return field.first; });
    return found == fields.end() ? std::string() : found->second;
  };
  for (const bool is_page : {true, false}) {
    const HeaderList fields = page_headers(is_page);
    const std::string policy = value(fields, "Content-Security-Policy");
    EXPECT_THAT(policy, HasSubstr("default-src 'none'"));
    EXPECT_THAT(policy, HasSubstr("frame-ancestors 'none'"));
    EXPECT_THAT(policy, Not(HasSubstr("unsafe")));
    EXPECT_THAT(policy, Not(HasSubstr("*")));
    EXPECT_EQ(value(fields, "X-Content-Type-Options"), "nosniff");
  }
  EXPECT_EQ(value(page_headers(true), "Cache-Control"), "no-cache");
  EXPECT_THAT(value(page_headers(false), "Cache-Control"), HasSubstr("immutable"));
}

// Routes as they are added, called without a socket.
class Recorder final : public HttpServer {
 public:
  void route(std::string method, std::string path, Handler handler, RouteOptions options) override {
    EXPECT_EQ(method, "GET");
    EXPECT_TRUE(options.is_public && options.is_light) << path;
    routes.emplace_back(std::move(path), std::move(handler));
  }
  const Handler* handler(std::string_view /*method*/, std::string_view /*path*/) const override { return nullptr; }
  void shape_errors(ErrorShape /*shape*/) override {}
  void explain_path(std::string /*path*/, std::string /*words*/) override {}
  void set_apart(std::function<Lane(const HttpRequest&)>) override {}
  void on_leave(std::function<void()> /*task*/) override {}
  UnreadCounts unread() const override { return {}; }
  const std::vector<ListeningPlace>& places() const override { return places_; }
  int port() const override { return 0; }
  std::string address() const override { return {}; }
  void serve() override {}
  bool stop(std::int64_t /*drain_ms*/) override { return true; }

  std::vector<std::pair<std::string, Handler>> routes;

 private:
  const std::vector<ListeningPlace> places_;
};

class Catcher final : public ResponseWriter {
 public:
  void send(int status, std::string_view type, std::string text, const HeaderList& fields) override {
    EXPECT_EQ(status, 200);
    content_type = type;
    body = std::move(text);
    headers = fields;
  }
  bool begin_stream(int /*status*/, std::string_view /*type*/, const HeaderList& /*fields*/) override { return false; }
  bool write(std::string_view /*piece*/) override { return false; }
  void end() override {}
  bool started() const override { return !content_type.empty(); }
  std::shared_ptr<ResponseWriter> keep() override { return nullptr; }
  bool client_gone() const override { return false; }
  void post(std::function<void()> /*task*/) override {}
  void post_work(std::function<void()> /*task*/) override {}
  void on_silence(std::int64_t /*silence_ms*/, std::function<void()> /*task*/) override {}

  std::string content_type;
  std::string body;
  HeaderList headers;
};

TEST(Page, AnswersWithEachFileAsItsClientTakesIt) {
  Recorder server;
  add_page_routes(server);
  ASSERT_EQ(server.routes.size(), page_files().size());
  for (const auto& [path, handler] : server.routes) {
    for (const bool packs : {false, true}) {
      HttpRequest request;
      request.path = path;
      if (packs) request.headers = {{"Accept-Encoding", "gzip"}};
      Catcher reply;
      handler(request, reply);
      EXPECT_EQ(packs ? unpacked(reply.body) : reply.body, text_of(path));
      const bool says_so =
          std::ranges::find(reply.headers, HeaderList::value_type{"Content-Encoding", "gzip"}) != reply.headers.end();
      EXPECT_EQ(says_so, packs) << path;
    }
  }
}

}  // namespace
}  // namespace kvkeep::server
