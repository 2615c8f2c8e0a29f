// Routes about what is cached: GET /cache and /cache/tree show it; POST /cache/pin, /cache/unpin, /cache/clear and
// /cache/warm change it. docs/cache-api.md describes them. A client sees and changes only state of its own tenant,
// whatever scales of LoRA adapters it was computed with, and no text of any prompt.

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cache/cache.h"
#include "cache/catalog.h"
#include "cache/stored_sums.h"
#include "server/api/cache_lookup.h"
#include "server/api/errors.h"
#include "server/api/json_body.h"
#include "server/routes/generation.h"
#include "server/routes/prompt.h"
#include "server/routes/routes.h"
#include "server/routes/sender.h"
#include "server/run/orders.h"
#include "server/run/places.h"

namespace kvkeep::server {
namespace {

using api::Json;

constexpr std::uint32_t kHottest = 10;  // by default
constexpr std::uint32_t kMostHottest = 100;
constexpr std::size_t kDefaultPage = 1'000;
constexpr std::size_t kLargestPage = 10'000;
constexpr std::size_t kIdBytes = 8;

void reply_json(ResponseWriter& writer, const Json& json) {
  writer.send(200, api::kJsonContentType, api::to_line(json));
}
// A full disk, or a full list of pins, is no fault of the request.
void send_refusal(ResponseWriter& writer, const Error& error) {
  send_error(writer, api::error_reply(error.kind == ErrorKind::kNoSpace ? busy(error.message) : error));
}

// The asking client's tenants: of all scales of adapters, unless it names some.
TenantScope asking_tenants(const Service& service, const HttpRequest& http, std::string_view cache_salt,
                           const std::optional<engine::AdapterScales>& scales = {}) {
  if (scales) return tenant_of(service, http, cache_salt, service.adapters->for_job(scales));
  return TenantScope::with_forms(tenant_of(service, http, cache_salt));
}

double seconds_of(std::int64_t ns) { return static_cast<double>(ns) / 1e9; }

// A whole number of the query; `absent` if it is not there.
Result<std::uint32_t> number_of(const HttpRequest& http, std::string_view name, std::uint32_t absent, std::uint32_t low,
                                std::uint32_t high) {
  const std::string_view text = http.parameter(name);
  if (text.empty()) return absent;
  std::uint32_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size() || number < low || number > high) {
    return invalid(fmt::format("'{}' must be a whole number from {} to {}", name, low, high));
  }
  return number;
}

// ---- GET /cache ----

// What is told of prefixes besides what the cache knows.
struct Told {
  explicit Told(const Service& service)
      : now_ns(service.clock->wall_ns()), pins(service.pins ? service.pins->all() : std::vector<PrefixHash>()) {}
  const std::int64_t now_ns;
  const std::vector<PrefixHash> pins;
};

Json of_prefix(const cache::ListedPrefix& prefix, const Told& told) {
  const bool kept = prefix.kept_until_ns > told.now_ns;
  return {{"id", prefix.hash.hex(kIdBytes)},
          {"number", prefix.segment.value()},
          {"parent", prefix.parent.value()},
          {"begin", prefix.range.begin.value()},
          {"end", prefix.range.end.value()},
          {"ram_bytes", prefix.ram.value()},
          {"disk_bytes", prefix.disk.value()},
          {"points", prefix.points},
          {"hits", prefix.hits},
          {"last_use", seconds_of(prefix.last_used_ns)},
          {"pinned", std::ranges::count(told.pins, prefix.hash) > 0},
          {"kept_until", kept ? Json(seconds_of(prefix.kept_until_ns)) : Json()}};
}

Json of_tiers(const cache::CacheStats& stats, const std::optional<share::ShareCounters>& shared) {
  Json tiers = Json::array();
  tiers.push_back(
      {{"name", "ram"}, {"used_bytes", stats.ram_used.value()}, {"budget_bytes", stats.ram_budget.value()}});
  if (stats.directory.has_disk) {
    tiers.push_back({{"name", "disk"},
                     {"used_bytes", stats.disk_used.value()},
                     {"budget_bytes", stats.disk_budget.value()},
                     {"stopped", stats.disk_stopped},
                     {"keeper", stats.directory.keeper},
                     {"shared", stats.directory.shared}});
  }
  if (!shared) return tiers;
  tiers.push_back({{"name", "shared"},
                   {"lookups", shared->lookups},
                   {"hits", shared->hits},
                   {"loaded_bytes", shared->loaded_bytes},
                   {"published_bytes", shared->published_bytes},
                   {"failures", shared->failures}});
  return tiers;
}

Json of_tokens(const JobStats& stats) {
  return {{"prompt_tokens", stats.prompt_tokens},
          {"cached_tokens", stats.cached_tokens},
          {"memory_tokens", stats.memory_tokens},
          {"ram_tokens", stats.ram_tokens},
          {"disk_tokens", stats.disk_tokens},
          {"shared_tokens", stats.shared_tokens},
          {"prefilled_tokens", stats.prefilled_tokens},
          {"predicted_tokens", stats.predicted_tokens},
          {"queue_ms", stats.queue_ms},
          {"load_ms", stats.load_ms},
          {"prompt_ms", stats.prompt_ms},
          {"predicted_ms", stats.predicted_ms}};
}

Json of_running(const std::vector<Place>& places) {
  Json running = Json::array();
  for (const Place& place : places) {
    if (!place.running) continue;
    const std::optional<WaitCause> waits_for = place.stats.waits.now();
    Json one = {{"task", place.task},
                {"state", state_of(place)},
                {"waits_for", waits_for ? Json(to_string(*waits_for)) : Json()}};
    one.update(of_tokens(place.stats));
    running.push_back(std::move(one));
  }
  return running;
}

Json of_ended(const std::vector<EndedPlace>& ended, const TenantScope& tenants) {
  Json last = Json::array();
  for (const EndedPlace& request : ended) {
    if (!tenants.has(request.tenant)) continue;
    Json one = {{"id", request.id},
                {"kind", request.kind},
                {"ended", seconds_of(request.ended_ns)},
                {"end", to_string(request.how)},
                {"cache_miss_reason", to_string(request.stats.miss)}};
    one.update(of_tokens(request.stats));
    last.push_back(std::move(one));
  }
  return last;
}

// Without keys everyone sees the sums of all tenants; they tell of others what /slots tells. None is named.
Json of_tenants(const TenantSums& sums, const cache::Cache& cache, const TenantScope& asking) {
  Json list = Json::array();
  for (const TenantFigures& one : sums.all()) {
    const cache::StoredBytes stored = cache.stored_by(one.tenant);
    list.push_back({{"number", one.number},
                    {"own", asking.has(one.tenant)},
                    {"salted", is_salted(one.tenant)},
                    {"requests", one.requests},
                    {"prompt_tokens", one.prompt_tokens},
                    {"cached_tokens", one.cached_tokens},
                    {"prefilled_tokens", one.prefilled_tokens},
                    {"predicted_tokens", one.predicted_tokens},
                    {"ram_bytes", stored.ram.value()},
                    {"disk_bytes", stored.disk.value()},
                    {"last", seconds_of(one.last_ns)}});
  }
  return list;
}

Json of_work(const Work& work) { return {{"tokens", work.reused_tokens}, {"seconds", work.saved_ms / 1e3}}; }

// Since this server started, and since the directory exists.
Json of_savings(Savings& savings, const Work& now) {
  const auto [own, ever] = savings.sums(now);
  Json saved = of_work(own);
  saved["ever"] = of_work(ever);
  saved["ever"]["since"] = seconds_of(savings.since_ns());
  return saved;
}

Json of_sources(const SchedulerStats& stats) {
  const RequestFigures& figures = stats.figures;
  return {{"memory", figures.memory_tokens}, {"ram", figures.ram_tokens},         {"disk", figures.disk_tokens},
          {"shared", figures.shared_tokens}, {"prefill", stats.prefilled_tokens}, {"new", figures.new_tokens},
          {"again", figures.again_tokens}};
}

// What an operator has to mend, as sentences; one that a tier shows by itself is not repeated.
Json of_problems(const cache::CacheStats& stats) {
  Json problems = Json::array();
  if (stats.distrusted) {
    problems.push_back(
        "An audit found stored state of this model wrong: nothing stored is used, and nothing is stored. Find the "
        "cause, remove that state with 'kvkeep cache rm --model', and restart the server; its log and docs/audit.md "
        "say more.");
  }
  return problems;
}

Result<Json> overview(const Service& service, const HttpRequest& http) {
  TRY_ASSIGN(const std::uint32_t most_hottest, number_of(http, "hottest", kHottest, 0, kMostHottest));
  const TenantScope tenants = asking_tenants(service, http, salt_of_query(http));
  const SchedulerStats stats = service.scheduler->stats();
  const cache::CacheStats cache = service.cache->stats();
  const Told told(service);
  Json hottest = Json::array();
  // To find them takes time for each prefix that is known.
  if (most_hottest > 0) {
    for (const cache::ListedPrefix& prefix : service.cache->hottest(most_hottest, tenants)) {
      hottest.push_back(of_prefix(prefix, told));
    }
  }
  return Json{{"model", service.model_name},
              {"now", seconds_of(told.now_ns)},
              {"started", service.card.created_s},
              {"context_tokens", service.context_tokens},
              {"memory_class", service.memory_class},
              {"cells", {{"total", stats.cells.total}, {"used", stats.cells.used}, {"shared", stats.cells.shared}}},
              {"segments", cache.segments},
              {"tokens", cache.tokens},
              {"points", cache.points},
              {"tiers", of_tiers(cache, service.cache->share_counters())},
              {"problems", of_problems(cache)},
              {"prompt_tokens", of_sources(stats)},
              {"predicted_tokens", stats.predicted_tokens},
              {"saved", of_savings(*service.savings, work_of(stats))},
              {"requests", {{"accepted", stats.requests}, {"running", stats.running}, {"waiting", stats.waiting}}},
              {"running", of_running(service.scheduler->places().all())},
              {"ended", of_ended(service.scheduler->places().ended(), tenants)},
              {"tenants", of_tenants(service.scheduler->places().tenants(), *service.cache, tenants)},
              {"hottest", std::move(hottest)}};
}

void show_cache(const Service& service, const HttpRequest& http, ResponseWriter& writer) {
  const Result<Json> shown = overview(service, http);
  shown ? reply_json(writer, *shown) : send_refusal(writer, shown.error());
}

// ---- GET /cache/tree ----

Result<Json> tree_page(const Service& service, const HttpRequest& http) {
  TRY_ASSIGN(const std::uint32_t after, number_of(http, "after", 0, 0, UINT32_MAX - 1));
  TRY_ASSIGN(const std::uint32_t limit, number_of(http, "limit", kDefaultPage, 1, kLargestPage));
  const TenantScope tenants = asking_tenants(service, http, salt_of_query(http));
  const cache::Listing listing = service.cache->list(SegmentId{after}, limit, tenants);
  const Told told(service);
  Json prefixes = Json::array();
  for (const cache::ListedPrefix& prefix : listing.prefixes) prefixes.push_back(of_prefix(prefix, told));
  return Json{{"now", seconds_of(told.now_ns)},
              {"prefixes", std::move(prefixes)},
              {"next", listing.next ? Json(listing.next->value()) : Json()}};
}

void show_tree(const Service& service, const HttpRequest& http, ResponseWriter& writer) {
  const Result<Json> page = tree_page(service, http);
  page ? reply_json(writer, *page) : send_refusal(writer, page.error());
}

// ---- prefixes that requests name ----

// The prompt's token ids, as a request with this prompt would be looked up.
Result<std::vector<TokenId>> prompt_ids(const Service& service, api::PromptSource& source, const Tenant& tenant,
                                        const HttpRequest& http) {
  TRY_ASSIGN(Prompt prompt, read_prompt(service, source, tenant, http.client_gone));
  if (prompt.tokens_min == 0) return invalid("the prompt is empty");
  if (prompt.tokens_min >= service.context_tokens) {
    return invalid(
        fmt::format("the prompt has {} tokens, and the context {}", prompt.tokens_min, service.context_tokens));
  }
  return std::move(prompt.ids);
}

// By a prompt: the longest cached prefix of it that ends where a stored piece ends.
Result<cache::ListedPrefix> find_prefix(const Service& service, api::NamedPrefix& named, const HttpRequest& http) {
  if (!named.id.empty()) {
    return service.cache->find(named.id, asking_tenants(service, http, named.cache_salt, named.adapters));
  }
  const Tenant tenant = tenant_of(service, http, named.cache_salt, service.adapters->for_job(named.adapters));
  TRY_ASSIGN(const std::vector<TokenId> ids, prompt_ids(service, named.prompt, tenant, http));
  const std::shared_ptr<cache::Lease> lease = service.cache->lease(ids, tenant);
  const auto& steps = lease->steps();
  const auto last = std::ranges::find_if(
      steps.rbegin(), steps.rend(), [](const cache::LeasedStep& step) { return step.range.end == step.stored.end; });
  if (last == steps.rend()) return not_found("nothing of this prompt is cached");
  PrefixHasher hasher(prefix_key(service.fingerprint, tenant));
  hasher.append(TokenSpan(ids).first(last->range.end.value()));
  return service.cache->find(hasher.current().hex(), tenant);
}

// ---- POST /cache/pin, /cache/unpin ----

void answer_pin(const std::shared_ptr<ResponseWriter>& writer, const cache::ListedPrefix& prefix, bool pin,
                const Result<bool>& changed) {
  writer->post([writer, prefix, pin, changed] {
    if (!changed) return send_refusal(*writer, changed.error());
    reply_json(*writer, {{"id", prefix.hash.hex(kIdBytes)},
                         {"tokens", prefix.range.end.value()},
                         {"pinned", pin},
                         {"changed", *changed}});
  });
}

Result<cache::ListedPrefix> prefix_to_pin(const Service& service, HttpRequest& http) {
  if (!service.pins)
    return unsupported(
        "pins lie in the directory of the disk cache, and this server has none: start it with --kv-disk-dir DIR");
  TRY_ASSIGN(const api::PromptApi of, api::prompt_api_of(http.parameter("dialect")));
  TRY_ASSIGN(api::NamedPrefix named, api::parse_named_prefix(take_body(service, http), service.defaults, of));
  TRY_ASSIGN(const cache::ListedPrefix prefix, find_prefix(service, named, http));
  if (prefix.disk == ByteCount{})
    return busy(
        "this prefix is not on disk yet: try again later; one shorter than --kv-cache-min-tokens is written with what "
        "continues it");
  return prefix;
}

void change_pin(const Service& service, HttpRequest& http, ResponseWriter& writer, bool pin) {
  const Result<cache::ListedPrefix> prefix = prefix_to_pin(service, http);
  if (!prefix) return send_refusal(writer, prefix.error());
  service.pins->executor->post([pins = *service.pins, kept = writer.keep(), found = *prefix, pin] {
    answer_pin(kept, found, pin, pins.change(found.hash, pin));
  });
}

// ---- POST /cache/clear ----

Result<cache::ClearScope> scope_of(const Service& service, HttpRequest& http) {
  TRY_ASSIGN(const api::PromptApi of, api::prompt_api_of(http.parameter("dialect")));
  TRY_ASSIGN(api::ClearRequest asked, api::parse_clear(take_body(service, http), service.defaults, of));
  cache::ClearScope scope{.tenants = asking_tenants(service, http, asked.cache_salt, asked.adapters)};
  if (asked.unused_s) scope.unused_ns = *asked.unused_s * 1'000'000'000;
  if (!asked.prefix) return scope;
  TRY_ASSIGN(const cache::ListedPrefix prefix, find_prefix(service, *asked.prefix, http));
  scope.below = prefix.hash;
  scope.with_own_beginning = asked.prefix->id.empty();
  return scope;
}

void clear_cache(const Service& service, HttpRequest& http, ResponseWriter& writer) {
  const Result<cache::ClearScope> scope = scope_of(service, http);
  if (!scope) return send_refusal(writer, scope.error());
  const auto answer = [kept = writer.keep()](const Result<cache::Cleared>& cleared) {
    kept->post([kept, cleared] {
      if (!cleared) return send_refusal(*kept, cleared.error());
      reply_json(*kept, {{"prefixes", cleared->prefixes},
                         {"tokens", cleared->tokens},
                         {"ram_bytes", cleared->ram.value()},
                         {"disk_bytes", cleared->disk.value()}});
    });
  };
  if (const Status asked = clear(*service.scheduler, *scope, answer); !asked) send_refusal(writer, asked.error());
}

}  // namespace

Error no_cache_api() {
  return unsupported("This server does not support cache endpoints. Start it without `--no-cache-api`");
}

void add_cache_routes(HttpServer& server, const Service& service) {
  const auto route = [&](const char* method, const char* path, const std::vector<std::string>& parameters,
                         auto handler) {
    server.route(method, path, [&service, parameters, handler](HttpRequest& http, ResponseWriter& writer) {
      if (!service.endpoints.cache) return send_refusal(writer, no_cache_api());
      if (const Status known = check_parameters(http, parameters); !known) return send_refusal(writer, known.error());
      handler(service, http, writer);
    });
  };
  route("GET", "/cache", {"hottest", "cache_salt"}, show_cache);
  route("GET", "/cache/tree", {"limit", "after", "cache_salt"}, show_tree);
  for (const bool pin : {true, false}) {
    route("POST", pin ? "/cache/pin" : "/cache/unpin", {"dialect"},
          [pin](const Service& shared, HttpRequest& http, ResponseWriter& writer) {
            change_pin(shared, http, writer, pin);
          });
  }
  route("POST", "/cache/clear", {"dialect"}, clear_cache);
  route("POST", "/cache/warm", {"dialect", "keep_s"}, warm_cache);
}

}  // namespace kvkeep::server
