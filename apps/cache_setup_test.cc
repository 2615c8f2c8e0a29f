// Facts that outlive a server: state of former versions, and trials of memory classes.

#include "cache_setup.h"

#include <gtest/gtest.h>
#include <spdlog/sinks/ostream_sink.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <memory>
#include <sstream>
#include <string>

#include "format/segment_file.h"
#include "testing/sim/sample_segments.h"
#include "testing/sim/temporary_directory.h"

namespace kvkeep::cli {
namespace {

namespace fs = std::filesystem;

class CacheSetup : public ::testing::Test {
 protected:
  // Returns what is logged of a former version's state.
  std::string told(const Result<FingerprintHash>& former) const {
    std::ostringstream lines;
    const auto before = spdlog::default_logger();
    auto sink = std::make_shared<spdlog::sinks::ostream_sink_st>(lines);
    spdlog::set_default_logger(std::make_shared<spdlog::logger>("test", std::move(sink)));
    DiskTier tier;
    tier.directory = directory_.path();
    tell_of_former_state(tier, former);
    spdlog::set_default_logger(before);
    return lines.str();
  }
  TierOptions tiers() const {
    TierOptions options;
    options.disk_directory = directory_.path();
    return options;
  }

  const sim::TemporaryDirectory directory_;
};

TEST_F(CacheSetup, AFormerDirectoryIsSetAsideWithOneLine) {
  const FingerprintHash former = sim::sample_fingerprint(7);
  EXPECT_EQ(told(former), "") << "there is none";
  const std::string own = directory_.path() + "/" + former.hex();
  fs::create_directory(own);
  std::ofstream(own + "/model.json") << "{}";
  EXPECT_EQ(told(former), "") << "it has no state";
  EXPECT_EQ(told(io_error("the model cannot be read")), "");
  for (std::uint32_t i = 0; i < 2; ++i) {
    const std::string file = own + "/" + format::file_name(sim::sample_segment(former, 1, i, 10).header.name);
    std::ofstream(file) << "state";
    const std::string line = told(former);
    EXPECT_EQ(std::ranges::count(line, '\n'), 1) << line;
    EXPECT_NE(line.find(i == 0 ? "set aside the state" : "(2 files)"), std::string::npos) << line;
    EXPECT_TRUE(fs::exists(file));
  }
}

TEST_F(CacheSetup, TrialsAreKeptNextToTheState) {
  const std::string name(64, 'a');
  kept_trials(tiers())->keep(name, "passed;cloned;sliceable;");
  EXPECT_EQ(kept_trials(tiers())->find(name), "passed;cloned;sliceable;") << "another start finds it";
  EXPECT_EQ(kept_trials(tiers())->find(std::string(64, 'b')), std::nullopt);
  TierOptions without = tiers();
  without.use_disk = false;
  EXPECT_EQ(kept_trials(without), nullptr);
}

}  // namespace
}  // namespace kvkeep::cli
