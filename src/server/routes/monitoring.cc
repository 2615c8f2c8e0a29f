// The facts of scheduler and cache under the names that monitors know.

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <memory>
#include <string>
#include <utility>

#include "base/mutex.h"
#include "server/api/errors.h"
#include "server/routes/generation.h"
#include "server/routes/routes.h"
#include "server/run/places.h"

namespace kvkeep::server {
namespace {

using api::Metric;

Metric counter(std::string name, std::string help, double value) {
  return {Metric::Kind::kCounter, std::move(name), std::move(help), {{"", value}}};
}
Metric gauge(std::string name, std::string help, double value) {
  return {Metric::Kind::kGauge, std::move(name), std::move(help), {{"", value}}};
}
Metric by_tier(Metric::Kind kind, std::string name, std::string help, double ram, double disk) {
  return {kind, std::move(name), std::move(help), {{"tier=\"ram\"", ram}, {"tier=\"disk\"", disk}}};
}

// Times that requests waited, in seconds.
Metric waited(const WaitTimes& times) {
  Metric metric = {
      Metric::Kind::kCounter, "kvkeep_wait_seconds_total", "Time that ended requests waited, by cause.", {}};
  for (const WaitCause cause : kWaitCauses) {
    metric.samples.emplace_back(fmt::format("cause=\"{}\"", to_string(cause)), times[cause] / 1e3);
  }
  return metric;
}

double seconds(double ms) { return ms / 1e3; }
double number(std::uint64_t count) { return static_cast<double>(count); }
double number(ByteCount bytes) { return static_cast<double>(bytes.value()); }
double quotient(double sum, double over) { return over > 0 ? sum / over : 0; }

// Names and meanings are llama-server's.
std::vector<Metric> llama_metrics(const SchedulerStats& stats, const SchedulerStats& before) {
  return {
      counter("llamacpp:prompt_tokens_total", "Prompt tokens prefilled.", number(stats.prefilled_tokens)),
      counter("llamacpp:prompt_tokens_cached_total", "Prompt tokens taken from the cache.",
              number(stats.cached_tokens)),
      counter("llamacpp:prompt_seconds_total", "Time of prefilling.", seconds(stats.prefill_ms)),
      counter("llamacpp:tokens_predicted_total", "Tokens sampled.", number(stats.predicted_tokens)),
      counter("llamacpp:tokens_predicted_seconds_total", "Time between the tokens of replies, summed over replies.",
              seconds(stats.predicted_ms)),
      counter("llamacpp:n_decode_total", "Calls of llama_decode().", number(stats.model_calls)),
      counter("llamacpp:n_tokens_max", "Most tokens of a prompt with its reply.", number(stats.longest_tokens)),
      gauge("llamacpp:n_busy_slots_per_decode", "Requests that run during a call of llama_decode(), on average.",
            quotient(number(stats.calls_running), number(stats.model_calls))),
      gauge("llamacpp:prompt_tokens_seconds", "Prompt tokens prefilled per second, since the last scrape.",
            quotient(number(stats.prefilled_tokens) - number(before.prefilled_tokens),
                     seconds(stats.prefill_ms - before.prefill_ms))),
      gauge("llamacpp:predicted_tokens_seconds", "Tokens sampled per second and reply, since the last scrape.",
            quotient(number(stats.predicted_tokens) - number(before.predicted_tokens),
                     seconds(stats.predicted_ms - before.predicted_ms))),
      counter("llamacpp:spec_decode_num_drafts_total", "Drafts; there is no speculative decoding.", 0),
      counter("llamacpp:spec_decode_num_draft_tokens_total", "Tokens of drafts.", 0),
      counter("llamacpp:spec_decode_num_accepted_tokens_total", "Tokens of drafts that were accepted.", 0),
      gauge("llamacpp:requests_processing", "Requests that run.", number(stats.running)),
      gauge("llamacpp:requests_deferred", "Requests that wait.", number(stats.waiting)),
  };
}

Metric audits(const AuditCounts& counts) {
  Metric metric = {Metric::Kind::kCounter, "kvkeep_audits_total", "Audits of stored state, by their outcome.", {}};
  for (std::size_t i = 0; i < kAuditOutcomes; ++i) {
    const auto outcome = static_cast<AuditOutcome>(i);
    metric.samples.emplace_back(fmt::format("outcome=\"{}\"", to_string(outcome)), number(counts[outcome]));
  }
  return metric;
}

std::vector<Metric> scheduler_metrics(const SchedulerStats& stats) {
  return {
      counter("kvkeep_requests_total", "Requests that were accepted, prefills ahead included.", number(stats.requests)),
      counter("kvkeep_plans_total", "Lookups of a prompt in the cache, those that ended in waiting included.",
              number(stats.plans)),
      counter("kvkeep_requests_set_aside_total", "Times that a request gave its cells to an older one.",
              number(stats.set_aside)),
      counter("kvkeep_prefill_preemptions_total", "Times that one prefill paused for a slice of another.",
              number(stats.preemptions)),
      counter("kvkeep_prefix_waits_total", "Times that a request waited for a prefix that another was prefilling.",
              number(stats.prefix_waits)),
      waited(stats.waited),
      gauge("kvkeep_cells", "Cells of the model's memory.", stats.cells.total),
      gauge("kvkeep_cells_used", "Cells that hold tokens; those of shared prefixes count once.", stats.cells.used),
      gauge("kvkeep_cells_shared", "Cells that several conversations share.", stats.cells.shared),
      audits(stats.audits),
      counter("kvkeep_media_encoded_total", "Pictures and sounds that the projector turned into embeddings.",
              number(stats.media_encoded)),
      counter("kvkeep_media_encode_seconds_total", "Time that the projector took for them.", seconds(stats.encode_ms)),
  };
}

std::vector<Metric> cache_metrics(const cache::CacheStats& cache) {
  using enum Metric::Kind;
  return {
      gauge("kvkeep_cache_segments", "Segments that are known.", number(cache.segments)),
      gauge("kvkeep_cache_tokens", "Tokens whose rows are known; shared prefixes count once.", number(cache.tokens)),
      gauge("kvkeep_cache_points", "Points, whole states and windows.", number(cache.points)),
      by_tier(kGauge, "kvkeep_cache_used_bytes", "Bytes that a tier holds.", number(cache.ram_used),
              number(cache.disk_used)),
      by_tier(kGauge, "kvkeep_cache_budget_bytes", "Most bytes that a tier may hold.", number(cache.ram_budget),
              number(cache.disk_budget)),
      by_tier(kGauge, "kvkeep_cache_points_bytes", "Bytes of points, whole states and windows.",
              number(cache.points_ram), number(cache.points_disk)),
      gauge("kvkeep_cache_index_bytes", "Memory of the index.", number(cache.index_memory)),
      gauge("kvkeep_cache_staging_bytes", "Memory of buffers that wait for rows.", number(cache.staging_idle)),
      counter("kvkeep_cache_stored_total", "Segments and points that were stored.", number(cache.stored)),
      counter("kvkeep_cache_refused_total", "Segments and points that found no room.", number(cache.refused)),
      counter("kvkeep_cache_disk_refused_total", "Segments and points that the disk refused.",
              number(cache.disk_refused)),
      counter("kvkeep_cache_damaged_total", "Segments and points that were damaged when they were loaded.",
              number(cache.damaged)),
      by_tier(kCounter, "kvkeep_cache_evicted_total", "Segments and points that left a tier for lack of room.",
              number(cache.ram_evicted), number(cache.disk_evicted)),
      counter("kvkeep_cache_expired_total", "Segments and points that left at the end of their time to live.",
              number(cache.expired)),
      counter("kvkeep_cache_built_total", "Whole states that were stored as differences.", number(cache.built)),
      counter("kvkeep_cache_built_saved_bytes_total", "Bytes that the differences saved.", number(cache.built_saved)),
      gauge("kvkeep_cache_writes_waiting", "Segments and points in the write queue.", number(cache.waiting_writes)),
      gauge("kvkeep_cache_writes_remembered", "Segments and points that wait for a place in the write queue.",
            number(cache.remembered)),
      counter("kvkeep_cache_writes_held_back_total", "Segments and points that had to wait for such a place.",
              number(cache.held_back)),
      counter("kvkeep_cache_writes_put_off_total", "Times that one waited for the next day's writes.",
              number(cache.put_off)),
      counter("kvkeep_cache_disk_stops_total", "Times that the file system had too little free space.",
              number(cache.disk_stops)),
      gauge("kvkeep_cache_disk_stopped", "1 while the file system has too little free space, else 0.",
            cache.disk_stopped ? 1 : 0),
      counter("kvkeep_cache_fresh_buffers_total", "Times that rows were copied into fresh memory.",
              number(cache.fresh_buffers)),
  };
}

Error not_started_with(const char* endpoint, const char* flag) {
  return unsupported(fmt::format("This server does not support {} endpoint. Start it with `{}`", endpoint, flag));
}

// The totals at the last scrape. Thread safe.
class LastScrape {
 public:
  // Returns the totals at the scrape before this one.
  SchedulerStats replace(const SchedulerStats& now) {
    MutexLock lock(mutex_);
    return std::exchange(totals_, now);
  }

