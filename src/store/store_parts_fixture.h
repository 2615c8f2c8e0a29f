#pragma once

// The parts of a store, put together without one, over a simulated disk.

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "store/publisher.h"
#include "store/segment_io.h"
#include "testing/sim/sample_segments.h"
#include "testing/sim/sim_clock.h"
#include "testing/sim/sim_file_system.h"

namespace kvkeep::store {

using sim::sample_fingerprint;
using sim::sample_segment;
using sim::SampleSegment;

inline std::vector<std::byte> bytes_of_file(const SampleSegment& segment) {
  std::vector<std::byte> bytes = format::encode_header(segment.header);
  bytes.insert(bytes.end(), segment.payload.begin(), segment.payload.end());
  return bytes;
}

// One server's parts. Two of them may use one disk.
struct StoreParts {
  StoreParts(sim::SimFileSystem& on, sim::SimClock& time, FingerprintHash fingerprint = sample_fingerprint(1),
             ByteCount budget = mebibytes(1))
      : files(on), clock(time), options{.directory = "/cache", .fingerprint = fingerprint, .budget = budget} {
    (void)files.make_directories(place.layout.own).ok();
  }

  std::string path_of(const SampleSegment& segment) const {
    return "/cache/" + segment.header.fingerprint.hex() + "/" + format::file_name(segment.header.name);
  }
  void plant(const std::string& path, std::vector<std::byte> bytes) {
    (void)files.make_directories(directory_of(path)).ok();
    files.plant(path, std::move(bytes));
  }
  void plant(const SampleSegment& segment) { plant(path_of(segment), bytes_of_file(segment)); }
  Status publish(const SampleSegment& segment, bool over = false) {
    const std::vector<PartBytes> parts{{segment.header.name.kind, segment.payload}};
    const auto header = complete_header(segment.header, parts);
    const Draft draft{.file_name = format::file_name(segment.header.name),
                      .file = {.name = segment.header.name,
                               .header = format::encode_header(*header),
                               .size_bytes = format::file_bytes(*header),
                               .modified_ns = clock.wall_ns(),
                               .durable = true},
                      .parts = parts};
    if (!ledger.reserve(draft.file.physical())) return no_space("the ledger is full");
    return over ? publisher.publish_over(draft, "me") : publisher.publish(draft, "me");
  }
  bool serves(const SampleSegment& segment) const {
    return served.generation_of(format::file_name(segment.header.name)).has_value();
  }

  sim::SimFileSystem& files;
  sim::SimClock& clock;
  const DiskOptions options;
  const Place place{make_layout(options.directory, options.fingerprint), files, clock};
  SpaceLedger ledger{options.budget};
  DiskCounting counting;
  Syncs syncs{files, ledger, counting};
  ServedFiles served;
  WriteBudget writes{place.layout.writes, mebibytes(64 << 10), files, clock};
  Inventory inventory{options, place, ledger, served, counting};
  Publisher publisher{place, ledger, syncs, served, inventory, writes, counting};
};

}  // namespace kvkeep::store
