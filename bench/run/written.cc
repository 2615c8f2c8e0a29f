#include "bench/run/written.h"

#include <fmt/format.h>

#include <array>
#include <optional>
#include <utility>
#include <vector>

#include "bench/run/memory_state.h"
#include "format/segment_file.h"
#include "os/file_system.h"
#include "os/machine.h"

namespace kvkeep::bench {
namespace {

constexpr int kLookMs = 50;
constexpr int kQuietMs = 300;  // captured state is on disk within 200 ms
constexpr double kMost = 1.1;
constexpr double kLeastOfInexact = 0.97;
constexpr double kManyBytes = 1 << 20;
constexpr double kMiB = 1 << 20;

// Files of one kind and their payload.
struct Files {
  std::uint64_t count = 0;
  std::uint64_t payload_bytes = 0;
};

struct AllFiles {
  std::array<Files, std::size(format::kPartKinds)> kinds;

  Files& of(format::PartKind kind) { return kinds[static_cast<std::size_t>(kind) - 1]; }
  const Files& of(format::PartKind kind) const { return kinds[static_cast<std::size_t>(kind) - 1]; }
  std::uint64_t payload_bytes() const {
    std::uint64_t sum = 0;
    for (const Files& files : kinds) sum += files.payload_bytes;
    return sum;
  }
};

Status add_file(const std::string& path, AllFiles& all) {
  TRY_ASSIGN(const auto file, os::real_file_system().open(path));
  std::vector<std::byte> head(format::kMaxHeaderBytes);
  TRY_ASSIGN(const std::size_t size, file->read_at(0, head));
  TRY_ASSIGN(const format::SegmentHeader header, format::decode_header(ByteSpan(head).first(size)));
  TRY_ASSIGN(const ByteCount whole, file->size());
  const std::size_t begin = format::encoded_header_size(header.parts.size(), header.tokens.size());
  if (whole.value() < begin + format::payload_bytes(header)) return damaged(path + " is shorter than its header says");
  Files& files = all.of(header.name.kind);
  ++files.count;
  files.payload_bytes += format::payload_bytes(header);
  return {};
}

// NOLINTNEXTLINE(misc-no-recursion): a cache directory is two levels deep
Status add_below(const std::string& directory, AllFiles& all) {
  TRY_ASSIGN(const auto entries, os::real_file_system().list(directory));
  for (const os::FileInfo& entry : entries) {
    const std::string path = directory + "/" + entry.name;
    if (entry.is_directory) TRY(add_below(path, all));
    if (!entry.is_directory && entry.name.ends_with(".kvs")) TRY(add_file(path, all));
  }
  return {};
}

// Returns the files once the writer must be done: expected ones may come late on a slow disk. The number of points is
// unknown; they are complete when no more come.
Result<AllFiles> settled_files(ServerProcess& server, const NewRows& rows, double wanted_row_bytes) {
  std::uint64_t bytes_before = UINT64_MAX;
  int quiet_ms = 0;
  for (int waited_ms = kLookMs;; waited_ms += kLookMs) {
    server.wait(kLookMs);
    AllFiles all;
    TRY(add_below(rows.directory, all));
    quiet_ms = all.payload_bytes() == bytes_before ? quiet_ms + kLookMs : 0;
    const auto row_bytes = static_cast<double>(all.of(format::PartKind::kRows).payload_bytes);
    const bool is_settled = row_bytes >= wanted_row_bytes && quiet_ms >= kQuietMs;
    if (is_settled || waited_ms >= rows.limit_ms || server.ended()) return all;
    bytes_before = all.payload_bytes();
  }
}

class Written {
 public:
  Written(const NewRows& rows, const MemoryState& state, const AllFiles& files)
      : rows_(rows), state_(state), files_(files) {}

  std::vector<PartFigures> figures(std::optional<std::uint64_t> bytes_passed) {
    add_rows();
    add_points();
    if (bytes_passed && rows_.bytes_before) add_passed(static_cast<double>(*bytes_passed - *rows_.bytes_before));
    return std::move(figures_);
  }

 private:
  double least() const { return rows_.is_exact ? 1 : kLeastOfInexact; }

  void add(const std::string& what, const char* unit, double value, std::optional<Goal> goal) {
    if (!rows_.has_goals) goal.reset();
    figures_.push_back(summarize(fmt::format("{}, {}", what, rows_.title), unit, {value}, goal));
  }

  void add_rows() {
    const auto ratio = [&](format::PartKind kind, std::uint64_t bytes_per_token) {
      return static_cast<double>(files_.of(kind).payload_bytes) /
             (static_cast<double>(bytes_per_token) * static_cast<double>(rows_.tokens));
    };
    if (state_.row_bytes_per_token > 0) {
      add("payload bytes written / bytes of new rows", "ratio",
          ratio(format::PartKind::kRows, state_.row_bytes_per_token), Goal{Goal::Kind::kWithin, least(), kMost});
    }
    if (state_.window_bytes_per_token > 0) {  // a window that is not needed may be missing
      add("payload bytes written / bytes of new window rows", "ratio",
          ratio(format::PartKind::kWindowRows, state_.window_bytes_per_token), Goal{Goal::Kind::kAtMost, kMost});
    }
  }

  void add_points() {
    if (!state_.has_points) return;
    const Files& parts = files_.of(format::PartKind::kPoint);
    const Files& wholes = files_.of(format::PartKind::kWhole);
    const double requests = static_cast<double>(rows_.requests);
    add("points written per request", "points", static_cast<double>(parts.count + wholes.count) / requests, {});
    add("points written per request, their bytes", "MiB",
        static_cast<double>(parts.payload_bytes + wholes.payload_bytes) / requests / kMiB, {});
  }

  // Includes headers, saved indexes and the log, which matter if there is little payload.
  void add_passed(double bytes) {
    const auto payload = static_cast<double>(files_.payload_bytes());
    if (payload == 0) return;  // the figures above report that
    const Goal goal =
        payload < kManyBytes ? Goal{Goal::Kind::kAtLeast, least()} : Goal{Goal::Kind::kWithin, least(), kMost};
    add("bytes given to write() / payload bytes written", "ratio", bytes / payload, goal);
  }

  const NewRows& rows_;
  const MemoryState& state_;
  const AllFiles& files_;
  std::vector<PartFigures> figures_;
};

}  // namespace

std::optional<std::uint64_t> bytes_passed(const ServerProcess& server) {
  const auto bytes = os::bytes_written_by(server.id());
  if (!bytes) return std::nullopt;
  return *bytes;
}

Result<std::vector<PartFigures>> measure_written(ServerProcess& server, const NewRows& rows) {
  const MemoryState state = memory_state_of(server.log());
  if (!state.is_known() || rows.tokens == 0) return unsupported("the log does not report the size of a token's rows");
  const double least = rows.is_exact ? 1 : kLeastOfInexact;
  const double wanted = least * static_cast<double>(state.row_bytes_per_token) * static_cast<double>(rows.tokens);
  TRY_ASSIGN(const AllFiles files, settled_files(server, rows, rows.has_goals ? wanted : 0));
  return Written(rows, state, files).figures(bytes_passed(server));
}

}  // namespace kvkeep::bench