 private:
  Mutex mutex_;
  SchedulerStats totals_ GUARDED_BY(mutex_);
};

void show_metrics(const Service& service, LastScrape& last, ResponseWriter& writer) {
  if (!service.endpoints.metrics) {
    return send_error(writer, api::error_reply(not_started_with("metrics", "--metrics")));
  }
  const SchedulerStats now = service.scheduler->stats();
  const std::vector<Metric> metrics = metrics_of(now, last.replace(now), service.cache_stats());
  writer.send(200, api::kMetricsContentType, api::metrics_text(metrics),
              {{"Process-Start-Time-Unix", std::to_string(service.card.created_s)}});
}

std::string_view state_of(const Place& place) {
  using Phase = policy::ScheduledRequest::Phase;
  if (!place.running) return "idle";
  switch (place.phase) {
    case Phase::kWaiting: return "waiting";
    case Phase::kLoading: return "loading";
    case Phase::kPrefill: return "prefilling";
    case Phase::kDecode: return "decoding";
  }
  return "waiting";
}

std::vector<std::pair<std::string_view, double>> named(const WaitTimes& times) {
  std::vector<std::pair<std::string_view, double>> named;
  for (const WaitCause cause : kWaitCauses) named.emplace_back(to_string(cause), times[cause]);
  return named;
}

std::vector<api::Slot> slots_of(const Service& service) {
  std::vector<api::Slot> slots;
  for (const Place& place : service.scheduler->places()) {
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

void show_health(const Service& service, const HttpRequest& /*http*/, ResponseWriter& writer) {
  if (service.scheduler->stats().closed) {
    return send_error(writer, api::error_reply(busy("the server is shutting down")));
  }
  writer.send(200, api::kJsonContentType, api::health_reply());
}

std::vector<Metric> metrics_of(const SchedulerStats& stats, const SchedulerStats& before,
                               const cache::CacheStats& cache) {
  std::vector<Metric> all = llama_metrics(stats, before);
  for (std::vector<Metric> group : {scheduler_metrics(stats), cache_metrics(cache)}) {
    std::ranges::move(group, std::back_inserter(all));
  }
  return all;
}

void add_monitoring_routes(HttpServer& server, const Service& service) {
  server.route("GET", "/metrics",
               [&service, last = std::make_shared<LastScrape>()](HttpRequest&, ResponseWriter& writer) {
                 show_metrics(service, *last, writer);
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
