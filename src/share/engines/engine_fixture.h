#pragma once

// Engines over real servers, and objects to keep in them.

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "os/child_process.h"
#include "os/clock.h"
#include "os/paths.h"
#include "os/threads.h"
#include "share/engines/make_engine.h"
#include "testing/sim/sample_segments.h"

namespace kvkeep::share {

inline std::int64_t in_ms(std::int64_t ms) { return os::real_clock().monotonic_ns() + ms * 1'000'000; }
inline std::int64_t soon() { return in_ms(60'000); }

inline ObjectName object_name(std::uint32_t number, ObjectKind kind = ObjectKind::kRows) {
  PrefixHash hash;
  for (std::size_t i = 0; i < 4; ++i) hash.bytes[i] = static_cast<std::uint8_t>(number * 2654435761u >> (8 * i));
  return {"00112233aabbccdd", hash.hex(16), kind};
}

// Returns an engine whose nodes were probed.
inline std::unique_ptr<ObjectEngine> open_engine(const std::string& text, const EngineSecrets& secrets = {}) {
  const auto url = parse_engine_url(text);
  EXPECT_TRUE(url.ok()) << url.error().message;
  auto engine = make_engine(*url, secrets, os::real_clock(), os::real_file_system());
  EXPECT_TRUE(engine.ok()) << engine.error().message;
  for (std::uint32_t node = 0; node < (*engine)->nodes(); ++node) (void)(*engine)->probe(NodeId{node}, soon());
  return std::move(*engine);
}

inline Result<std::vector<std::byte>> read_payload(ObjectEngine& engine, const ObjectName& name, std::size_t head_bytes,
                                                   std::size_t payload_bytes, std::int64_t deadline_ns = soon()) {
  std::vector<std::byte> out(payload_bytes);
  std::size_t arrived = 0;
  TRY(engine.get(
      name, {.head_bytes = head_bytes, .begin = 0, .payload_bytes = payload_bytes}, out,
      [&](std::size_t count) {
        EXPECT_GE(count, arrived);
        arrived = count;
      },
      deadline_ns));
  EXPECT_EQ(arrived, payload_bytes);
  return out;
}

// The S3 double of testing/share, a program of Python.
class S3Double {
 public:
  explicit S3Double(const std::vector<std::string>& flags = {}) {
    const std::string file = folder_.path() + "/port";
    std::vector<std::string> arguments{"-B", KVKEEP_TESTING "/share/s3_double.py", "--port-file", file, "--most-keys",
                                       "7"};
    arguments.insert(arguments.end(), flags.begin(), flags.end());
    auto child = os::start_child(
        {.program = "python3", .arguments = arguments, .environment = {}, .output_path = folder_.path() + "/log"});
    EXPECT_TRUE(child.ok());
    child_ = std::move(*child);
    EXPECT_TRUE(os::wait_until(20'000, [&] { return std::filesystem::exists(file); }));
    std::ifstream(file) >> port_;
  }
  std::string url(const std::string& region = "eu-test-1", const std::string& bucket = "kvbucket") const {
    return "s3://" + bucket + "/some/prefix?endpoint=http://127.0.0.1:" + port_ + "&region=" + region;
  }
  static EngineSecrets secrets() { return {.access_key = "kvkey", .secret_key = "kvsecret"}; }
  void kill() { child_->kill(); }

 private:
  os::TemporaryDirectory folder_ = *os::TemporaryDirectory::make("kvkeep-s3-");
  std::unique_ptr<os::ChildProcess> child_;
  std::string port_;
};

}  // namespace kvkeep::share
