#include "server/run/layout_hint.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace kvkeep::server {

namespace {

constexpr std::size_t kLeastDecoding = 4;
constexpr std::uint32_t kFewShared = 8;   // at most one in so many cells
constexpr double kLeastExtraBytes = 0.2;  // rows of others, next to what a call reads otherwise
constexpr std::size_t kCounts = 4;        // seconds, at least: requests that only end together are no load of this kind

std::size_t decoding(std::span<const std::unique_ptr<Request>> running) {
  return static_cast<std::size_t>(
      std::ranges::count(running, Request::Phase::kDecode, [](const auto& each) { return each->phase; }));
}

}  // namespace

LayoutHint::LayoutHint(const engine::Description& model, std::size_t parallel)
    : possible_(model.may_have_own_cells && !model.own_cells),
      row_bytes_(static_cast<double>(model.row_bytes_per_token)),
      weight_bytes_(static_cast<double>(model.model_bytes)),
      own_cells_(model.context_tokens / std::max<std::size_t>(1, parallel)) {}

bool LayoutHint::would_help(std::size_t decoding, const CellCounts& cells) const {
  if (decoding < kLeastDecoding || cells.shared > cells.used / kFewShared) return false;
  const double own_bytes = row_bytes_ * static_cast<double>(cells.used);
  const double others_bytes = own_bytes * static_cast<double>(decoding - 1);
  return others_bytes >= kLeastExtraBytes * (weight_bytes_ + own_bytes);
}

std::optional<std::string> LayoutHint::look(std::span<const std::unique_ptr<Request>> running,
                                            const CellCounts& cells) {
  if (!possible_ || told_) return std::nullopt;
  for (const auto& each : running) longest_tokens_ = std::max(longest_tokens_, each->effective.tokens.size());
  const std::size_t count = decoding(running);
  if (longest_tokens_ > own_cells_ || !would_help(count, cells)) {
    counts_ = 0;
    return std::nullopt;
  }
  if (std::exchange(counted_, cells.counted) != cells.counted) ++counts_;
  told_ = counts_ >= kCounts;
  if (!told_) return std::nullopt;
  return fmt::format(
      "{} requests decode that share {} of {} cells, and each is computed over the cells of all: with -no-kvu each has "
      "{} cells of its own and decodes faster, and longer prompts are refused (so far, none had more than {} tokens "
      "with "
      "its reply); docs/scheduling.md#cells has more",
      count, cells.shared, cells.used, own_cells_, longest_tokens_);
}

}  // namespace kvkeep::server
