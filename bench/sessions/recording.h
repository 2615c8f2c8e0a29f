#pragma once

// What the formats of recorded sessions share.

#include <algorithm>
#include <utility>
#include <vector>

#include "bench/sessions/json_fields.h"
#include "bench/sessions/session.h"

namespace kvkeep::bench {

inline constexpr std::size_t kMaxRecordedRequests = 100'000;

// Adds the header if it means something to a server's answer; see RecordedRequest::headers.
void keep_header(RecordedRequest& request, std::string_view name, std::string_view value);

// A body given as text: JSON if it is JSON, else the text itself; empty text is none.
Json body_of_text(std::string_view text);

// The assistant's message out of a whole recorded reply, streamed or not. None: there is none in it.
std::optional<Json> message_of_reply(const RecordedRequest& request, std::string_view reply);

// "https://host:1/v1/x?y" -> "/v1/x?y"; a path stays itself. Empty: neither.
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

// Sorts by time, the first at 0, and gives a label to those that have none.
void put_in_order(Session& session);

// Errors and what is left out: parse_session().
Result<Session> parse_har(const std::string& file_name, std::string_view text);

}  // namespace kvkeep::bench
