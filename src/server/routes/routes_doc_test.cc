// docs/compatibility.md names the paths that are served, and no others.

#include <gtest/gtest.h>

#include <fstream>
#include <regex>
#include <set>
#include <string>

#include "server/routes/routes.h"

namespace kvkeep::server {
namespace {

using Paths = std::set<std::string>;

class RecordingServer final : public HttpServer {
 public:
  void route(std::string method, std::string path, Handler /*handler*/, RouteOptions /*options*/) override {
    paths.insert(method + " " + path);
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

  Paths paths;

 private:
  const std::vector<ListeningPlace> places_;
};

// The paths in the first cells of rows whose second cell is "served".
Paths documented() {
  std::ifstream page(KVKEEP_DOCS "/compatibility.md");
  Paths paths;
  const std::regex name("`([A-Z]+ /[^`]*)`");
  for (std::string line; std::getline(page, line);) {
    const std::size_t second = line.find(" | ");
    if (!line.starts_with("| `") || line.substr(second).find(" | served |") != 0) continue;
    const std::string cell = line.substr(0, second);
    for (std::sregex_iterator at(cell.begin(), cell.end(), name), end; at != end; ++at) paths.insert((*at)[1]);
  }
  return paths;
}

TEST(RoutesDoc, NamesEveryServedPathAndNoOther) {
  Service service;
  service.card.id = "NAME";
  service.endpoints.vertex = {.predict = "/predict", .health = "/health"};
  RecordingServer server;
  add_routes(server, service);
  EXPECT_EQ(documented(), server.paths);
}

}  // namespace
}  // namespace kvkeep::server
