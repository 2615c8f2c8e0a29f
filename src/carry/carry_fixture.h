#pragma once

// Directories of tests, an engine between them, and the calls that carry state.

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "carry/carry.h"
#include "carry/namespaces.h"
#include "inspect/sample_directory_test.h"
#include "inspect/verify.h"
#include "share/frail_engine_fixture.h"
#include "testing/sim/sim_executor.h"

namespace kvkeep::carry {

using inspect::kModel;
using inspect::kOtherModel;
using inspect::SampleDirectory;

inline const std::string kDevice = "CPU SSE3 AVX2";
inline const std::string kKey = "a secret";
inline const std::string kFolder = inspect::kRoot + "/" + kModel.hex();

// Writes down which device computed what a directory holds.
inline void note_device(os::FileSystem& files, const std::string& device) {
  EXPECT_TRUE(files.make_directories(kFolder));
  EXPECT_TRUE(inspect::write_model_note(files, kFolder, {.name = "tiny", .devices = {device}}));
}

// Returns the segments and turns of the model, by name.
inline std::map<std::string, std::vector<std::byte>> contents_of(const sim::SimFileSystem& files) {
  std::map<std::string, std::vector<std::byte>> contents;
  for (const std::string& path : files.paths()) {
    const bool wanted = path.ends_with(".kvs") || path.ends_with("/turns");
    if (path.starts_with(kFolder + "/") && wanted) contents[path.substr(kFolder.size() + 1)] = *files.contents(path);
  }
  return contents;
}

class Carrying : public ::testing::Test {
 protected:
  share::EngineAccess access() {
    return {engine_, clock_, [this](int tries, const Error&) {
              clock_.advance_ms(1000);
              return tries < 2;
            }};
  }
  share::Warehouse warehouse(const std::string& device = kDevice) {
    return {access(), {.fingerprint = kModel, .device = device, .key = kKey, .encrypt = encrypt_}, 3600};
  }
  Result<CarryReport> push_from(sim::SimFileSystem& files, const CarryOptions& options = {}) {
    auto model = inspect::read_model(files, inspect::kRoot, kModel);
    if (!model) return model.error();
    share::Warehouse engine = warehouse();
    return push(files, *model, kDevice, engine, options);
  }
  Result<CarryReport> pull_into(sim::SimFileSystem& files, const CarryOptions& options = {},
                                PullTarget target = {.root = inspect::kRoot, .room = mebibytes(64)}) {
    target.own_mark = "pull-1";
    target.turn_memory = mebibytes(1);
    target.device = kDevice;
    auto spaces = find_namespaces(access(), kKey);
    if (!spaces) return spaces.error();
    const std::string space = warehouse().vault().space();
    const auto found = std::ranges::find(*spaces, space, &Namespace::space);
    if (found == spaces->end() || !found->fingerprint) return not_found("no such namespace");
    share::Warehouse engine = warehouse();
    return pull(files, *found, engine, target, options);
  }
  // Returns true if everything in the directory is whole and leads somewhere.
  static bool is_clean(sim::SimFileSystem& files) {
    sim::SimExecutor executor;
    const auto found = inspect::find_models(files, inspect::kRoot);
    return found.ok() && inspect::verify(files, *found, {&executor})->clean();
  }

  sim::SimClock clock_;
  share::FrailWorld world_{clock_};
  share::FrailEngine engine_{world_};
  bool encrypt_ = false;  // what is written
};

}  // namespace kvkeep::carry
