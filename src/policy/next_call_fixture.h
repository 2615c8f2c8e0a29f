#pragma once

// Requests in the states that tests of the next call are about, and its answers as text.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "policy/next_call.h"

namespace kvkeep::policy {

using Phase = ScheduledRequest::Phase;

inline constexpr std::size_t kTokens = 20;

inline ScheduledRequest waiting() { return {.phase = Phase::kWaiting, .tokens = kTokens}; }
inline ScheduledRequest must_wait() { return {.phase = Phase::kWaiting, .must_wait = true, .tokens = kTokens}; }
inline ScheduledRequest overtaken() {
  return {.phase = Phase::kWaiting, .must_wait = true, .overtaken = kMostOvertaken, .tokens = kTokens};
}
inline ScheduledRequest refused() { return {.phase = Phase::kWaiting, .ended = true, .tokens = kTokens}; }
inline ScheduledRequest loading(std::size_t held) {
  return {.phase = Phase::kLoading, .tokens = kTokens, .held = held};
}
inline ScheduledRequest prefilling(std::size_t held) {
  return {.phase = Phase::kPrefill, .tokens = kTokens, .held = held};
}
inline ScheduledRequest cut_at(std::size_t held, std::uint32_t cut) {
  ScheduledRequest request = prefilling(held);
  request.next_cut = Position{cut};
  return request;
}
inline ScheduledRequest decoding() { return {.phase = Phase::kDecode, .tokens = kTokens + 1, .held = kTokens}; }
inline ScheduledRequest awaiting() { return {.phase = Phase::kWaiting, .awaits = true, .tokens = kTokens}; }
inline ScheduledRequest of_session(ScheduledRequest request, std::uint64_t session) {
  request.session = session;
  return request;
}
inline ScheduledRequest of_key(ScheduledRequest request, std::uint64_t key) {
  request.key = key;
  return request;
}
inline ScheduledRequest passed(ScheduledRequest request, std::uint32_t slices) {
  request.passed = slices;
  return request;
}
inline ScheduledRequest urgent(ScheduledRequest request) {
  request.priority = -1;
  return request;
}
// The work of each, in order of arrival.
inline std::vector<QueuedRequest> queue_of(const std::vector<std::size_t>& work) {
  std::vector<QueuedRequest> queue;
  for (const std::size_t tokens : work) queue.push_back({.number = queue.size() + 1, .work = tokens});
  return queue;
}
inline ScheduledRequest answered() { return {.phase = Phase::kDecode, .ended = true, .tokens = kTokens + 1}; }

inline std::string text(const std::optional<NextStart>& start) {
  if (!start) return "none";
  return (start->from_queue ? "queue " : "") + std::to_string(start->at);
}
inline std::string text(const std::optional<NextSlice>& slice) {
  return slice ? std::to_string(slice->tokens) + " of " + std::to_string(slice->at) : "none";
}
inline std::string text(const std::optional<NextGiver>& giver) {
  if (!giver) return "none";
  return giver->idle ? "idle " + std::to_string(giver->idle->value()) : std::to_string(giver->at);
}

}  // namespace kvkeep::policy
