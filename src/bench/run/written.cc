#include "bench/run/written.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <optional>
#include <vector>

#include "format/segment_file.h"
#include "os/file_system.h"
#include "os/process_io.h"

namespace kvkeep::bench {
namespace {

constexpr int kWrittenWithinMs = 500;  // what is captured is on disk within 200 ms
constexpr double kMost = 1.1;
constexpr double kLeastOfInexact = 0.97;
constexpr double kManyBytes = 1 << 20;

// "... 3072 bytes of rows per token"
std::optional<std::uint64_t> row_bytes_per_token(const std::string& log) {
  const std::size_t end = log.find(" bytes of rows per token");
  if (end == std::string::npos) return std::nullopt;
  const std::size_t begin = log.find_last_not_of("0123456789", end - 1) + 1;
  std::uint64_t value = 0;
  const auto read = std::from_chars(log.data() + begin, log.data() + end, value);
  if (read.ec != std::errc() || value == 0) return std::nullopt;
  return value;
}

Result<std::uint64_t> payload_of(const std::string& path) {
  TRY_ASSIGN(const auto file, os::real_file_system().open(path));
  std::vector<std::byte> head(format::kMaxHeaderBytes);
  TRY_ASSIGN(const std::size_t size, file->read_at(0, head));
  TRY_ASSIGN(const format::SegmentHeader header, format::decode_header(ByteSpan(head).first(size)));
  const std::uint64_t payload = format::payload_bytes(header);
  TRY_ASSIGN(const ByteCount whole, file->size());
  const std::size_t begin = format::encoded_header_size(header.parts.size(), header.tokens.size());
  if (whole.value() < begin + payload) return damaged(path + " is shorter than its header says");
  return payload;
}

// NOLINTNEXTLINE(misc-no-recursion): a cache directory is two levels deep
Result<std::uint64_t> payload_below(const std::string& directory) {
  std::uint64_t sum = 0;
  TRY_ASSIGN(const auto entries, os::real_file_system().list(directory));
  for (const os::FileInfo& entry : entries) {
    const std::string path = directory + "/" + entry.name;
    if (!entry.is_directory && !entry.name.ends_with(".kvs")) continue;
    TRY_ASSIGN(const std::uint64_t bytes, entry.is_directory ? payload_below(path) : payload_of(path));
    sum += bytes;
  }
  return sum;
}

// Payload that is there once the writer must be done: what has to be there may come late on a slow disk.
Result<std::uint64_t> settled_payload(ServerProcess& server, const NewRows& rows, double wanted_bytes) {
  server.wait(kWrittenWithinMs);
  for (int waited_ms = kWrittenWithinMs;; waited_ms += kWrittenWithinMs) {
    TRY_ASSIGN(const std::uint64_t payload, payload_below(rows.directory));
    if (static_cast<double>(payload) >= wanted_bytes || waited_ms >= rows.limit_ms || server.ended()) return payload;
    server.wait(kWrittenWithinMs);
  }
}

}  // namespace

std::optional<std::uint64_t> bytes_passed(const ServerProcess& server) {
  const auto bytes = os::bytes_written_by(server.id());
  if (!bytes) return std::nullopt;
  return *bytes;
}

Result<std::vector<PartFigures>> measure_written(ServerProcess& server, const NewRows& rows) {
  const auto per_token = row_bytes_per_token(server.log());
  if (!per_token || rows.tokens == 0) return unsupported("the log does not say what a token's rows take");
  const double new_bytes = static_cast<double>(*per_token) * static_cast<double>(rows.tokens);
  const double least = rows.is_exact ? 1 : kLeastOfInexact;
  TRY_ASSIGN(const std::uint64_t payload, settled_payload(server, rows, least * new_bytes));
  std::vector<PartFigures> figures{summarize(fmt::format("payload bytes written / bytes of new rows, {}", rows.title),
                                             "ratio", {static_cast<double>(payload) / new_bytes},
                                             Goal{Goal::Kind::kWithin, least, kMost})};
  const auto passed = bytes_passed(server);
  if (passed && rows.bytes_before) {
    // Headers, saved indexes and the log are in it, too, which weigh something where there are few rows.
    const Goal goal =
        new_bytes < kManyBytes ? Goal{Goal::Kind::kAtLeast, least} : Goal{Goal::Kind::kWithin, least, kMost};
    figures.push_back(summarize(fmt::format("bytes given to write() / bytes of new rows, {}", rows.title), "ratio",
                                {static_cast<double>(*passed - *rows.bytes_before) / new_bytes}, goal));
  }
  return figures;
}

}  // namespace kvkeep::bench
