#include "engine/media_map.h"

#include <algorithm>

#include "base/assert.h"

namespace kvkeep::engine {
namespace {

TokenRange overlap(TokenRange a, TokenRange b) {
  const Position begin = std::max(a.begin, b.begin);
  return {begin, std::max(begin, std::min(a.end, b.end))};
}

// Those of its ids that have a cell come first.
TokenRange with_cells(const MediaRun& run) { return {run.range.begin, run.range.begin + run.shape.embeddings}; }

bool differs(const MediaRun& run) { return run.shape.plane || run.range.size() != run.shape.embeddings; }

void append_tokens(std::vector<CellSpan>& spans, std::int32_t first, std::size_t count) {
  if (count == 0) return;
  const auto cells = static_cast<std::uint32_t>(count);
  const bool goes_on = !spans.empty() && !spans.back().plane &&
                       spans.back().first + static_cast<std::int32_t>(spans.back().cells) == first;
  if (!goes_on) {
    spans.push_back({.first = first, .cells = cells, .positions = cells});
    return;
  }
  spans.back().cells += cells;
  spans.back().positions += cells;
}

}  // namespace

MediaMap::MediaMap(std::span<const MediaRun> runs) {
  for (const MediaRun& run : runs) append(run);
}

void MediaMap::append(const MediaRun& run) {
  KVKEEP_ASSERT(runs_.empty() || runs_.back().range.end <= run.range.begin, "chunks come in order");
  if (differs(run)) runs_.push_back(run);
}

void MediaMap::truncate(Position end) {
  std::erase_if(runs_, [end](const MediaRun& run) { return run.range.begin >= end; });
}

MediaMap MediaMap::prefix(Position end) const {
  MediaMap head = *this;
  head.truncate(end);
  return head;
}

bool MediaMap::cuts(Position at) const {
  return std::ranges::any_of(runs_, [at](const MediaRun& run) { return run.range.begin < at && at < run.range.end; });
}

std::int32_t MediaMap::to_library(Position at) const {
  return static_cast<std::int32_t>(model_position(runs_, at).value());
}

bool MediaMap::may_end(Position end, std::int32_t last) const {
  const std::int32_t next = to_library(end);
  if (runs_.empty() || runs_.back().range.end != end || !runs_.back().shape.plane) return last == next - 1;
  return last < next && last >= next - static_cast<std::int32_t>(runs_.back().shape.positions);
}

std::size_t MediaMap::cells(TokenRange range) const {
  std::size_t cells = range.size();
  for (const MediaRun& run : runs_) {
    cells -= overlap(run.range, range).size() - overlap(with_cells(run), range).size();
  }
  return cells;
}

bool MediaMap::counts_alike(TokenRange range) const {
  const auto ids = static_cast<std::int32_t>(range.size());
  return to_library(range.end) - to_library(range.begin) == ids && cells(range) == range.size();
}

TokenRange MediaMap::whole(TokenRange range) const {
  for (const MediaRun& run : runs_) {
    if (overlap(run.range, range).empty()) continue;
    range = {std::min(range.begin, run.range.begin), std::max(range.end, run.range.end)};
  }
  return range;
}

std::vector<CellSpan> MediaMap::spans(TokenRange range) const {
  std::vector<CellSpan> spans;
  Position at = range.begin;
  for (const MediaRun& run : runs_) {
    const TokenRange part = overlap(run.range, range);
    if (part.empty()) continue;
    append_tokens(spans, to_library(at), part.begin - at);
    const auto cells = static_cast<std::uint32_t>(overlap(with_cells(run), range).size());
    if (!run.shape.plane) append_tokens(spans, to_library(part.begin), cells);
    if (run.shape.plane && cells > 0) {
      spans.push_back(
          {.first = to_library(run.range.begin), .cells = cells, .positions = run.shape.positions, .plane = true});
    }
    at = part.end;
  }
  append_tokens(spans, to_library(at), range.end - at);
  return spans;
}

}  // namespace kvkeep::engine
