#pragma once

// Real Valkey servers on loopback, for tests: alone or as a cluster, killed, stopped and started again.

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "os/child_process.h"
#include "os/network.h"
#include "os/paths.h"
#include "os/process.h"
#include "os/threads.h"

namespace kvkeep::share {

using Arguments = std::vector<std::string>;

// Returns the program: Debian's tools have it under another name, which it heeds.
inline std::string valkey_program(const std::string& folder) {
  for (const char* name : {"valkey-server", "redis-server"}) {
    if (const auto found = os::find_program(name); found.ok()) return *found;
  }
  const auto tools = os::find_program("valkey-check-rdb");
  if (!tools.ok()) return {};
  const std::string link = folder + "/valkey-server";
  if (!std::filesystem::exists(link)) std::filesystem::create_symlink(*tools, link);
  return link;
}

// Runs a tool to its end, and returns what it printed.
inline std::string run_tool(const std::string& name, Arguments arguments) {
  const auto program = os::find_program(name);
  EXPECT_TRUE(program.ok()) << name;
  const auto run = os::run_child({.program = program.ok() ? *program : name,
                                  .arguments = std::move(arguments),
                                  .timeout_ms = 60'000,
                                  .hide_errors = true});
  EXPECT_TRUE(run.ok() && run->succeeded()) << name << (run.ok() ? run->output : run.error().message);
  return run.ok() ? run->output : std::string();
}

class ValkeyServer {
 public:
  explicit ValkeyServer(Arguments more = {}, bool tls = false) : more_(std::move(more)), tls_(tls) {
    // A port may be taken between its choice and its use; and a node of a cluster takes one that is higher by 10,000.
    constexpr int kMostTries = 20;
    for (int i = 0; i < kMostTries && !is_up(); ++i) {
      port_ = *os::free_port();
      if (port_ + 10'000 <= 65'535) launch();
    }
    EXPECT_TRUE(is_up());
  }

  int port() const { return port_; }
  std::string url() const { return (tls_ ? "valkeys://localhost:" : "valkey://127.0.0.1:") + std::to_string(port_); }
  const std::string& folder() const { return folder_.path(); }

  void start() {
    launch();
    EXPECT_TRUE(is_up());
  }
  void kill() {
    child_->kill();
    EXPECT_TRUE(child_->wait(5000).ok());
  }
  void stop() { signal("-STOP"); }
  void go_on() { signal("-CONT"); }
  std::string cli(Arguments words) const {
    words.insert(words.begin(), {"-h", "127.0.0.1", "-p", std::to_string(port_)});
    return run_tool("valkey-cli", std::move(words));
  }

 private:
  bool is_up() { return child_ != nullptr && !child_->ended() && os::try_to_connect("127.0.0.1", port_, 1000).ok(); }
  // Returns when it can be connected to, or has ended.
  void launch() {
    Arguments arguments{tls_ ? "--tls-port" : "--port",
                        std::to_string(port_),
                        "--bind",
                        "127.0.0.1",
                        "--save",
                        "",
                        "--appendonly",
                        "no",
                        "--repl-diskless-sync-delay",  // seconds in which further replicas may come
                        "0",
                        "--dir",
                        folder_.path()};
    if (tls_) arguments.insert(arguments.end(), {"--port", "0"});
    arguments.insert(arguments.end(), more_.begin(), more_.end());
    auto child = os::start_child({.program = valkey_program(folder_.path()),
                                  .arguments = arguments,
                                  .environment = {},
                                  .output_path = folder_.path() + "/log"});
    ASSERT_TRUE(child.ok()) << child.error().message;
    child_ = std::move(*child);
    os::wait_until(20'000,
                   [&] { return child_->ended().has_value() || os::try_to_connect("127.0.0.1", port_, 100).ok(); });
  }
  void signal(const std::string& which) { run_tool("kill", {which, std::to_string(child_->id())}); }

  os::TemporaryDirectory folder_ = *os::TemporaryDirectory::make("kvkeep-valkey-");
  const Arguments more_;
  const bool tls_;
  int port_ = 0;
  std::unique_ptr<os::ChildProcess> child_;
};

// Three masters that go on with the slots that are left when one is gone.
class ValkeyCluster {
 public:
  // `more`: further arguments of each.
  explicit ValkeyCluster(const std::array<Arguments, 3>& more = {}) {
    for (const Arguments& own : more) nodes_.push_back(make_node(own));
    Arguments create{"--cluster", "create"};
    for (const auto& node : nodes_) create.push_back("127.0.0.1:" + std::to_string(node->port()));
    create.push_back("--cluster-yes");
    run_tool("valkey-cli", std::move(create));
    const auto is_well = [&](const auto& node) {
      return node->cli({"cluster", "info"}).find("cluster_state:ok") != std::string::npos;
    };
    EXPECT_TRUE(os::wait_until(20'000, [&] { return std::ranges::all_of(nodes_, is_well); }));
  }
  ValkeyServer& node(std::size_t number) { return *nodes_[number]; }
  // Starts a server that takes over when this node is gone.
  ValkeyServer& add_replica(std::size_t number) {
    nodes_.push_back(make_node({}));
    ValkeyServer& replica = *nodes_.back();
    std::string id = nodes_[number]->cli({"CLUSTER", "MYID"});
    while (id.ends_with('\n')) id.pop_back();
    replica.cli({"CLUSTER", "MEET", "127.0.0.1", std::to_string(nodes_.front()->port())});
    EXPECT_TRUE(os::wait_until(
        20'000, [&] { return replica.cli({"CLUSTER", "REPLICATE", id}).find("OK") != std::string::npos; }));
    EXPECT_TRUE(os::wait_until(
        20'000, [&] { return replica.cli({"INFO", "replication"}).find("link_status:up") != std::string::npos; }));
    return replica;
  }
  // Names one node: the others are found by it.
  std::string url() const { return nodes_.front()->url(); }

 private:
  static std::unique_ptr<ValkeyServer> make_node(const Arguments& more) {
    Arguments arguments{"--cluster-enabled",
                        "yes",
                        "--cluster-node-timeout",
                        "2000",
                        "--cluster-require-full-coverage",
                        "no",
                        "--cluster-allow-reads-when-down",
                        "yes"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return std::make_unique<ValkeyServer>(std::move(arguments));
  }

  std::vector<std::unique_ptr<ValkeyServer>> nodes_;
};

}  // namespace kvkeep::share
