#pragma once

// Functions that the formats of recorded sessions share.

#include <algorithm>
#include <utility>
#include <vector>

#include "bench/sessions/json_fields.h"
#include "bench/sessions/session.h"

namespace kvkeep::bench {

inline constexpr std::size_t kMaxRecordedRequests = 100'000;

// Adds the header if a server's answer depends on it; see RecordedRequest::headers.
void keep_header(RecordedRequest& request, std::string_view name, std::string_view value);

// Reads a body given as text: as JSON if it is JSON, else as the text itself; empty text is no body.
Json body_of_text(std::string_view text);

// Returns the assistant's message from a complete recorded reply, streamed or not; nullopt if it has none.
std::optional<Json> message_of_reply(const RecordedRequest& request, std::string_view reply);

// "https://host:1/v1/x?y" -> "/v1/x?y"; a path stays as it is. Returns "" for other texts.
std::string path_of_url(std::string_view url);

// Sorts by time; requests of the same time keep their order. (std::stable_sort warns under clang with this library.)
template <typename Item, typename TimeOf>
void sort_by_time(std::vector<Item>& items, TimeOf time_of) {
  std::vector<std::pair<double, std::size_t>> order;
  for (const Item& item : items) order.emplace_back(time_of(item), order.size());
  std::ranges::sort(order);
  std::vector<Item> sorted;
  for (const auto& [time, index] : order) sorted.push_back(std::move(items[index]));
  items = std::move(sorted);
}

// Sorts by time, with the first at 0, and labels requests that have no label.
void put_in_order(Session& session);

// Reads a HAR file. Errors and omissions: see parse_session().
Result<Session> parse_har(const std::string& file_name, std::string_view text);

}  // namespace kvkeep::bench
