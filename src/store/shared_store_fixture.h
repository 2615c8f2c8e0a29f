#pragma once

// Several servers on one directory of the machine's own file system.

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <vector>

#include "store/disk_store.h"
#include "store/layout.h"
#include "store/servers.h"
#include "testing/sim/sample_segments.h"
#include "testing/sim/sim_clock.h"
#include "testing/sim/temporary_directory.h"

namespace kvkeep::store {

namespace fs = std::filesystem;
using sim::sample_segment;
using sim::SampleSegment;

inline const FingerprintHash kModel = sim::sample_fingerprint(0xab);
inline const FingerprintHash kOtherModel = sim::sample_fingerprint(0xcd);

class SharedStoreTest : public testing::Test {
 protected:
  std::unique_ptr<DiskStore> open(const FingerprintHash& fingerprint = kModel, ByteCount budget = mebibytes(64)) {
    auto store = DiskStore::open(
        {.directory = root(), .fingerprint = fingerprint, .budget = budget, .written_per_day = written_per_day_},
        os::real_file_system(), clock_);
    EXPECT_TRUE(store.ok()) << (store.ok() ? "" : store.error().message);
    return store.ok() ? std::move(*store) : nullptr;
  }
  DiskTick tick(DiskStore& store) {
    clock_.advance_ms(10'000);
    return store.tick();
  }
  std::string root() const { return directory_.path() + "/cache"; }
  std::string servers() const { return root() + "/servers"; }
  static Status put(DiskStore& store, const SampleSegment& segment) {
    return store.put(segment.header, {{segment.header.name.kind, segment.payload}});
  }
  static bool has(DiskStore& store, const SampleSegment& segment) {
    std::vector<std::byte> out(segment.payload.size());
    return store.get(segment.header, segment.header.name.kind, out).ok() && out == segment.payload;
  }
  void plant(const std::string& name) {
    fs::create_directories(servers());
    std::ofstream(servers() + "/" + name) << "x";
  }
  std::vector<std::string> names() const {
    std::vector<std::string> found;
    if (!fs::exists(servers())) return found;
    for (const auto& entry : fs::directory_iterator(servers())) found.push_back(entry.path().filename());
    return found;
  }

  static std::uint64_t left(DiskStore& store) {
    const auto allowance = store.writes();
    return allowance ? allowance->left.value() : 0;
  }

  const sim::TemporaryDirectory directory_;
  sim::SimClock clock_;
  ByteCount written_per_day_;
  const SampleSegment first_ = sample_segment(kModel, 1, 0, 10'000);
  const SampleSegment second_ = sample_segment(kModel, 1, 1, 5'000);
  const SampleSegment third_ = sample_segment(kModel, 1, 2, 5'000);
};

}  // namespace kvkeep::store
