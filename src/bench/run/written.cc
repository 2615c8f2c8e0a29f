#include "bench/run/written.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <optional>
#include <vector>

#include "format/segment_file.h"
#include "os/file_system.h"

namespace kvkeep::bench {
namespace {

constexpr int kWrittenWithinMs = 500;  // what is captured is on disk within 200 ms
constexpr Goal kGoal{Goal::Kind::kAtMost, 1.1};

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
  return format::payload_bytes(header);
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

}  // namespace

Result<PartFigures> measure_written(ServerProcess& server, const std::string& directory, std::uint64_t new_tokens,
                                    const Workload& workload) {
  server.wait(kWrittenWithinMs);
  const auto per_token = row_bytes_per_token(server.log());
  if (!per_token || new_tokens == 0) return unsupported("the log does not say what a token's rows take");
  TRY_ASSIGN(const std::uint64_t payload, payload_below(directory));
  const double ratio = static_cast<double>(payload) / static_cast<double>(*per_token * new_tokens);
  return summarize(fmt::format("payload bytes written / bytes of new rows, {}", workload.title), "ratio", {ratio},
                   kGoal);
}

}  // namespace kvkeep::bench
