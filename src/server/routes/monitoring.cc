// Routes for monitors and launchers, under llama-server's names.

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "cache/cache.h"
#include "server/api/errors.h"
#include "server/routes/generation.h"
#include "server/routes/routes.h"
#include "server/run/places.h"
#include "server/run/waits.h"

namespace kvkeep::server {
namespace {

Error not_started_with(const char* endpoint, const char* flag) {
  return unsupported(fmt::format("This server does not support {} endpoint. Start it with `{}`", endpoint, flag));
}

void show_metrics(const HttpServer& server, const Service& service, LastScrape& last, ResponseWriter& writer) {
  if (!service.endpoints.metrics) {
    return send_error(writer, api::error_reply(not_started_with("metrics", "--metrics")));
  }
  const auto [now, before] = last.take([&service] { return service.scheduler->stats(); });
  const Savings::Sums saved = service.savings->sums(work_of(now));
  const std::vector<api::Metric> metrics =
      metrics_of(now, before, saved, service.cache->stats(), server.unread(), service.cache->share_counters());
  writer.send(200, api::kMetricsContentType, api::metrics_text(metrics),
              {{"Process-Start-Time-Unix", std::to_string(service.card.created_s)}});
}

std::vector<std::pair<std::string_view, double>> named(const WaitTimes& times) {
  std::vector<std::pair<std::string_view, double>> named;
  for (const WaitCause cause : kWaitCauses) named.emplace_back(to_string(cause), times[cause]);
  return named;
}

std::vector<api::Slot> slots_of(const Service& service) {
  std::vector<api::Slot> slots;
  for (const Place& place : service.scheduler->places().all()) {
    slots.push_back({.id = slots.size(),
                     .context_tokens = service.context_tokens,
                     .is_processing = place.running,
                     .state = state_of(place),
                     .task = place.task,
                     .prompt_tokens = place.stats.prompt_tokens,
                     .prefilled_tokens = place.stats.prefilled_tokens,
                     .cached_tokens = place.stats.cached_tokens,
                     .memory_tokens = place.stats.memory_tokens,
                     .predicted_tokens = place.stats.predicted_tokens,
                     .preemptions = place.stats.preemptions,
                     .waits_for = place.stats.waits.now() ? to_string(*place.stats.waits.now()) : "",
                     .waited_ms = named(place.stats.waits.ended()),
                     .max_tokens = place.max_tokens,
                     .sampling = place.sampling});
  }
  return slots;
}

void show_slots(const Service& service, const HttpRequest& http, ResponseWriter& writer) {
  if (!service.endpoints.slots) return send_error(writer, api::error_reply(not_started_with("slots", "--slots")));
  const std::vector<api::Slot> slots = slots_of(service);
  if (!http.parameter("fail_on_no_slot").empty() && std::ranges::all_of(slots, &api::Slot::is_processing)) {
    return send_error(writer, api::error_reply(busy("no slot available")));
  }
  writer.send(200, api::kJsonContentType, api::slots_reply(slots));
}

void change_props(const Service& service, HttpRequest& http, ResponseWriter& writer) {
  if (!service.endpoints.props) {
    return send_error(writer, api::error_reply(not_started_with("changing global properties by this", "--props")));
  }
  const Result<std::string> reply = api::change_props_reply(std::move(http.body));
  if (!reply) return send_error(writer, api::error_reply(reply.error()));
  writer.send(200, api::kJsonContentType, *reply);
}

}  // namespace

LastScrape::Totals LastScrape::take(const std::function<SchedulerStats()>& read) {
  const MutexLock lock(mutex_);
  Totals totals{.now = read(), .before = {}};
  totals.before = std::exchange(totals_, totals.now);
  return totals;
}

void show_health(const Service& service, const HttpRequest& /*http*/, ResponseWriter& writer) {
  if (service.scheduler->stats().closed) {
    return send_error(writer, api::error_reply(busy("the server is shutting down")));
  }
  writer.send(200, api::kJsonContentType, api::health_reply());
}

void add_monitoring_routes(HttpServer& server, const Service& service) {
  server.route("GET", "/metrics",
               [&server, &service, last = std::make_shared<LastScrape>()](HttpRequest&, ResponseWriter& writer) {
                 show_metrics(server, service, *last, writer);
               });
  server.route("GET", "/slots",
               [&service](HttpRequest& http, ResponseWriter& writer) { show_slots(service, http, writer); },
               {.is_light = true});
  for (const char* path : {"/props", "/v1/props"}) {
    server.route("POST", path,
                 [&service](HttpRequest& http, ResponseWriter& writer) { change_props(service, http, writer); });
  }
}

}  // namespace kvkeep::server
