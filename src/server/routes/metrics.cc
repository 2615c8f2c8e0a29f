// The facts of scheduler and cache as metrics: docs/monitoring.md describes each.

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <optional>
#include <string>
#include <utility>

#include "server/routes/routes.h"
#include "server/run/found_break.h"

namespace kvkeep::server {
namespace {

using api::Metric;

Metric counter(std::string name, std::string help, double value) {
  return {Metric::Kind::kCounter, std::move(name), std::move(help), {{.value = value}}};
}
Metric gauge(std::string name, std::string help, double value) {
  return {Metric::Kind::kGauge, std::move(name), std::move(help), {{.value = value}}};
}
Metric by_tier(Metric::Kind kind, std::string name, std::string help, double ram, double disk) {
  return {kind, std::move(name), std::move(help), {{"tier=\"ram\"", ram}, {"tier=\"disk\"", disk}}};
}

template <const auto& kBounds>
Metric histogram(std::string name, std::string help, const Histogram<kBounds>& values) {
  Metric metric{Metric::Kind::kHistogram, std::move(name), std::move(help), {}};
  metric.add_histogram("", values.bounds(), values.counts(), values.sum());
  return metric;
}

// Times that requests waited, in seconds.
Metric waited(const WaitTimes& times) {
  Metric metric = {
      Metric::Kind::kCounter, "kvkeep_wait_seconds_total", "Time that ended requests waited, by cause.", {}};
  for (const WaitCause cause : kWaitCauses) {
    metric.samples.push_back({fmt::format("cause=\"{}\"", to_string(cause)), times[cause] / 1e3});
  }
  return metric;
}

Metric waiting(const SchedulerStats& stats) {
  Metric metric = {Metric::Kind::kGauge, "kvkeep_waiting", "Requests that wait now, by cause.", {}};
  for (const WaitCause cause : kWaitCauses) {
    metric.samples.push_back(
        {fmt::format("cause=\"{}\"", to_string(cause)), static_cast<double>(stats.waiting_for[cause])});
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
    metric.samples.push_back({fmt::format("outcome=\"{}\"", to_string(outcome)), number(counts[outcome])});
  }
  return metric;
}

std::vector<Metric> scheduler_metrics(const SchedulerStats& stats) {
  return {
      counter("kvkeep_requests_total", "Requests that were accepted, prefills ahead included.", number(stats.requests)),
      counter("kvkeep_plans_total", "Lookups of a prompt in the cache, those that ended in waiting included.",
              number(stats.plans)),
      counter("kvkeep_requests_set_aside_total", "Times that a request gave its cells back and resumed later.",
              number(stats.set_aside)),
      counter("kvkeep_prefill_preemptions_total", "Times that one prefill paused for a slice of another.",
              number(stats.preemptions)),
      counter("kvkeep_joint_calls_total", "Calls of the model that decoded for replies and prefilled a slice as well.",
              number(stats.joint_calls)),
      counter("kvkeep_prefix_waits_total", "Times that a request waited for a prefix that another was prefilling.",
              number(stats.prefix_waits)),
      waited(stats.waited),
      waiting(stats),
      gauge("kvkeep_open_prompt_tokens", "Tokens of the prompts that run and wait, as they were sent.",
            number(stats.open_tokens)),
      gauge("kvkeep_cells", "Cells of the model's memory.", stats.cells.total),
      gauge("kvkeep_cells_used", "Cells that hold tokens; those of shared prefixes count once.", stats.cells.used),
      gauge("kvkeep_cells_shared", "Cells that several conversations share.", stats.cells.shared),
      gauge("kvkeep_own_cells", "1 while each running request has cells of its own, 0 while all share one pool.",
            stats.own_cells ? 1 : 0),
      counter("kvkeep_layout_changes_total", "Times that the layout of the model's memory was changed.",
              number(stats.layout_changes)),
      audits(stats.audits),
      counter("kvkeep_media_encoded_total", "Pictures and sounds that the projector turned into embeddings.",
              number(stats.media_encoded)),
      counter("kvkeep_media_encode_seconds_total", "Time that the projector took for them.", seconds(stats.encode_ms)),
  };
}

// ---- requests ----

Metric tokens_by_source(const SchedulerStats& stats) {
  const RequestFigures& figures = stats.figures;
  return {Metric::Kind::kCounter,
          "kvkeep_prompt_tokens_total",
          "Tokens of prompts, by the source of their state.",
          {{"source=\"memory\"", number(figures.memory_tokens)},
           {"source=\"ram\"", number(figures.ram_tokens)},
           {"source=\"disk\"", number(figures.disk_tokens)},
           {"source=\"shared\"", number(figures.shared_tokens)},
           {"source=\"prefill\"", number(stats.prefilled_tokens)}}};
}

// Prompts and tokens by the reason for which no more was reused.
std::vector<Metric> misses(const RequestFigures& figures) {
  using enum Metric::Kind;
  Metric prompts{kCounter, "kvkeep_prompts_total", "Prompts, by the reason why no more of them was reused.", {}};
  Metric tokens{kCounter, "kvkeep_missed_tokens_total", "Tokens of these prompts that were prefilled.", {}};
  for (std::size_t i = 0; i < kMissReasons; ++i) {
    const std::string reason = fmt::format("reason=\"{}\"", to_string(static_cast<MissReason>(i)));
    prompts.samples.push_back({reason, number(figures.missed[i].prompts)});
    tokens.samples.push_back({reason, number(figures.missed[i].tokens)});
  }
  return {prompts, tokens};
}

// Requests and lost tokens by the kind of their explanation (docs/explain.md).
std::vector<Metric> breaks(const RequestFigures& figures) {
  using enum Metric::Kind;
  Metric requests{kCounter, "kvkeep_breaks_total", "Requests that ended, by the kind of break that ended reuse.", {}};
  Metric tokens{
      kCounter, "kvkeep_lost_tokens_total", "Tokens that they prefilled though they were computed before.", {}};
  for (std::size_t i = 0; i < explain::kBreakKinds; ++i) {
    const std::string kind = fmt::format("kind=\"{}\"", to_string(static_cast<explain::BreakKind>(i)));
    requests.samples.push_back({kind, number(figures.breaks[i].requests)});
    tokens.samples.push_back({kind, number(figures.breaks[i].lost_tokens)});
  }
  return {requests, tokens};
}

Metric ends(const RequestFigures& figures) {
  Metric metric{Metric::Kind::kCounter, "kvkeep_requests_ended_total", "Replies that ended, by their end.", {}};
  for (std::size_t i = 0; i < kFinishes; ++i) {
    const std::string end = fmt::format("end=\"{}\"", to_string(static_cast<Finish>(i)));
    metric.samples.push_back({end, number(figures.ends[i])});
  }
  return metric;
}

Metric failures(const RequestFigures& figures) {
  return {Metric::Kind::kCounter,
          "kvkeep_failures_total",
          "Operations for requests that failed, by kind.",
          {{"kind=\"read\"", number(figures.failed_reads)},
           {"kind=\"restore\"", number(figures.refused_restores)},
           {"kind=\"model\"", number(figures.failed_calls)}}};
}

std::vector<Metric> moved(const std::string& name, const std::string& what, const Moved& sum) {
  return {counter("kvkeep_" + name + "_bytes_total", what + ".", number(sum.bytes)),
          counter("kvkeep_" + name + "_seconds_total", what + ": the time that it took.", seconds(sum.ms))};
}

std::vector<Metric> request_metrics(const SchedulerStats& stats) {
  const RequestFigures& figures = stats.figures;
  std::vector<Metric> all = {
      tokens_by_source(stats),
      counter("kvkeep_new_tokens_total", "Tokens prefilled that were never seen after their prefix.",
              number(figures.new_tokens)),
      gauge("kvkeep_prefilled_per_new_token", "Prompt tokens prefilled for each that was never seen, since the start.",
            quotient(number(stats.prefilled_tokens), number(figures.new_tokens))),
      ends(figures),
      failures(figures),
      histogram("kvkeep_queue_seconds", "From the arrival of a request to its start.", figures.queue),
      histogram("kvkeep_load_seconds", "Reading and restoring, of requests that restored state.", figures.load),
      histogram("kvkeep_prefill_slice_seconds", "Slices of prefill.", figures.slice),
      histogram("kvkeep_first_token_seconds", "From the arrival of a request to the first token of its reply.",
                figures.first_token),
      histogram("kvkeep_token_gap_seconds", "Between two tokens of a reply.", figures.token_gap),
  };
  for (std::vector<Metric> group :
       {misses(figures), breaks(figures), moved("read", "State read from disk for requests", figures.read),
        moved("restored", "State copied into the model's memory", figures.restored),
        moved("captured", "State copied out of the model's memory", figures.captured)}) {
    std::ranges::move(group, std::back_inserter(all));
  }
  return all;
}

// ---- spared prefill ----

std::vector<Metric> savings(const Savings::Sums& sums) {
  const auto of_both = [](std::string name, std::string help, double since_start, double in_all) {
    return Metric{Metric::Kind::kGauge,
                  std::move(name),
                  std::move(help),
                  {{"since=\"start\"", since_start}, {"since=\"ever\"", in_all}}};
  };
  return {of_both("kvkeep_reused_tokens", "Prompt tokens that requests of clients took from the cache.",
                  number(sums.own.reused_tokens), number(sums.ever.reused_tokens)),
          of_both("kvkeep_saved_seconds", "Time that prefilling these would have taken, less that of loading them.",
                  seconds(sums.own.saved_ms), seconds(sums.ever.saved_ms))};
}

// ---- the cache ----

Metric evictions(const cache::CacheStats& cache) {
  using enum cache::EvictCause;
  return {Metric::Kind::kCounter,
          "kvkeep_cache_evicted_total",
          "Segments and points that left a tier, by reason.",
          {{"tier=\"ram\",reason=\"room\"", number(cache.from_ram[kRoom])},
           {"tier=\"disk\",reason=\"room\"", number(cache.from_disk[kRoom])},
           {"tier=\"disk\",reason=\"points-share\"", number(cache.from_disk[kPointsShare])},
           {"tier=\"disk\",reason=\"expired\"", number(cache.from_disk[kExpired])}}};
}

Metric evict_idle(const cache::CacheStats& cache) {
  Metric metric{Metric::Kind::kHistogram, "kvkeep_cache_evict_idle_seconds", "How long evicted state was unused.", {}};
  const auto add = [&](const char* tier, const IdleTimes& idle) {
    metric.add_histogram(fmt::format("tier=\"{}\"", tier), idle.bounds(), idle.counts(), idle.sum());
  };
  add("ram", cache.from_ram.idle);
  add("disk", cache.from_disk.idle);
  return metric;
}

// This server's part where several use the directory on disk.
std::vector<Metric> directory_metrics(const cache::DirectoryShare& share) {
  return {
      gauge("kvkeep_directory_keeper", "1 if this server keeps the budget of its directory, else 0.",
            share.keeper ? 1 : 0),
      gauge("kvkeep_directory_shared", "1 while other servers use the directory, or may do so, else 0.",
            share.shared ? 1 : 0),
      gauge("kvkeep_directory_lease_bytes", "Bytes that a member may still write.", number(share.lease_left)),
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
      gauge("kvkeep_cache_distrusted", "1 if an audit found stored state wrong, so that none is used, else 0.",
            cache.distrusted ? 1 : 0),
      evictions(cache),
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
      counter("kvkeep_cache_stored_bytes_total", "Bytes of the segments and points that were stored.",
              number(cache.stored_bytes)),
      histogram("kvkeep_cache_reuse_idle_seconds", "How long state was unused before a request reused it.",
                cache.reuse),
      evict_idle(cache),
      counter("kvkeep_cache_fresh_buffers_total", "Times that rows were copied into fresh memory.",
              number(cache.fresh_buffers)),
  };
}

// ---- the shared tier ----

std::vector<Metric> shared_metrics(const std::optional<share::ShareCounters>& shared, const Moved& read) {
  if (!shared) return {};
  return {
      counter("kvkeep_share_lookups_total", "Prompts that were looked up in the shared tier.", number(shared->lookups)),
      counter("kvkeep_share_hits_total", "Look-ups that found more of a prompt.", number(shared->hits)),
      counter("kvkeep_share_loads_total", "Segments and points read from the shared tier.", number(shared->loads)),
      counter("kvkeep_share_loaded_bytes_total", "Bytes read from the shared tier.", number(shared->loaded_bytes)),
      counter("kvkeep_share_load_seconds_total", "Time of reading from the shared tier for requests that ended.",
              seconds(read.ms)),
      counter("kvkeep_share_published_total", "Segments and points that were published.", number(shared->published)),
      counter("kvkeep_share_published_bytes_total", "Bytes that were published.", number(shared->published_bytes)),
      gauge("kvkeep_share_waiting", "Segments, points and turns that wait to be published.", number(shared->waiting)),
      counter("kvkeep_share_refused_total", "Segments and points that were not published: the queue was full.",
              number(shared->refused)),
      counter("kvkeep_share_damaged_total", "Answers of the shared tier that were not what was published.",
              number(shared->damaged)),
      counter("kvkeep_share_broken_total", "Segments and points that the shared tier had without all of their payload.",
              number(shared->broken)),
      counter("kvkeep_share_load_misses_total", "Segments and points that left the shared tier before they were read.",
              number(shared->load_misses)),
      counter("kvkeep_share_foreign_paths_total", "Authentic answers of the shared tier that were of another prompt.",
              number(shared->foreign_paths)),
      counter("kvkeep_share_orphans_total",
              "Segments and points not published because those before them are not there.", number(shared->orphans)),
      counter("kvkeep_share_publish_failures_total", "Segments, points and turns that could not be published.",
              number(shared->publish_failures)),
      counter("kvkeep_share_failures_total", "Calls to the shared tier that failed or passed their deadline.",
              number(shared->failures)),
      counter("kvkeep_share_breaker_openings_total", "Times that a node of the shared tier was left alone for a while.",
              number(shared->breaker_openings)),
      gauge("kvkeep_share_nodes", "Nodes of the shared tier that have names.", number(shared->nodes)),
      gauge("kvkeep_share_nodes_left_alone", "Those of them that are not asked now, because calls failed.",
            number(shared->left_alone)),
      gauge("kvkeep_share_latency_seconds", "Usual time of a look-up's round trip; 0: not measured yet.",
            seconds(shared->latency_ms)),
      gauge("kvkeep_share_read_bytes_per_second", "Rate of reading; 0: not measured yet.", shared->read_bytes_per_s),
      gauge("kvkeep_share_write_bytes_per_second", "Rate of publishing; 0: not measured yet.",
            shared->write_bytes_per_s),
  };
}

std::vector<Metric> unread_metrics(const UnreadCounts& counts) {
  Metric ended{Metric::Kind::kCounter,
               "kvkeep_unread_replies_ended_total",
               "Connections that were ended because their clients did not read, by cause.",
               {}};
  for (std::size_t i = 0; i < kUnreadCauses; ++i) {
    ended.samples.push_back(
        {fmt::format("cause=\"{}\"", to_string(static_cast<UnreadCause>(i))), number(counts.ended[i])});
  }
  return {gauge("kvkeep_unread_reply_bytes", "Bytes of replies that wait to be read by clients.", number(counts.bytes)),
          std::move(ended)};
}

}  // namespace

std::vector<Metric> metrics_of(const SchedulerStats& stats, const SchedulerStats& before, const Savings::Sums& saved,
                               const cache::CacheStats& cache, const UnreadCounts& unread,
                               const std::optional<share::ShareCounters>& shared) {
  std::vector<Metric> all = llama_metrics(stats, before);
  for (std::vector<Metric> group :
       {scheduler_metrics(stats), request_metrics(stats), unread_metrics(unread), savings(saved), cache_metrics(cache),
        moved("cache_written", "State written to disk", cache.written), directory_metrics(cache.directory),
        shared_metrics(shared, stats.figures.shared_read)}) {
    std::ranges::move(group, std::back_inserter(all));
  }
  return all;
}

}  // namespace kvkeep::server
