#pragma once

// The server's routes: where HTTP, dialects, templates and the scheduler meet.
//
// A handler runs on one of the HTTP server's workers: it parses, renders and tokenizes, hands token ids to the
// scheduler and returns. An Answer (answer.h) makes the reply from the job's events. Nothing here waits, but for files
// of other hosts (prompt_files.h), on threads that are set apart for that.

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/mutex.h"
#include "base/vocabulary.h"
#include "cache/cache_options.h"
#include "cache/cache_stats.h"
#include "cache/shared_access.h"
#include "chat/history_changes.h"
#include "chat/long_text.h"
#include "chat/marker_set.h"
#include "chat/prompt_places.h"
#include "chat/render.h"
#include "chat/stabilize.h"
#include "chat/tools/tool_format.h"
#include "chat/turns.h"
#include "os/clock.h"
#include "os/executor.h"
#include "os/file_system.h"
#include "server/api/known_fields.h"
#include "server/api/models.h"
#include "server/api/monitoring.h"
#include "server/api/request.h"
#include "server/http/http_server.h"
#include "server/routes/adapters.h"
#include "server/routes/fill_in.h"
#include "server/routes/held_files.h"
#include "server/routes/memos.h"
#include "server/routes/rerank_prompt.h"
#include "server/routes/turn_keeper.h"
#include "server/run/embeddings.h"
#include "server/run/scheduler.h"
#include "server/run/scheduler_stats.h"
#include "server/trace/explanations.h"
#include "server/trace/savings.h"
#include "share/share_types.h"

namespace kvkeep::cache {
class Cache;
}

namespace kvkeep::server {

// Memory for tokenized texts of prompts: enough for some 50 MB of conversations.
inline constexpr ByteCount kPieceMemoBytes = mebibytes(64);
inline constexpr ByteCount kKeyOrdersBytes = mebibytes(8);
inline constexpr ByteCount kMediaMemoBytes = mebibytes(4);

// Silence after which a stream sends a comment: proxies and clients take a longer silence for a dead connection.
inline constexpr std::int64_t kKeepAliveMs = 5'000;

// Where saved slots lie. All outlive the service.
struct SlotFiles {
  std::string directory;
  os::FileSystem* files;
  os::Executor* executor;  // reads and writes
};

// Pinned prefixes (inspect/model_notes.h). All outlives the service.
struct Pins {
  // Pins the prefix of this name, or ends that. Returns false if that is so already. May wait for the disk.
  std::function<Result<bool>(const PrefixHash& prefix, bool pin)> change;
  // The names of all pinned prefixes. Thread safe.
  std::function<std::vector<PrefixHash>()> all;
  os::Executor* executor;  // runs changes
};

// What a trace shows of a request besides its facts.
struct TracedParts {
  bool prompt = false;  // its body and reply
  bool media = false;   // in the body: pictures and sounds, instead of their hashes
};

// The objects that every handler needs. Immutable while the server runs, except for members that are thread safe
// themselves; shared by all threads.
struct Service {
  std::shared_ptr<const Vocabulary> vocabulary;
  std::unique_ptr<const chat::ChatTemplate> chat_template;
  std::unique_ptr<const chat::MarkerSet> markers;
  std::unique_ptr<const chat::LongText> long_text;
  std::unique_ptr<const chat::PieceSizes> piece_sizes;  // null: prompts do not keep where their texts came from
  chat::TurnOpenings turn_openings;
  chat::tools::ReplyFormat reply_format;
  std::unique_ptr<PieceMemo> piece_memo = std::make_unique<PieceMemo>(kPieceMemoBytes);
  engine::Projector* projector = nullptr;  // null: the model takes text only
  std::unique_ptr<MediaMemo> media_memo = std::make_unique<MediaMemo>(kMediaMemoBytes);
  std::unique_ptr<HeldFiles> held_files = std::make_unique<HeldFiles>(kHeldFilesBytes);
  std::unique_ptr<SoundRoom> sound_room = std::make_unique<SoundRoom>();
  std::unique_ptr<KeyOrders> key_orders = std::make_unique<KeyOrders>(kKeyOrdersBytes);
  chat::Stabilizers stabilizers;
  std::unique_ptr<TurnKeeper> turns;  // null: turns that come back are rendered as the client sends them
  FingerprintHash fingerprint;        // of the cache: the hashes of tenants and turns are keyed with it
  bool tenant_by_key = false;         // --cache-salt-by-key: each API key is a tenant of its own
  bool has_keys = false;              // requests carry one of the operator's API keys
  std::size_t keys = 0;               // that there are
  chat::HistoryChanges history_changes;
  std::unique_ptr<Adapters> adapters = std::make_unique<Adapters>(std::vector<engine::LoraAdapter>());
  bool prefill_ahead = false;                      // --prefill-ahead, unless --replay off
  FillOrder fill_order = FillOrder::kPrefixFirst;  // --spm-infill: the suffix comes first
  Scheduler* scheduler = nullptr;
  cache::Cache* cache = nullptr;
  std::unique_ptr<Explanations> explanations;         // null: requests are not explained
  std::unique_ptr<Savings> savings;                   // never null while the server runs
  bool explain_text = false;                          // --explain-text: without keys /cache/explain shows texts
  Embeddings* embeddings = nullptr;                   // null: nothing embeds here
  std::unique_ptr<const RerankPrompt> rerank_prompt;  // null: nothing ranks here
  std::int64_t embd_normalize = 2;                    // for requests that do not say
  bool only_embeds = false;                           // the model generates no text
  os::Clock* clock = nullptr;

