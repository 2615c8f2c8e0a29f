#include "top/view.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

namespace kvkeep::top {
namespace {

using Json = nlohmann::json;

// Lists of a reply are read so far; no frame shows more.
constexpr std::size_t kMostEntries = 1'000;

Result<Json> parsed(std::string_view body) {
  Json json = Json::parse(body, nullptr, /*allow_exceptions=*/false);
  if (json.is_discarded()) return invalid("the reply is not JSON: is this a kvkeep server?");
  return json;
}

// The member of that name; null if there is none.
const Json& member(const Json& json, const char* name) {
  static const Json kNull;
  if (!json.is_object()) return kNull;
  const auto found = json.find(name);
  return found == json.end() ? kNull : *found;
}

std::string text_of(const Json& json, const char* name) {
  const Json& value = member(json, name);
  return value.is_string() ? value.get<std::string>() : std::string();
}

std::optional<double> number_of(const Json& json, const char* name) {
  const Json& value = member(json, name);
  return value.is_number() ? std::optional(value.get<double>()) : std::nullopt;
}

bool flag_of(const Json& json, const char* name) {
  const Json& value = member(json, name);
  return value.is_boolean() && value.get<bool>();
}

// 0 for what is no count.
std::uint64_t count_of(const Json& json, const char* name) {
  constexpr double kMost = 1e18;
  const double value = number_of(json, name).value_or(0);
  return value >= 0 && value < kMost ? static_cast<std::uint64_t>(value) : 0;
}

std::optional<std::uint64_t> some_count_of(const Json& json, const char* name) {
  return number_of(json, name) ? std::optional(count_of(json, name)) : std::nullopt;
}

template <typename Entry, typename Read>
std::vector<Entry> list_of(const Json& array, Read read) {
  std::vector<Entry> entries;
  if (!array.is_array()) return entries;
  for (const Json& one : array) {
    if (entries.size() == kMostEntries) break;
    if (std::optional<Entry> entry = read(one)) entries.push_back(std::move(*entry));
  }
  return entries;
}

std::optional<Tier> tier_of(const Json& json) {
  // A tier of other programs has no size of its own: what it published counts.
  const char* const used = number_of(json, "used_bytes") ? "used_bytes" : "published_bytes";
  return Tier{text_of(json, "name"), count_of(json, used), some_count_of(json, "budget_bytes")};
}

std::optional<Tier> memory_of(const Json& cells) {
  if (!number_of(cells, "total")) return std::nullopt;
  return Tier{"memory", count_of(cells, "used"), count_of(cells, "total")};
}

std::optional<std::string> problem_of(const Json& tier) {
  if (!flag_of(tier, "stopped")) return std::nullopt;
  return "Nothing is stored on disk: the file system is full, or has less free space than --kv-disk-reserve-mb. Make "
         "room; storing then goes on by itself.";
}

std::optional<std::string> sentence_of(const Json& problem) {
  return problem.is_string() ? std::optional(problem.get<std::string>()) : std::nullopt;
}

// Of a request that runs or has ended.
RequestView request_of(const Json& one) {
  RequestView request;
  request.prompt_tokens = count_of(one, "prompt_tokens");
  request.tokens = {count_of(one, "memory_tokens"), count_of(one, "ram_tokens"), count_of(one, "disk_tokens"),
                    count_of(one, "shared_tokens"), count_of(one, "prefilled_tokens")};
  request.reply_tokens = count_of(one, "predicted_tokens");
  if (request.reply_tokens > 0) {
    request.ttft_ms = number_of(one, "queue_ms").value_or(0) + number_of(one, "prompt_ms").value_or(0);
  }
  const double written_ms = number_of(one, "predicted_ms").value_or(0);
  if (request.reply_tokens > 1 && written_ms > 0) {
    request.tokens_per_s = 1e3 * static_cast<double>(request.reply_tokens - 1) / written_ms;
  }
  return request;
}

std::optional<RequestView> running_of(const Json& one) {
  RequestView request = request_of(one);
  request.number = count_of(one, "task");
  request.state = text_of(one, "state");
  request.waits_for = text_of(one, "waits_for");
  return request;
}

std::optional<RequestView> past_of(const Json& one) {
  RequestView request = request_of(one);
  request.id = text_of(one, "id");
  request.client = text_of(one, "kind");
  request.ended_s = number_of(one, "ended").value_or(0);
  request.end = text_of(one, "end");
  return request;
}

std::optional<Prefix> prefix_of(const Json& one) {
  return Prefix{.id = text_of(one, "id"),
                .tokens = count_of(one, "end"),
                .uses = count_of(one, "hits"),
                .ram_bytes = count_of(one, "ram_bytes"),
                .disk_bytes = count_of(one, "disk_bytes"),
                .last_use_s = number_of(one, "last_use").value_or(0),
                .pinned = flag_of(one, "pinned")};
}

std::optional<TenantView> tenant_of(const Json& one) {
  return TenantView{.number = count_of(one, "number"),
                    .own = flag_of(one, "own"),
                    .salted = flag_of(one, "salted"),
                    .requests = count_of(one, "requests"),
                    .prompt_tokens = count_of(one, "prompt_tokens"),
                    .cached_tokens = count_of(one, "cached_tokens"),
                    .prefilled_tokens = count_of(one, "prefilled_tokens"),
                    .ram_bytes = count_of(one, "ram_bytes"),
                    .disk_bytes = count_of(one, "disk_bytes"),
                    .last_s = number_of(one, "last").value_or(0)};
}

std::optional<Offender> offender_of(const Json& one) {
  return Offender{.client = text_of(one, "client"),
                  .kind = text_of(one, "kind"),
                  .what = text_of(one, "what"),
                  .place = text_of(one, "place"),
                  .line = text_of(one, "line"),
                  .times = count_of(one, "times"),
                  .requests = count_of(one, "requests"),
                  .lost_tokens = count_of(one, "lost_tokens"),
                  .lost_s = number_of(one, "lost_ms").value_or(0) / 1e3,
                  .last_s = number_of(one, "last").value_or(0),
                  .advice = text_of(one, "advice")};
}

// null in a reply means that all was reused.
Cause cause_of(const Json& found) {
  if (!found.is_object()) return {.kind = "none"};
  return {.kind = text_of(found, "kind"),
          .place = text_of(found, "place"),
          .at_token = some_count_of(found, "at"),
          .lost_tokens = count_of(found, "lost_tokens"),
          .lost_s = number_of(found, "lost_ms").value_or(0) / 1e3,
          .advice = text_of(found, "advice")};
}

void read_totals(const Json& json, View& view) {
  const Json& sources = member(json, "prompt_tokens");
  view.totals = {count_of(sources, "memory"), count_of(sources, "ram"), count_of(sources, "disk"),
                 count_of(sources, "shared"), count_of(sources, "prefill")};
  view.again_tokens = count_of(sources, "again");
  view.saved_s = number_of(member(json, "saved"), "seconds");
  view.saved_ever_s = number_of(member(member(json, "saved"), "ever"), "seconds");
  view.requests = count_of(member(json, "requests"), "accepted");
  view.waiting = count_of(member(json, "requests"), "waiting");
}

std::optional<double> uptime_of(const Json& json) {
  const auto now = number_of(json, "now");
  const auto started = number_of(json, "started");
  return now && started ? std::optional(std::max(0.0, *now - *started)) : std::nullopt;
}

}  // namespace

Status read_cache(std::string_view body, View& view) {
  TRY_ASSIGN(const Json json, parsed(body));
  if (!json.is_object()) return invalid("the reply of /cache is no object: is this a kvkeep server?");
  view.model = text_of(json, "model");
  view.memory_class = text_of(json, "memory_class");
  view.uptime_s = uptime_of(json);
  read_totals(json, view);
  view.tiers = list_of<Tier>(member(json, "tiers"), tier_of);
  if (std::optional<Tier> memory = memory_of(member(json, "cells"))) view.tiers.insert(view.tiers.begin(), *memory);
  view.problems = list_of<std::string>(member(json, "tiers"), problem_of);
  std::ranges::move(list_of<std::string>(member(json, "problems"), sentence_of), std::back_inserter(view.problems));
  view.running = list_of<RequestView>(member(json, "running"), running_of);
  view.past = list_of<RequestView>(member(json, "ended"), past_of);
  view.tenants = list_of<TenantView>(member(json, "tenants"), tenant_of);
  view.hottest = list_of<Prefix>(member(json, "hottest"), prefix_of);
  return {};
}

Status read_explained(std::string_view body, View& view) {
  TRY_ASSIGN(const Json json, parsed(body));
  const Json& requests = member(json, "requests");
  if (!requests.is_array()) return invalid("the reply of /cache/explain has no requests");
  for (const Json& one : requests) {
    const auto found = std::ranges::find(view.past, text_of(one, "id"), &RequestView::id);
    if (found == view.past.end()) continue;
    if (std::string client = text_of(one, "client"); !client.empty()) found->client = std::move(client);
    found->cause = cause_of(member(one, "cache_break"));
  }
  return {};
}

Status read_offenders(std::string_view body, View& view) {
  TRY_ASSIGN(const Json json, parsed(body));
  const Json& offenders = member(json, "offenders");
  if (!offenders.is_array()) return invalid("the reply of /cache/offenders has no offenders");
  view.offenders = list_of<Offender>(offenders, offender_of);
  return {};
}

}  // namespace kvkeep::top
