#include "bench/run/stream_times.h"

#include <algorithm>
#include <cmath>

#include "base/assert.h"

namespace kvkeep::bench {
namespace {

double bytes_at(const StreamTimes& stream, std::int64_t ns) {
  const auto after = std::ranges::upper_bound(stream.pieces, ns, {}, &Piece::ns);
  return after == stream.pieces.begin() ? 0 : static_cast<double>((after - 1)->answer_bytes);
}

double tokens_between(const StreamTimes& stream, std::int64_t from_ns, std::int64_t to_ns) {
  const double bytes = bytes_at(stream, to_ns) - bytes_at(stream, from_ns);
  return static_cast<double>(stream.tokens) * bytes / static_cast<double>(stream.pieces.back().answer_bytes);
}

}  // namespace

std::optional<double> rate_together(const std::vector<StreamTimes>& streams) {
  std::int64_t from_ns = INT64_MIN;
  std::int64_t to_ns = INT64_MAX;
  for (const StreamTimes& stream : streams) {
    if (stream.pieces.size() < 2 || stream.pieces.back().answer_bytes == 0) return std::nullopt;
    from_ns = std::max(from_ns, stream.pieces.front().ns);
    to_ns = std::min(to_ns, stream.pieces.back().ns);
  }
  if (streams.empty() || from_ns >= to_ns) return std::nullopt;
  double tokens = 0;
  for (const StreamTimes& stream : streams) tokens += tokens_between(stream, from_ns, to_ns);
  return tokens / (static_cast<double>(to_ns - from_ns) / 1e9);
}

std::vector<double> gaps_ms(const std::vector<Piece>& pieces, std::int64_t from_ns, std::int64_t to_ns) {
  std::vector<double> gaps;
  std::optional<std::int64_t> last_ns;
  for (const Piece& piece : pieces) {
    const bool is_within = piece.ns > from_ns && last_ns && *last_ns < to_ns;
    if (is_within) gaps.push_back(static_cast<double>(piece.ns - *last_ns) / 1e6);
    last_ns = piece.ns;
  }
  if (last_ns && *last_ns < to_ns) gaps.push_back(static_cast<double>(to_ns - *last_ns) / 1e6);
  return gaps;
}

double percentile(std::vector<double> values, double share) {
  KVKEEP_ASSERT(!values.empty(), "no values have no percentile");
  std::ranges::sort(values);
  const auto rank = static_cast<std::size_t>(std::ceil(share * static_cast<double>(values.size())));
  return values[std::clamp<std::size_t>(rank, 1, values.size()) - 1];
}

}  // namespace kvkeep::bench
