#pragma once

// Statistics of a cache, as monitors read them.

#include <array>
#include <cstddef>
#include <cstdint>

#include "base/figures.h"
#include "base/types.h"

namespace kvkeep::cache {

// Why a tier drops a segment or leaf.
enum class EvictCause : std::uint8_t {
  kRoom,         // the tier is full
  kPointsShare,  // points and windows fill their share of the disk
  kExpired,      // unused for the time to live
};
inline constexpr std::size_t kEvictCauses = static_cast<std::size_t>(EvictCause::kExpired) + 1;

// Segments and leaves that a tier dropped.
struct EvictionCounts {
  std::array<std::uint64_t, kEvictCauses> by_cause{};  // by EvictCause
  IdleTimes idle;                                      // how long they had been unused
  std::uint64_t count() const { return idle.count(); }
  std::uint64_t operator[](EvictCause cause) const { return by_cause[static_cast<std::size_t>(cause)]; }
  void add(EvictCause cause, std::int64_t idle_ns) {
    ++by_cause[static_cast<std::size_t>(cause)];
    idle.add(static_cast<double>(idle_ns) / 1e9);
  }
};

// This server among those that use its directory (docs/format.md, "Several servers").
struct DirectoryShare {
  bool has_disk = false;  // else the rest means nothing
  bool keeper = false;    // holds the budget and evicts
  bool shared = false;    // others use the directory, or may do so
  ByteCount lease_left;   // a member may still write so much
};

struct CacheStats {
  std::uint64_t segments = 0;
  std::uint64_t tokens = 0;  // tokens with rows, prefixes shared counted once
  std::uint64_t points = 0;  // points, whole states and windows
  std::uint64_t built = 0;   // whole states that were stored as differences from another
  ByteCount built_saved;     // bytes that the differences saved
  ByteCount points_ram;      // their share of ram_used and disk_used
  ByteCount points_disk;
  ByteCount ram_used;
  ByteCount ram_budget;
  ByteCount disk_used;
  ByteCount disk_budget;
  ByteCount index_memory;
  ByteCount staging_idle;  // buffers that wait for rows, not in ram_used
  // Segments and points:
  std::uint64_t stored = 0;          // accepted by store(), store_point() and store_window()
  std::uint64_t refused = 0;         // not accepted: no room
  std::uint64_t disk_refused = 0;    // could not be put on disk
  bool distrusted = false;           // an audit found stored state wrong: nothing is used, and nothing is stored
  std::uint64_t damaged = 0;         // found damaged when loaded
  std::uint64_t expired = 0;         // left at the end of the time to live
  std::uint64_t waiting_writes = 0;  // in the write queue
  std::uint64_t held_back = 0;       // did not enter it at once, because the writer lags
  std::uint64_t remembered = 0;      // of those still waiting, see CacheOptions::most_waiting
  std::uint64_t disk_stops = 0;      // times that the file system had too little free space
  std::uint64_t put_off = 0;         // times that one waited in RAM for the next day's writes
  bool disk_stopped = false;         // the file system has too little free space now
  std::uint64_t fresh_buffers = 0;   // times that staging() found no buffer ready
  ByteCount stored_bytes;            // of the stored ones
  Moved written;                     // to disk
  EvictionCounts from_ram;
  EvictionCounts from_disk;
  IdleTimes reuse;  // how long state had been unused that a request reused
  DirectoryShare directory;
};

}  // namespace kvkeep::cache
