#pragma once

// The machine that this process runs on, for decisions and reports: processors, memory, their names, and the kernel's
// figures on the processors and on every process.

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/types.h"

namespace kvkeep::os {

struct MachineInfo {
  std::string processor;           // "AMD EPYC 7B13"; empty: unknown
  std::uint32_t logical_cpus = 0;  // that this process may run on
  ByteCount memory;                // physical
  std::string system;              // "Debian GNU/Linux 12 (bookworm)"
};

MachineInfo machine_info();

// Returns the physical cores that this process may run on, at least 1. Two hyper-threads of a core count once: matrix
// products gain nothing from the second.
unsigned core_count();

// Returns the memory that can be used without swapping (MemAvailable of /proc/meminfo). kUnsupported if unknown.
Result<ByteCount> available_memory();
// Returns the same from the text of a meminfo file.
Result<ByteCount> parse_available_memory(std::string_view meminfo);

// Asks for pages of 2 MiB where these bytes fill whole ones: the first use of new memory then takes half the time. A
// system that has none ignores it.
void prefer_large_pages(MutableByteSpan bytes);

// Memory of the system in whole pages, at least `size` bytes: in large pages as far as these fit. Empty if there is
// none.
MutableByteSpan map_memory(std::size_t size);
// Precondition: pages that map_memory() gave, or some of them. Multiples of 64 KiB are pages everywhere.
void unmap_memory(MutableByteSpan pages);
// Makes the system give physical pages now. `pages`: as above.
void touch_memory(MutableByteSpan pages);

// The kernel's figures on a process (proc(5)), for benchmarks; the functions below are thread safe.
struct ProcessTime {
  int id = 0;
  int parent = 0;
  std::uint64_t started_ticks = 0;  // since the system's start: tells a process from a later one with its id
  std::string name;                 // of the program, at most 15 characters
  double cpu_s = 0;                 // user and system time of all its threads
  double children_cpu_s = 0;        // of children that ended and were waited for
};

// Times since the system's start, in seconds of one processor.
struct ProcessorTimes {
  double busy_s = 0;
  double idle_s = 0;
  double stolen_s = 0;  // in a virtual machine, while its host ran something else
  std::vector<ProcessTime> processes;
};

// kUnsupported if the system does not report them.
Result<ProcessorTimes> processor_times();

// Drops the kernel's copy of a file from memory, so that the next read comes from its device; what was written must be
// synced. Returns false if pages of it stay: the file system lives in memory, or ignores the wish. kIo, kNotFound.
Result<bool> drop_from_page_cache(const std::string& path);

// Returns how often the threads of a process gave up their processor to wait, since each began. kUnsupported if the
// system does not report it, or there is no such process.
Result<std::uint64_t> voluntary_switches(int process_id);

// Returns the bytes that a process gave to write() and its kin so far, wherever they went: the kernel's count, not the
// program's own. Bytes sent over sockets (send()) are not counted. kUnsupported if the system does not report them (no
// /proc, another user's process, or no such process).
Result<std::uint64_t> bytes_written_by(int process_id);

}  // namespace kvkeep::os