  std::string model_name;            // the name that replies and /v1/models show
  std::vector<std::string> aliases;  // more names from the operator
  std::int64_t keep_alive_ms = kKeepAliveMs;
  bool strict_model_names = false;  // a request for any other name is refused, not served
  std::unique_ptr<SaidOnce> unknown_fields = std::make_unique<SaidOnce>(256);  // sent by clients
  std::unique_ptr<SaidOnce> other_models = std::make_unique<SaidOnce>(64);     // names that clients asked for
  std::unique_ptr<OpenThoughts> open_thoughts = std::make_unique<OpenThoughts>();
  std::string system_fingerprint;
  std::string model_path;
  std::size_t parallel = 0;  // requests decoded at the same time
  std::string memory_class;  // of the model, as the log names it
  std::size_t context_tokens = 0;
  api::RequestDefaults defaults;
  // With --trace requests carry their sender, with --trace-prompts also their body; lookups then show others' texts.
  bool traced = false;
  TracedParts traced_parts = {};
  api::ModelCard card;
  api::Endpoints endpoints;
  std::optional<SlotFiles> slot_files = {};  // empty: slots are not saved
  std::optional<Pins> pins = {};             // empty: there is no disk tier
  bool has_page = false;                     // "/" is a page, which is not of this room
};

// Adds all routes. `service` must outlive the server.
void add_routes(HttpServer& server, const Service& service);

// monitoring.cc: answers a health check: 503 once the server is stopping, so that balancers send requests elsewhere.
void show_health(const Service& service, const HttpRequest& http, ResponseWriter& writer);
// GET /metrics, GET /slots and POST /props, which add_routes() adds with the others.
void add_monitoring_routes(HttpServer& server, const Service& service);
// metrics.cc: llama-server's metrics, then kvkeep's own. `before`: the totals at the last scrape, since when throughput
// is an average. Pure.
std::vector<api::Metric> metrics_of(const SchedulerStats& stats, const SchedulerStats& before,
                                    const Savings::Sums& saved, const cache::CacheStats& cache,
                                    const UnreadCounts& unread, const std::optional<share::ShareCounters>& shared = {});
// monitoring.cc: the totals at the last scrape. Thread safe.
class LastScrape {
 public:
  struct Totals {
    SchedulerStats now;
    SchedulerStats before;  // at the scrape before this one
  };
  // Asks `read` while other scrapes wait: else the later one of two at once could leave first, and throughput would be
  // an average over a time that runs backwards.
  Totals take(const std::function<SchedulerStats()>& read) EXCLUDES(mutex_);

 private:
  Mutex mutex_;
  SchedulerStats totals_ GUARDED_BY(mutex_);
};
// slots.cc: POST /slots/ID, which add_routes() adds, too. Without service.slot_files it answers 501.
void add_slot_routes(HttpServer& server, const Service& service);
// explain_routes.cc: GET /cache/explain and /cache/explain/ID, which add_routes() adds, too.
void add_explain_routes(HttpServer& server, const Service& service);
// cache_routes.cc: /cache and the paths below it but /cache/lookup and /cache/explain, which add_routes() adds, too.
void add_cache_routes(HttpServer& server, const Service& service);
// The answer to requests for any of these paths with --no-cache-api.
Error no_cache_api();
// cache_warm.cc: POST /cache/warm.
void warm_cache(const Service& service, HttpRequest& http, ResponseWriter& writer);
// predict.cc: with endpoints.vertex, POST /predict and the path of health checks, which add_routes() adds after all
// others.
void add_predict_routes(HttpServer& server, const Service& service);
// embedding_routes.cc: /v1/embeddings, /v1/rerank and their other names, which add_routes() adds, too. If nothing
// embeds here they answer 501, and say which flag it takes.
void add_embedding_routes(HttpServer& server, const Service& service);

}  // namespace kvkeep::server
