#pragma once

// Cache directories of tests: written by the store itself, into a simulated file system.

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "inspect/view.h"
#include "store/disk_store.h"
#include "testing/sim/sample_segments.h"
#include "testing/sim/sim_clock.h"
#include "testing/sim/sim_file_system.h"

namespace kvkeep::inspect {

inline const std::string kRoot = "/cache";
inline const std::string kArchive = "/box/archive";
inline const FingerprintHash kModel = sim::sample_fingerprint(1);
inline const FingerprintHash kOtherModel = sim::sample_fingerprint(2);

// Segment `number` of a conversation that leaves another one, which it shares its first `shared` segments with.
inline sim::SampleSegment branch(std::uint32_t conversation, std::uint32_t number, std::uint32_t shared,
                                 std::uint32_t other, std::size_t size) {
  constexpr std::uint32_t kTokens = 8;
  sim::SampleSegment sample = sim::sample_segment(kModel, conversation, number, size);
  PrefixHasher hasher(kModel);
  const auto append = [&](std::uint32_t from, std::uint32_t to) {
    for (std::uint32_t i = from; i < to; ++i) {
      const std::uint32_t owner = i < kTokens * shared ? other : conversation;
      hasher.append(TokenSpan(std::vector{static_cast<TokenId>(owner * 1000 + i)}));
    }
  };
  format::SegmentName& name = sample.header.name;
  append(0, kTokens * number);
  name.begin_hash = hasher.current();
  append(kTokens * number, kTokens * (number + 1));
  name.end_hash = hasher.current();
  sample.header.parts.front().sum = format::part_checksum(kModel, name, format::PartKind::kRows, sample.payload);
  return sample;
}

// A conversation that leaves conversation 3 at token 4 of its first segment: its file ends before that one does.
inline sim::SampleSegment leaving_in_the_middle(std::size_t size) {
  sim::SampleSegment sample = sim::sample_segment(kModel, 3, 0, size);
  format::SegmentHeader& header = sample.header;
  PrefixHasher hasher(kModel);
  hasher.append(TokenSpan(header.tokens).first(4));
  header.tokens = {7, 8};
  header.name.begin = hasher.position();
  header.name.begin_hash = hasher.current();
  hasher.append(header.tokens);
  header.name.end = hasher.position();
  header.name.end_hash = hasher.current();
  return sample;
}

class SampleDirectory {
 public:
  // Writes the segments as a server would, which is gone afterwards.
  void store(const std::vector<sim::SampleSegment>& segments, const FingerprintHash& fingerprint = kModel) {
    auto opened = store::DiskStore::open({.directory = kRoot, .fingerprint = fingerprint, .budget = mebibytes(64)},
                                         files_, clock_);
    ASSERT_TRUE(opened);
    for (const sim::SampleSegment& segment : segments) {
      ASSERT_TRUE((*opened)->put(segment.header, {{segment.header.name.kind, segment.payload}}));
    }
    (*opened)->save_index();
  }

  std::string path_of(const sim::SampleSegment& segment) const {
    return kRoot + "/" + segment.header.fingerprint.hex() + "/" + format::file_name(segment.header.name);
  }

  // Changes one byte: `at` counts from the end.
  void damage(const sim::SampleSegment& segment, std::size_t at = 1) {
    auto bytes = files_.contents(path_of(segment));
    ASSERT_TRUE(bytes);
    (*bytes)[bytes->size() - at] ^= std::byte{1};
    files_.plant(path_of(segment), *bytes);
  }

  void remove(const sim::SampleSegment& segment) { ASSERT_TRUE(files_.remove(path_of(segment))); }

  // The directory's trees.
  Forest forest() { return plant(read_directory(files_, kRoot).value()); }

  sim::SimFileSystem& files() { return files_; }
  sim::SimClock& clock() { return clock_; }

 private:
  sim::SimFileSystem files_;
  sim::SimClock clock_;
};

}  // namespace kvkeep::inspect
