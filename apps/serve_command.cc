#include <fmt/format.h>
#include <fmt/ranges.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "cache/capture.h"
#include "cache_setup.h"
#include "chat/chat_template.h"
#include "chat/history_changes.h"
#include "commands.h"
#include "directory_notes.h"
#include "engine/llama/library.h"
#include "engine/llama/remote_devices.h"
#include "engine/llama/thread_pools.h"
#include "http_setup.h"
#include "inspect/cache_directory.h"
#include "inspect/model_notes.h"
#include "inspect/print/print.h"
#include "model_loading.h"
#include "model_settings.h"
#include "named_files.h"
#include "os/executor.h"
#include "os/paths.h"
#include "os/process.h"
#include "os/service_manager.h"
#include "os/signals.h"
#include "os/threads.h"
#include "output.h"
#include "serve_log.h"
#include "server/routes/routes.h"
#include "server/run/break_finder.h"
#include "server/run/embeddings.h"
#include "server/trace/trace_file.h"
#include "server/web/page.h"
#include "store/layout.h"

namespace kvkeep::cli {

namespace {

// A model that loads within this time shows no progress.
constexpr double kQuietLoadMs = 1'000;

// A year: pings that are due so late never come, but clients that may have left are still looked for with them.
constexpr std::int64_t kNeverMs = 365LL * 86'400 * 1'000;

// Running handlers get this long to send their last bytes at shutdown.
constexpr std::int64_t kDrainMs = 5'000;

// bench/explain_cost.py compares the program with one that is built without explanations.
#ifdef KVKEEP_WITHOUT_EXPLANATIONS
constexpr bool kExplains = false;
#else
constexpr bool kExplains = true;
#endif

engine::llama::ModelOptions model_options(const ServeOptions& options, const NamedFiles& files) {
  engine::llama::ModelOptions model = options.model;
  model.kept_trials = kept_trials(options.tiers);
  model.salt = files.cache_salt;
  model.class_test_program = "/proc/self/exe";
  return model;
}

Result<LoadedModel> load_parts(const ServeOptions& options, const NamedFiles& files, const os::ServerSignals& signals) {
  spdlog::info("loading {}", options.model.path);
  const std::int64_t begin_ns = os::real_clock().monotonic_ns();
  int shown = 0;
  const auto watch = [&](float progress) {
    const int tenth = static_cast<int>(progress * 10);
    const bool slow = os::elapsed_ms(begin_ns, os::real_clock().monotonic_ns()) > kQuietLoadMs;
    if (slow && tenth > shown && tenth < 10) spdlog::info("loading the model: {} %", tenth * 10);
    shown = std::max(shown, tenth);
    return !signals.pending();
  };
  TRY_ASSIGN(LoadedModel loaded, load_model(model_options(options, files), options.embeddings, options.media,
                                            root_of_facts(options.tiers), watch));
  if (options.shift_context && !loaded.only_embeds && !loaded.engine->memory().can_shift()) {
    return unsupported("--context-shift: the state of this model cannot move to other positions; leave the flag out");
  }
  return loaded;
}

void log_loaded(const LoadedModel& loaded, const ServeOptions& options) {
  if (!loaded.only_embeds) log_model(loaded.engine->description(), options.model);
  log_embedder(loaded, options.embeddings);
}

std::string base_name(const std::string& path) { return path.substr(path.find_last_of('/') + 1); }

Result<std::unique_ptr<const chat::ChatTemplate>> make_template(const NamedFiles& files,
                                                                const engine::Description& model,
                                                                const Vocabulary& vocabulary, bool only_embeds) {
  const std::string& source = files.chat_template.empty() ? model.chat_template : files.chat_template;
  if (source.empty() && !only_embeds) spdlog::warn("the model has no chat template: using ChatML");
  const auto spelling = [&](std::optional<TokenId> id) { return id ? vocabulary.piece(*id, true) : std::string(); };
  TRY_ASSIGN(std::unique_ptr<chat::ChatTemplate> made,
             chat::make_chat_template(source, {spelling(vocabulary.bos()), spelling(vocabulary.eos())}));
  return std::unique_ptr<const chat::ChatTemplate>(std::move(made));
}

// Template variables that stand for flags, by the names that templates use.
nlohmann::ordered_json template_kwargs(const ServeOptions& options, std::string_view source) {
  const ChatOptions& chat = options.chat;
  nlohmann::ordered_json kwargs = nlohmann::ordered_json::object();
  if (chat.thinks) kwargs["enable_thinking"] = kwargs["thinking"] = *chat.thinks;
  if (!chat.reasoning_effort.empty()) kwargs["reasoning_effort"] = chat.reasoning_effort;
  if (source.find("preserve_thinking") != std::string_view::npos) kwargs["preserve_thinking"] = chat.preserve_reasoning;
  if (source.find("clear_thinking") != std::string_view::npos) kwargs["clear_thinking"] = !chat.preserve_reasoning;
  if (options.defaults.template_kwargs.is_object()) kwargs.update(options.defaults.template_kwargs);
  return kwargs;
}

chat::tools::ReplyFormat reply_format(const ChatOptions& chat, const server::Service& service) {
  const std::string_view source = service.chat_template->source();
  if (chat.skip_parsing) return chat::tools::bind_format(chat::tools::FormatKind::kNone, {}, *service.markers);
  const chat::tools::FormatKind kind = chat.tool_format.value_or(chat::tools::detect_format(source));
  const chat::tools::ThinkingTags thinking = chat::tools::detect_thinking(source);
  const bool is_harmony = kind == chat::tools::FormatKind::kHarmony;
  spdlog::debug("chat: tool calls as {}, thinking {}", to_string(kind),
                is_harmony              ? "in channels"
                : thinking.open.empty() ? "none"
                                        : thinking.open);
  return chat::tools::bind_format(kind, thinking, *service.markers);
}

// A model is sampled as its file says, unless flags or requests say otherwise.
void obey_model_sampling(const engine::Description& model, const engine::ChosenSettings& chosen,
                         engine::SamplingParams& sampling) {
  const engine::ModelSamplingNotes notes = engine::obey_model(model.sampling, chosen, sampling);
  if (!notes.obeyed.empty()) {
    spdlog::info("sampling as the model's file says, where a request does not: {}", fmt::join(notes.obeyed, ", "));
  }
  for (const std::string& line : notes.refused) spdlog::warn("ignoring a value of the model's file: {}", line);
}

// Tries what flags set for all replies, so that a fault ends the start instead of every request.
Status try_defaults(const server::Service& service, engine::Engine& engine) {
  engine::SamplingParams sampling = service.defaults.sampling;
  for (const auto& [token, bias] : sampling.logit_bias) {
    if (static_cast<std::size_t>(token) < service.defaults.vocabulary_size) continue;
    return invalid(fmt::format("--logit-bias: the model has no token {}; its last one is {}", token,
                               service.defaults.vocabulary_size - 1));
  }
  if (service.only_embeds || std::holds_alternative<server::api::AnyText>(service.defaults.output)) return {};
  TRY_ASSIGN(sampling.grammar,
             server::api::output_grammar(service.defaults.output, *service.markers, *service.vocabulary));
  if (const auto made = engine.make_sampler(sampling); !made) {
    return invalid("--grammar or --json-schema: " + made.error().message);
  }
  return {};
}

Result<server::Service> make_service(const ServeOptions& options, const NamedFiles& files, const LoadedModel& loaded) {
  const engine::Description& model = loaded.engine->description();
  server::Service service;
  service.vocabulary = loaded.vocabulary;
  service.only_embeds = loaded.only_embeds;
  TRY_ASSIGN(service.chat_template, make_template(files, model, *service.vocabulary, loaded.only_embeds));
  service.markers = std::make_unique<chat::MarkerSet>(*service.vocabulary, service.chat_template->source());
  service.long_text = std::make_unique<chat::LongText>(*service.vocabulary);
  service.turn_openings = chat::learn_turn_openings(*service.chat_template, *service.markers, *service.vocabulary);
  service.reply_format = reply_format(options.chat, service);
  service.clock = &os::real_clock();
  service.aliases = options.chat.model_names;
  service.strict_model_names = options.chat.strict_model_names;
  service.fill_order =
      options.chat.fill_suffix_first ? server::FillOrder::kSuffixFirst : server::FillOrder::kPrefixFirst;
  std::ranges::sort(service.aliases);  // as llama-server: the first in the alphabet is the name that replies show
  service.model_name = service.aliases.empty() ? base_name(model.model_path) : service.aliases.front();
  service.system_fingerprint = fmt::format("b{}-kvkeep", KVKEEP_VERSION);
  service.model_path = model.model_path;
  service.parallel = options.model.parallel;
  service.context_tokens = model.context_tokens;
  service.defaults = options.defaults;
  obey_model_sampling(model, options.chosen_sampling, service.defaults.sampling);
  service.defaults.vocabulary_size = model.vocabulary_size;
  service.defaults.adapters = model.adapters.size();
  service.defaults.output = files.output;
  service.defaults.media = media_rules(loaded, options, files.media_directory);
  service.projector = loaded.projector.get();
  service.held_files =
      std::make_unique<server::HeldFiles>(std::max(server::kHeldFilesBytes, ByteCount{options.http.body_bytes_max}));
  TRY(try_defaults(service, *loaded.engine));
  service.adapters = std::make_unique<server::Adapters>(model.adapters);
  service.stabilizers = options.stabilizers;
  service.defaults.template_kwargs = template_kwargs(options, service.chat_template->source());
  service.traced = !options.log.trace_file.empty();
  service.traced_parts = {.prompt = options.log.trace_prompts, .media = options.log.trace_media};
  service.endpoints = options.endpoints;
  service.fingerprint = model.fingerprint;
  service.tenant_by_key = options.salt_by_key;
  service.keys = files.api_keys.size() + options.http.api_keys.size();
  service.has_keys = service.keys > 0;
  service.explain_text = options.log.explain_text;
  service.piece_sizes = std::make_unique<chat::PieceSizes>(*service.vocabulary);
  service.keep_alive_ms = options.sse_ping_s ? *options.sse_ping_s * 1'000 : kNeverMs;
  service.memory_class = to_string(model.memory_class);
  service.card = {service.model_name,
                  service.clock->wall_ns() / 1'000'000'000,
                  model.vocabulary_size,
                  model.context_tokens,
                  model.context_train_tokens,
                  model.embedding_size,
                  model.parameters,
                  model.model_bytes,
                  model.vocabulary_type,
                  model.file_type,
                  service.aliases,
                  options.chat.model_tags,
                  service.defaults.media && service.defaults.media->pictures,
                  service.defaults.media && service.defaults.media->sound};
  return service;
}

// Lets the service's requests reach the embedder, if there is one.
std::unique_ptr<server::Embeddings> make_embeddings(const LoadedModel& loaded, const EmbeddingOptions& options,
                                                    server::Service& service) {
  if (loaded.embedder == nullptr) return nullptr;
  auto made = std::make_unique<server::Embeddings>(*loaded.embedder, os::real_clock());
  service.embeddings = made.get();
  service.embd_normalize = options.normalize.value_or(service.embd_normalize);
  const engine::EmbedderDescription& facts = made->description();
  if (facts.pooling == engine::Pooling::kRank) {
    service.rerank_prompt =
        std::make_unique<server::RerankPrompt>(facts.rerank, *service.vocabulary, *service.long_text);
  }
  return made;
}

// Returns null if turns are not remembered. With a disk tier they are kept next to it: small against any budget.
std::unique_ptr<server::TurnKeeper> turn_keeper(const ServeOptions& options, const engine::Description& model,
                                                const DiskTier& disk, share::SharedStore* shared,
                                                os::Executor& writer) {
  if (options.chat.replay != Replay::kExact) return nullptr;
  server::TurnKeeperOptions turns{
      .memory = mebibytes(8), .vocabulary_size = model.vocabulary_size, .shared = shared, .clock = &os::real_clock()};
  if (disk.store != nullptr) {
    turns.memory = memory_for_turns(disk.budget);
    turns.path = disk.store->turns_path();
    turns.may_write = [store = disk.store.get()] { return store->keeps_notes(); };
  }
  return std::make_unique<server::TurnKeeper>(std::move(turns), os::real_file_system(), writer);
}

index::TokenTexts likely_texts(const server::Service& service) {
  return {*service.vocabulary, [&](TokenId id) { return service.markers->contains(id); }};
}

// An audit begins after half a minute without a request, or after the interval between audits if that is shorter.
server::AuditOptions audit_options(const ServeOptions& options) {
  constexpr double kIdleMs = 30'000;
  server::AuditOptions audit;
  audit.every_ms = options.audit_minutes * 60'000;
  audit.idle_ms = std::min(kIdleMs, audit.every_ms);
  audit.directory = options.tiers.disk_directory;
  audit.seed = static_cast<std::uint64_t>(os::real_clock().wall_ns());
  return audit;
}

// Shows texts of prompts in the log only with --trace-prompts, which writes down whole prompts anyway. Quoted, so that
// no prompt can add a line to the log or send commands to a terminal.
server::ShowTokens shown_tokens(const LogOptions& log, std::shared_ptr<const Vocabulary> vocabulary) {
  if (!log.trace_prompts) return {};
  return [vocabulary = std::move(vocabulary)](TokenSpan ids) {
    const nlohmann::json text = server::named_text([&](TokenSpan run) { return vocabulary->text_of(run, true); }, ids);
    return inspect::harmless(text.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
  };
}

// The last requests, the offenders and the spared prefill: both sums are kept in the directory of this fingerprint if
// there is a `disk`, which must outlive the service.
void remember_requests(server::Service& service, const store::DiskStore* disk, const std::string& own_directory,
                       os::Executor& writer) {
  server::ExplanationsOptions explanations;
  server::SavingsOptions savings{.now_ns = os::real_clock().wall_ns()};
  if (disk != nullptr) {
    explanations.path = own_directory + "/" + std::string(store::kOffendersName);
    savings.path = own_directory + "/" + std::string(store::kWorkName);
    explanations.may_write = savings.may_write = [disk] { return disk->keeps_notes(); };
  }
  service.explanations =
      std::make_unique<server::Explanations>(std::move(explanations), os::real_file_system(), writer);
  service.savings = std::make_unique<server::Savings>(std::move(savings), os::real_file_system());
}

// Writes down once a minute, and at its end, how much prefill the server spared.
class SavingsKeeper {
 public:
  SavingsKeeper(server::Savings& savings, const server::Scheduler& scheduler)
      : savings_(savings),
        scheduler_(scheduler),
        ticker_(os::make_ticker(std::chrono::minutes(1), [this] { keep(); })) {}
  ~SavingsKeeper() { keep(); }
  SavingsKeeper(const SavingsKeeper&) = delete;
  SavingsKeeper& operator=(const SavingsKeeper&) = delete;

 private:
  void keep() { savings_.keep(server::work_of(scheduler_.stats())); }

  server::Savings& savings_;
  const server::Scheduler& scheduler_;
  const std::unique_ptr<os::Ticker> ticker_;
};

// `own_directory`: of this fingerprint, "" without a disk; those next to it are read for prompts of other settings.
server::ExplainOptions explain_options(const server::Service& service, const std::string& own_directory) {
  server::ExplainOptions explain;
  explain.text = [vocabulary = service.vocabulary](TokenSpan tokens) { return vocabulary->text_of(tokens, true); };
  explain.thoughts = {service.reply_format.thinking_open.spelling(), service.reply_format.thinking_close.spelling()};
  if (!own_directory.empty()) {
    explain.other_settings =
        inspect::beginnings_of_others(os::real_file_system(), store::directory_of(own_directory), service.fingerprint);
  }
  explain.shows_all = service.explain_text && !service.has_keys;
  explain.sink = service.explanations.get();
  return explain;
}

server::SchedulerOptions scheduler_options(const ServeOptions& options, const server::Service& service,
                                           const index::TokenTexts& texts, const server::ShowTokens& show,
                                           server::TraceSink* trace, const server::ExplainOptions& explain) {
  server::SchedulerOptions scheduler{.queue_limit = options.queue_limit};
  scheduler.projector = service.projector;
  scheduler.explain = kExplains ? &explain : nullptr;
  scheduler.embeddings = service.embeddings;
  scheduler.parallel = options.model.parallel;
  scheduler.key_limit = options.key_limit.value_or(scheduler.key_limit);
  scheduler.queue_tokens = options.queue_tokens;
  scheduler.shift_context = options.shift_context;
  scheduler.slice_ms = options.slice_ms.value_or(scheduler.slice_ms);
  scheduler.decode_with_prefill = options.decode_with_prefill;
  if (options.model.repeatable) scheduler.pinned_slice_tokens = options.model.ubatch();
  scheduler.capture_prefilled_tokens = options.model.ubatch();
  scheduler.idle_to_live_ns = options.cache.time_to_live_ns;
  scheduler.restore = options.restore;
  scheduler.cuts = options.cuts;
  scheduler.cuts.min_tokens = options.cache.min_disk_tokens;
  scheduler.cuts.loops_change = service.history_changes.loop_may_change();
  scheduler.texts = options.match_text ? &texts : nullptr;
  scheduler.likely_texts = &texts;
  scheduler.fine_points = true;
  scheduler.trace = trace;
  scheduler.show_tokens = show ? &show : nullptr;
  scheduler.audit = audit_options(options);
  return scheduler;
}

std::optional<server::SlotFiles> slot_files(const ServeOptions& options, os::Executor& writer) {
  if (options.slot_save_path.empty()) return std::nullopt;
  return server::SlotFiles{options.slot_save_path, &os::real_file_system(), &writer};
}

server::Pins pins_by(DirectoryNotes& notes) {
  return {[&notes](const PrefixHash& prefix, bool pin) { return notes.change_pin(prefix, pin); },
          [&notes] { return notes.pins(); }, &notes.executor()};
}

Status check_slot_directory(const std::string& path) {
  if (path.empty()) return {};
  const Result<std::string> place = os::resolve_links(path);
  const auto listed = place ? os::real_file_system().list(*place) : Result<std::vector<os::FileInfo>>(place.error());
  if (listed) return {};
  return Error{listed.error().kind, "--slot-save-path: " + listed.error().message};
}

// Learns, and logs at debug, how the chat template changes earlier turns.
chat::HistoryChanges learn_history(const ServeOptions& options, const server::Service& service) {
  const chat::HistoryChanges changes = chat::learn_history_changes(
      *service.chat_template, *service.markers, service.defaults.template_kwargs, service.stabilizers.tools_first);
  spdlog::debug("{}", chat::describe(changes));
  spdlog::debug("{}", chat::describe(options.stabilizers));
  return changes;
}

void remember_turns(server::Service& service, const ServeOptions& options, std::unique_ptr<server::TurnKeeper> turns,
                    bool cacheable) {
  service.turns = std::move(turns);
  service.prefill_ahead = options.chat.prefill_ahead && options.chat.replay != Replay::kOff && cacheable;
  service.history_changes = learn_history(options, service);
}

// Opens the file of --trace before the model is loaded, which may take minutes. Returns nullopt without --trace.
Result<std::optional<os::AppendFile>> open_trace(const LogOptions& log) {
  if (log.trace_file.empty()) return std::optional<os::AppendFile>();
  auto file = os::AppendFile::open(log.trace_file);
  if (!file) return Error{file.error().kind, "--trace: " + file.error().message};
  return std::optional<os::AppendFile>(std::move(*file));
}

// Writes the trace on a thread of its own, if there is a file for it.
class Tracing {
 public:
  Tracing(std::optional<os::AppendFile> file, std::shared_ptr<const Vocabulary> vocabulary, bool private_text) {
    if (!file) return;
    thread_ = os::make_thread_executor("trace");
    file_.emplace(std::move(*file), std::move(vocabulary), *thread_, private_text);
  }
  server::TraceSink* sink() { return file_ ? &*file_ : nullptr; }
  void reopen() {
    if (file_) file_->reopen();
  }

 private:
  std::unique_ptr<os::Executor> thread_;
  std::optional<server::TraceFile> file_;
};

// Returns when a signal asks the server to stop. SIGHUP opens the log and the trace anew: both files make themselves
// anew when they were renamed, here at once instead of with their next line.
void wait_until_stopped(os::ServerSignals& signals, Tracing& tracing, const std::string& status) {
  os::notify_manager(os::ServiceState::kReady, status);
  while (signals.wait() == os::Wish::kReopenLogs) {
    os::notify_manager(os::ServiceState::kReloading, "opening log files anew");
    spdlog::info("SIGHUP: opening log files anew");
    spdlog::default_logger()->flush();
    tracing.reopen();
    os::notify_manager(os::ServiceState::kReady, status);
  }
  os::notify_manager(os::ServiceState::kStopping, "ending requests and writing what is to be kept");
}

void connect(server::Service& service, server::Scheduler& scheduler, cache::Cache& cache, DirectoryNotes* notes) {
  service.scheduler = &scheduler;
  service.cache = &cache;
  if (notes != nullptr) service.pins = {pins_by(*notes)};
  if (service.embeddings != nullptr) service.embeddings->wake_by([&scheduler] { scheduler.wake(); });
}

// A page of --path stands at "/" instead of the program's own.
void add_all_routes(server::HttpServer& http, server::Service& service, bool serves_page,
                    const std::vector<WebFile>& files) {
  const bool has_other = std::ranges::any_of(files, [](const WebFile& file) { return file.path == "/"; });
  service.has_page = serves_page;
  server::add_routes(http, service);
  if (serves_page && !has_other) server::add_page_routes(http);
  serve_web_files(http, files);
}

// Refuses new requests, and waits until the accepted ones have ended, for at most `most_s`.
void let_requests_end(server::Scheduler& scheduler, server::Embeddings* embeddings, double most_s) {
  constexpr std::chrono::milliseconds kStep{50};
  scheduler.close();
  if (embeddings != nullptr) embeddings->close();
  const auto busy = [&] { return !scheduler.idle() || (embeddings != nullptr && embeddings->any()); };
  if (most_s <= 0 || !busy()) return;
  spdlog::info("shutting down: accepted requests may go on for {:g} s (a second signal quits at once)", most_s);
  const std::int64_t begin_ns = os::real_clock().monotonic_ns();
  while (busy() && os::elapsed_ms(begin_ns, os::real_clock().monotonic_ns()) < most_s * 1e3) os::pause(kStep);
}

// Runs engine and HTTP threads until a signal; then ends requests, captures them and writes unwritten segments to disk.
void serve_until_signal(os::Executor& engine_thread, server::HttpServer& http, server::Scheduler& scheduler,
                        cache::Cache& cache, share::SharedStore* shared, const std::function<void()>& wait_for_signal) {
  const std::unique_ptr<os::Executor> http_thread = os::make_thread_executor("http");
  engine_thread.post([&] { scheduler.run(); });
  http_thread->post([&] { http.serve(); });
  wait_for_signal();
  spdlog::info("shutting down: ending requests and writing what is to be kept (a second signal quits at once)");
  scheduler.stop();
  engine_thread.drain();
  cache.flush();  // before handlers get their time, which a service manager may not wait for
  if (shared != nullptr) await_publishing(*shared);
  if (!http.stop(kDrainMs)) {
    // Threads that compute cannot be ended, and everything below would wait for them. The cache is on disk.
    spdlog::warn("some requests did not stop in time: leaving without their replies");
    spdlog::default_logger()->flush();
    std::_Exit(0);
  }
  http_thread->drain();
  spdlog::info("bye");
}

// The note tells a later reader of the directory which model it is of.
inspect::ModelNote note_of(const ServeOptions& options, const NamedFiles& files, const engine::Description& model) {
  inspect::ModelNote note{.name = model.model_name,
                          .description = model.summary,
                          .path = model.model_path,
                          .settings = settings_text(model_options(options, files), model.fingerprint_text),
                          .computed_by = computed_by_text(model.fingerprint_text),
                          .devices = {model.compute_kinds}};
  if (auto resolved = os::resolve_links(note.path)) note.path = std::move(*resolved);
  note.first_used_s = os::real_clock().wall_ns() / 1'000'000'000;
  return note;
}

Status print_devices(const engine::llama::ModelOptions& model) {
  TRY(engine::llama::add_rpc_servers(model.rpc_servers));
  print(engine::llama::list_devices());
  return {};
}

// OpenMP's library reads from the environment how threads wait, before main() begins.
Status begin_anew_for_waiting(const engine::llama::ModelOptions& model) {
  const os::Environment environment = os::read_environment();
  const auto set = environment.find(engine::llama::kSpinVariable);
  TRY_ASSIGN(const auto waiting, engine::llama::check_waiting(model, set == environment.end() ? "" : set->second));
  if (waiting == engine::llama::Waiting::kAsAsked) return {};
  return os::restart_with(engine::llama::kSpinVariable, engine::llama::spin_count(model));
}

// Checks the directories that flags name, and opens the engine of the shared tier.
Result<std::unique_ptr<share::ObjectEngine>> open_places(const ServeOptions& options) {
  TRY(check_disk_directory(options.tiers, os::real_file_system()));
  TRY(check_slot_directory(options.slot_save_path));
  return open_share_engine(options.shared);
}

}  // namespace

Status run_serve(const ServeOptions& options) {
  TRY(set_up_log(options.log));
  TRY(begin_anew_for_waiting(options.model));
  if (options.list_devices) return print_devices(options.model);
  for (const std::string& warning : options.ignored_variables) spdlog::warn("{}", warning);
  os::ServerSignals signals;
  // Check everything that may be wrong before the model is loaded, which may take minutes.
  TRY_ASSIGN(const NamedFiles files, read_named_files(options));
  TRY_ASSIGN(auto shared_engine, open_places(options));
  TRY_ASSIGN(const std::vector<WebFile> web_files,
             read_web_files(options.serves_page ? options.web_directory : "", os::real_file_system()));
  TRY_ASSIGN(std::optional<os::AppendFile> trace_file, open_trace(options.log));
  TRY_ASSIGN(const std::unique_ptr<server::HttpServer> http, listen(options, files));
  // Everything that computes runs on this one thread, the warm-up after loading included. OpenMP gives each thread that
  // computes a pool of workers; two pools have more workers than there are processors, so that workers sleep at every
  // barrier instead of spinning, some hundred times per token.
  const std::unique_ptr<os::Executor> engine_thread = os::make_thread_executor("engine");
  const Result<SeenFiles> seen = see_files(options.model.path);  // loading tells what is wrong with it
  TRY_ASSIGN(const LoadedModel loaded,
             os::call_on(*engine_thread, [&] { return load_parts(options, files, signals); }));
  const auto& engine = loaded.engine;
  const engine::Description& model = engine->description();
  log_loaded(loaded, options);

  const bool cacheable = engine->memory().shape().cacheable;
  const bool is_guarded = cacheable && seen && !options.model.full_model_hash;
  const auto guard = is_guarded ? std::make_unique<WeightsGuard>(*seen, [&] { return signals.pending(); }) : nullptr;
  TRY_ASSIGN(DiskTier disk, open_disk_of(*engine, options, guard.get()));
  const std::string own_directory = disk.store == nullptr ? "" : store::directory_of(disk.store->turns_path());
  TRY_ASSIGN(OpenedShare shared, open_share(std::move(shared_engine), options.shared, files.share_key, model,
                                            cacheable && !disk.distrusted, guard.get()));
  const std::unique_ptr<os::Executor> writer = os::make_thread_executor("kv-writer");
  std::unique_ptr<server::TurnKeeper> turns = turn_keeper(options, model, disk, shared.store, *writer);
  const store::DiskStore* const store = disk.store.get();
  const std::unique_ptr<os::Executor> reader = os::make_thread_executor("kv-reader");
  const ByteCount ram = disk.distrusted ? ByteCount{} : ram_budget(options.tiers);
  cache::Cache cache(cache_options(options.cache, *engine, ram, disk.distrusted), std::move(disk.store),
                     os::real_clock(), *writer, *reader, {}, std::move(shared.setup));
  std::optional<DirectoryNotes> notes;
  if (!own_directory.empty()) {
    notes.emplace(own_directory, model.fingerprint, note_of(options, files, model), cache, os::real_file_system(),
                  os::real_clock());
  }
  cache.settle();  // pinned prefixes are kept by now
  const auto reading = guard ? guard->read_in_background([&cache] { cache.tick(); }) : nullptr;
  const std::unique_ptr<os::Ticker> ticker = os::make_ticker(std::chrono::seconds(1), [&cache] { cache.tick(); });
  cache::prepare_staging(cache, engine->memory());
  TRY_ASSIGN(server::Service service, make_service(options, files, loaded));
  const index::TokenTexts texts = likely_texts(service);
  remember_turns(service, options, std::move(turns), cacheable);
  Tracing tracing(std::move(trace_file), service.vocabulary, options.log.trace_prompts);
  const server::ShowTokens show = shown_tokens(options.log, service.vocabulary);
  const auto embeddings = make_embeddings(loaded, options.embeddings, service);
  remember_requests(service, store, own_directory, *writer);
  const server::ExplainOptions explain = explain_options(service, own_directory);
  server::Scheduler scheduler(scheduler_options(options, service, texts, show, tracing.sink(), explain), *engine, cache,
                              os::real_clock());
  connect(service, scheduler, cache, notes ? &*notes : nullptr);
  service.slot_files = slot_files(options, *writer);
  const SavingsKeeper savings_keeper(*service.savings, scheduler);
  add_all_routes(*http, service, options.serves_page, web_files);
  log_ready({options, service.model_name, http->places(), cache.stats(), disk, engine->memory().shape()});
  serve_until_signal(*engine_thread, *http, scheduler, cache, shared.store, [&] {
    wait_until_stopped(signals, tracing, "serving " + service.model_name);
    let_requests_end(scheduler, embeddings.get(), options.shutdown_timeout_s);
  });
  return {};
}

}  // namespace kvkeep::cli
