#include "policy/worth.h"

#include <algorithm>
#include <utility>

namespace kvkeep::policy {

Worth::Worth(const EvictView& view) : view_(view) {
  if (!view.needs_points) return;
  hang_leaves();
  for (std::size_t i = 0; i < view.candidates.size(); ++i) {
    if (view.candidates[i].kind != CandidateKind::kRows && above_[i] != kNone) add_stop(i);
  }
  for (Segment& segment : segments_) {
    std::ranges::sort(segment.stops, {}, [this](std::size_t stop) { return stops_[stop].at; });
  }
}

void Worth::hang_leaves() {
  const auto& candidates = view_.candidates;
  above_.assign(candidates.size(), kNone);
  segments_.resize(candidates.size());
  stops_of_.resize(candidates.size());
  std::unordered_map<SegmentId, std::size_t> places;
  places.reserve(candidates.size());
  for (std::size_t i = 0; i < candidates.size(); ++i) places.emplace(candidates[i].segment, i);
  for (std::size_t i = 0; i < candidates.size(); ++i) {
    const auto found = places.find(candidates[i].above);
    if (candidates[i].above == kRootSegment || found == places.end()) continue;
    above_[i] = found->second;
    Segment& above = segments_[found->second];
    if (candidates[i].kind == CandidateKind::kRows) above.continued_by.push_back(i);
    if (candidates[i].kind == CandidateKind::kWindow) above.windows.push_back(i);
  }
}

void Worth::add_stop(std::size_t leaf) {
  const EvictCandidate& candidate = view_.candidates[leaf];
  Stop stop{candidate.begin + candidate.tokens, above_[leaf], {leaf}, candidate.outlook};
  if (candidate.kind == CandidateKind::kWindow && !covered(leaf, stop.leaves)) return;
  for (const std::size_t needed : stop.leaves) stops_of_[needed].push_back(stops_.size());
  segments_[stop.home].stops.push_back(stops_.size());
  add_reason(stop.home);
  stops_.push_back(std::move(stop));
}

// Adds the windows before this one, until they cover a whole window that ends where it does. False: some are missing.
bool Worth::covered(std::size_t window, std::vector<std::size_t>& leaves) const {
  const EvictCandidate& last = view_.candidates[window];
  const std::size_t end = last.begin.value() + last.tokens;
  const Position from = Position{} + (end - std::min<std::size_t>(end, view_.window_tokens));
  Position have = last.begin;
  for (std::size_t segment = above_[window]; have > from;) {
    if (segment == kNone) return false;
    if (have <= view_.candidates[segment].begin) {
      segment = above_[segment];
      continue;
    }
    const std::size_t before = window_before(segment, have);
    if (before == kNone) return false;
    leaves.push_back(before);
    have = view_.candidates[before].begin;
  }
  return true;
}

// The window of the segment that reaches `end` and begins furthest before it.
std::size_t Worth::window_before(std::size_t segment, Position end) const {
  std::size_t best = kNone;
  for (const std::size_t window : segments_[segment].windows) {
    const EvictCandidate& candidate = view_.candidates[window];
    if (candidate.begin >= end || candidate.begin + candidate.tokens < end) continue;
    if (best == kNone || candidate.begin < view_.candidates[best].begin) best = window;
  }
  return best;
}

void Worth::add_reason(std::size_t segment) {
  while (segment != kNone && segments_[segment].reasons++ == 0) segment = above_[segment];
}

void Worth::drop_reason(std::size_t segment, std::vector<std::size_t>& fell) {
  while (segment != kNone && --segments_[segment].reasons == 0) {
    fell.push_back(segment);
    segment = above_[segment];
  }
}

std::vector<std::size_t> Worth::forget(std::size_t candidate) {
  std::vector<std::size_t> fell;
  if (!view_.needs_points) return fell;
  for (const std::size_t stop : stops_of_[candidate]) end_stop(stop, fell);
  end_below(candidate, fell);
  return fell;
}

void Worth::end_stop(std::size_t index, std::vector<std::size_t>& fell) {
  Stop& stop = stops_[index];
  if (!std::exchange(stop.live, false)) return;
  fell.insert(fell.end(), stop.leaves.begin(), stop.leaves.end());
  drop_reason(stop.home, fell);
}

// What continues a segment that is nowhere any more is out of reach.
void Worth::end_below(std::size_t segment, std::vector<std::size_t>& fell) {
  std::vector<std::size_t> pending{segment};
  while (!pending.empty()) {
    Segment& here = segments_[pending.back()];
    pending.pop_back();
    if (!std::exchange(here.reachable, false)) continue;
    for (const std::size_t stop : here.stops) end_stop(stop, fell);
    pending.insert(pending.end(), here.continued_by.begin(), here.continued_by.end());
  }
}

// The last live stop on the path to this one; 0: none.
Position Worth::stop_before(const Stop& stop) const {
  Position limit = stop.at;  // of its own segment, those before it; of those above, up to where the path leaves them
  for (std::size_t segment = stop.home; segment != kNone; segment = above_[segment]) {
    const auto& stops = segments_[segment].stops;
    const auto at = [this](std::size_t index) { return stops_[index].at; };
    auto after = segment == stop.home ? std::ranges::lower_bound(stops, limit, {}, at)
                                      : std::ranges::upper_bound(stops, limit, {}, at);
    while (after != stops.begin()) {
      if (stops_[*--after].live) return stops_[*after].at;
    }
    limit = std::min(limit, view_.candidates[segment].begin);
  }
  return {};
}

double Worth::keep_value(const EvictCandidate& candidate) const {
  return view_.score->value(candidate, view_.now_ns, view_.half_life_ns);
}

double Worth::value(std::size_t index) const {
  const EvictCandidate& candidate = view_.candidates[index];
  if (!view_.needs_points) return keep_value(candidate);
  if (candidate.kind == CandidateKind::kRows) {
    return segments_[index].reasons > 0 ? keep_value(candidate) : 0;
  }
  double value = 0;
  for (const std::size_t stop : stops_of_[index]) {
    if (stops_[stop].live) value += value_of(stops_[stop], candidate);
  }
  return value;
}

// As if the rows that the stop saves were one candidate of all its bytes, as likely to be needed as this leaf.
double Worth::value_of(const Stop& stop, const EvictCandidate& leaf) const {
  EvictCandidate saved = leaf;
  saved.begin = stop.outlook == Outlook::kAwaited ? Position{} : stop_before(stop);
  saved.tokens = static_cast<std::uint32_t>(stop.at - saved.begin);
  saved.bytes = {};
  for (const std::size_t needed : stop.leaves) saved.bytes += view_.candidates[needed].bytes;
  const double value = keep_value(saved);
  return stop.outlook == Outlook::kPassed ? value / kPassedShare : value;
}

}  // namespace kvkeep::policy
