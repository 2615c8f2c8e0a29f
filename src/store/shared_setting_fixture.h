#pragma once

// The kinds of two servers on one directory, and the segments that they store.

#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "testing/sim/fault_loop.h"
#include "testing/sim/sample_segments.h"

namespace kvkeep::store {

using sim::FaultCase;
using sim::SampleSegment;

inline constexpr int kSegments = 10;
inline const std::string kRoot = "/cache";

struct Setting {
  const char* name;
  bool faulty_keeps;  // the process that faults are about opens first
  bool same_model;
  ByteCount budget;
  bool limits_writes = false;
};
inline constexpr ByteCount kTight{114'688};
inline constexpr ByteCount kRoomy{1'228'800};
// So much that the rest shows whether bytes were counted that no server wrote.
inline constexpr ByteCount kWrittenPerDay = mebibytes(64 << 10);

inline FingerprintHash model_of(const Setting& setting, std::size_t process) {
  return sim::sample_fingerprint(setting.same_model ? 1 : static_cast<std::uint8_t>(1 + process));
}

// Conversation 0 of the first process, 1 of the second; 2 both store.
inline SampleSegment make_segment(const FingerprintHash& model, std::uint32_t conversation, int number) {
  constexpr std::size_t kSizes[] = {700, 5000, 9000};
  return sim::sample_segment(model, conversation + 1, static_cast<std::uint32_t>(number), kSizes[number % 3]);
}

inline const SampleSegment& segment_of(const FingerprintHash& model, std::uint32_t conversation, int number) {
  static std::map<std::tuple<int, std::uint32_t, int>, SampleSegment> made;
  const auto key = std::tuple(static_cast<int>(model.bytes[0]), conversation, number);
  if (!made.contains(key)) made.emplace(key, make_segment(model, conversation, number));
  return made.at(key);
}

inline const std::vector<Setting>& settings() {
  static const std::vector<Setting> all = {
      {"a member meets faults", false, true, kRoomy},
      {"a member meets faults, tight", false, true, kTight},
      {"a member of another model meets faults, tight", false, false, kTight, true},
      {"the keeper meets faults", true, true, kRoomy},
      {"the keeper meets faults, tight", true, true, kTight},
      {"the keeper of another model meets faults, tight", true, false, kTight},
  };
  return all;
}

}  // namespace kvkeep::store
