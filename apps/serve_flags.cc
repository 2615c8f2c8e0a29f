#include "serve_flags.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "flag_values.h"
#include "http_setup.h"

namespace kvkeep::cli {
namespace {

using policy::DecodeWithPrefill;
using policy::RestoreMode;

constexpr std::int64_t kHourNs = 3600LL * 1'000'000'000;
constexpr std::int64_t kHoursMax = 1'000'000;

// A budget in MiB; nullopt lets the program choose one.
Assign budget_into(std::optional<ByteCount>& target, const char* at_nothing = nullptr) {
  return [=, &target](const std::string& text) -> Status {
    if (text == "-1") return invalid("there is always a limit: give a number of MiB");
    TRY(mebibytes_into(target, 0).set(text));
    return at_nothing == nullptr || *target > ByteCount{0} ? Status{} : invalid(at_nothing);
  };
}

std::vector<Flag> cache_flags(ServeOptions& options) {
  TierOptions& tiers = options.tiers;
  return {
      {.group = "Prefix cache",
       .spelling = "-cram, --cache-ram MIB",
       .environment = "LLAMA_ARG_CACHE_RAM",
       .default_text = "a quarter of available memory, at most 8192",
       .effect =
           "Memory for cached state, including state that waits to be written; 0 turns this tier off. With any value, "
           "64 MiB and two of the model's largest points may wait for the disk.",
       .assign = budget_into(tiers.ram_budget)},
      {.spelling = "--kv-disk-dir DIR",
       .environment = kDiskDirectoryVariable,
       .default_text = "kvkeep under the user's cache home",
       .effect = "Directory of the disk cache. If it is unusable, a named one is an error, the default one a warning.",
       .assign = text_into(tiers.disk_directory)},
      {.spelling = "--no-kv-disk",
       .effect = "Keep nothing on disk: a restart forgets everything.",
       .assign = switch_into(tiers.use_disk, false)},
      {.spelling = "--kv-disk-space-mb MIB",
       .default_text = "a tenth of the free space, 1024 to 65536",
       .effect = "Disk space the cache may take.",
       .assign = budget_into(tiers.disk_budget, "to keep nothing on disk, use --no-kv-disk")},
      {.spelling = "--kv-disk-reserve-mb MIB",
       .default_text = "1024, or 1 % of the file system if that is less",
       .effect = "Stop writing when the file system has less free space than this; 0: use all of it.",
       .assign = mebibytes_into(tiers.disk_reserve, 0)},
      {.spelling = "--kv-disk-write-mb-per-day MIB",
       .effect =
           "Most that is written to disk in a day: state that saves most prefill per byte is written first, the rest "
           "waits in memory; 0: no limit.",
       .assign = {[&tiers](const std::string& text) -> Status {
                    TRY_ASSIGN(tiers.disk_written_per_day, parse_mebibytes(text, 0));
                    return {};
                  },
                  "0"}},
      {.spelling = "--kv-cache-ttl-hours N",
       .effect =
           "Forget state that no request used for N hours, in memory and on disk; 0: evict only for lack of room.",
       .assign = {[&options](const std::string& text) -> Status {
                    TRY_ASSIGN(const std::int64_t hours, parse_number(text, std::int64_t{0}, kHoursMax));
                    options.cache.time_to_live_ns = hours * kHourNs;
                    return {};
                  },
                  "0"}},
      {.spelling = "--kv-cache-min-tokens N",
       .effect = "Conversations shorter than this are not stored on disk and get no points.",
       .assign = number_into(options.cache.min_disk_tokens, 0, kTokensMax)},
      {.spelling = "--kv-cache-audit-minutes N",
       .effect =
           "While idle, compute a stored piece anew this often; if it is wrong, stop using all stored state; 0: never.",
       .assign = number_into(options.audit_minutes, 0.0, 1e6)},
      {.spelling = "--match token|text",
       .effect = "text: ids sampled here match the ids of the same text in a prompt; token: only equal ids match.",
       .assign = choice_into(options.match_text, {{"token", false}, {"text", true}})},
      {.spelling = "--restore auto|always",
       .effect = "auto prefills instead of restoring if loading would take longer; always restores.",
       .assign = choice_into(options.restore, {{"auto", RestoreMode::kAuto}, {"always", RestoreMode::kAlways}})},
      {.spelling = "--prefill-slice-ms N",
       .default_text = "150",
       .effect = "About how long a slice of prefill may take while others decode, prefill or wait; 0: as long as the "
                 "batch allows.",
       .assign = number_into(options.slice_ms, 0.0, 600'000.0, 0.0)},
      {.spelling = "--decode-with-prefill auto|together|apart",
       .effect = "Whether running replies share calls of the model with slices of prefill. auto: measure both ways now "
                 "and then, and use the faster one.",
       .assign = choice_into(options.decode_with_prefill, {{"auto", DecodeWithPrefill::kAuto},
                                                           {"together", DecodeWithPrefill::kTogether},
                                                           {"apart", DecodeWithPrefill::kApart}})},
      {.spelling = "--cache-prompt, --no-cache-prompt",
       .environment = "LLAMA_ARG_CACHE_PROMPT",
       .effect = "Use the cache for requests that do not say; off: such requests neither read nor write it.",
       .assign = switch_into(options.defaults.cache_prompt)},
      {.spelling = "--cache-salt-file FILE",
       .effect = "Share cached state only with servers that have the same text in this file; cache_salt in requests "
                 "separates further.",
       .assign = text_into(options.salt_file)},
      {.spelling = "--cache-salt-by-key",
       .effect = "Share cached state only between requests with the same API key.",
       .assign = switch_into(options.salt_by_key)},
  };
}

// docs/cuts.md explains these flags.
std::vector<Flag> point_flags(ServeOptions& options) {
  policy::CutOptions& cuts = options.cuts;
  return {
      {.group = "Points (hybrid, recurrent, opaque and sliding-window models)",
       .spelling = "--kv-cache-anchor-user, --no-kv-cache-anchor-user",
       .effect = "Capture a point where user turns begin; off: use the length rule below.",
       .assign = switch_into(cuts.anchor_user)},
      {.spelling = "--kv-cache-cold-max-tokens N",
       .default_text = "the context",
       .effect = "Capture the stable beginning only of prompts up to this length; 0: of none.",
       .assign = number_into(cuts.cold_max_tokens, 0, kTokensMax)},
      {.spelling = "--kv-cache-continued-interval-tokens N",
       .effect = "Capture a point each time a prompt or reply grows past a multiple of this; 0: never.",
       .assign = number_into(cuts.continued_interval_tokens, 0, kTokensMax)},
      {.spelling = "--kv-cache-boundary-trim-tokens N",
       .effect = "Length rule for prompts without an anchor: leave off this many tokens at the end,",
       .assign = number_into(cuts.boundary_trim_tokens, 0, kTokensMax)},
      {.spelling = "--kv-cache-boundary-align-tokens N",
       .effect = "then round down to a multiple of this.",
       .assign = number_into(cuts.boundary_align_tokens, 0, kTokensMax)},
      {.spelling = "--kv-disk-points-share PERCENT",
       .effect =
           "Most of the disk space that points, whole states and windows may take; above it they leave before rows.",
       .assign = number_into(options.cache.disk_points_share, 0, 100)},
      {.spelling = "-ctxcp, --swa-checkpoints, --ctx-checkpoints N",
       .environment = "LLAMA_ARG_CTX_CHECKPOINTS",
       .default_text = "as many as the budgets hold",
       .effect = "Most points or windows captured for one prompt; 0: none.",
       .assign = number_into(cuts.most_points, 0, kTokensMax)},
      {.spelling = "-cms, --checkpoint-min-step N",
       .environment = "LLAMA_ARG_CHECKPOINT_MIN_SPACING_NT",
       .effect = "Least distance between two points; anchors and turns are exempt.",
       .assign = number_into(cuts.least_step_tokens, 0, kTokensMax)},
  };
}

constexpr std::size_t kHostsMax = 16;

// A URL, or an address with a port, would be looked up as a name.
Status check_hosts(const std::string& text) {
  TRY_ASSIGN(const std::vector<std::string> hosts, parse_list(text));
  for (const std::string& host : hosts) {
    if (host.ends_with(".sock")) continue;
    std::string_view rest = host;
    if (const auto scheme = rest.find("://"); scheme != std::string_view::npos) rest.remove_prefix(scheme + 3);
    rest = rest.substr(0, rest.find('/'));
    const auto colon = rest.rfind(':');
    const bool is_bare_ipv6 = !rest.starts_with('[') && colon != rest.find(':');
    const bool has_port = colon != std::string_view::npos && !is_bare_ipv6 && !rest.ends_with(']');
    if (rest.size() == host.size() && !has_port) continue;
    const std::string_view address = has_port ? rest.substr(0, colon) : rest;
    const std::string_view port = has_port ? rest.substr(colon + 1) : std::string_view();
    return invalid(fmt::format("'{}' is no address by itself; write --host {}{}{}", host, address,
                               port.empty() ? "" : " --port ", port));
  }
  return {};
}

std::vector<Flag> http_flags(ServeOptions& options) {
  server::HttpOptions& http = options.http;
  return {
      {.group = "Server",
       .spelling = "--host ADDRESS,...",
       .environment = "LLAMA_ARG_HOST",
       .default_text = "127.0.0.1",
       .effect =
           "Addresses to listen on; 0.0.0.0 for every interface, :: for the same with IPv6: set an API key then. A "
           "name that ends with .sock is the path of a Unix socket.",
       .assign = [&http](const std::string& text) -> Status {
         TRY(check_hosts(text));
         TRY(appended_to(http.hosts, parse_list).set(text));
         for (std::string& host : http.hosts) {  // [::1], as in a URL
           if (host.size() > 2 && host.starts_with('[') && host.ends_with(']')) host = host.substr(1, host.size() - 2);
         }
         if (http.hosts.size() > kHostsMax) return invalid(fmt::format("more than {} addresses", kHostsMax));
         return {};
       }},
      {.spelling = "--port N",
       .environment = "LLAMA_ARG_PORT",
       .effect = "Port to listen on, at every address; 0 takes a free one, which the log names.",
       .assign = {[&options](const std::string& text) -> Status {
                    TRY_ASSIGN(options.http.port, parse_number(text, 0, 65'535));
                    options.names_port = true;
                    return {};
                  },
                  std::to_string(http.port)}},
      {.spelling = "--api-key KEY,...",
       .environment = "LLAMA_API_KEY",
       .effect = "API keys; clients must send one of them. Other users can see command lines: prefer --api-key-file.",
       .assign = appended_to(http.api_keys, parse_list)},
      {.spelling = "--api-key-file FILE",
       .environment = "LLAMA_ARG_API_KEY_FILE",
       .effect = "File with one key per line; lines starting with # are comments.",
       .assign = text_into(options.api_key_file)},
      {.spelling = "--allowed-hosts NAME,...",
       .default_text = "loopback names and --host",
       .effect = "More host names under which clients reach this server, without port.",
       .assign = appended_to(http.allowed_hosts, parse_list)},
      {.spelling = "--cors-origins, --allowed-origins ORIGIN,...",
       .environment = "LLAMA_ARG_CORS_ORIGINS",
       .effect = "Web pages that may use this server from a browser, such as https://chat.example; localhost allows "
                 "all pages of the browser's own machine.",
       .assign = appended_to(http.allowed_origins, parse_list)},
      {.spelling = "--threads-http N",
       .environment = "LLAMA_ARG_THREADS_HTTP",
       .default_text = "processors - 1, at least parallel + 2",
       .effect =
           "Threads that parse, render and tokenize requests; requests that wait or stream need none. A quarter as "
           "many, at least one, are added for bodies of more than 1 MiB, as many, at least two, for files that may be "
           "sounds, and as many again for files that have to be fetched.",
       .assign = number_or_automatic(options.http_threads, 1, 4'096, 1)},
      {.spelling = "--path DIR",
       .environment = "LLAMA_ARG_STATIC_PATH",
       .default_text = "none",
       .effect = "Serve the files below DIR to browsers, index.html as /; they are read when the server starts.",
       .assign = text_into(options.web_directory)},
      {.spelling = "--webui, --ui, --no-webui, --no-ui",
       .environment = "LLAMA_ARG_UI",
       .effect = "Serve a page at /: index.html of --path, or the one that is part of the program. Without it --path "
                 "has no effect.",
       .assign = switch_into(options.serves_page)},
      {.spelling = "--queue-limit N",
       .effect =
           "Replies that may wait for one of the -np places; a request for more is refused with 503 (Anthropic's "
           "paths: 529) and Retry-After. Once half of them wait, so is one of a client that has its part: all but "
           "a sixteenth, or half of that next to one other client, and so on.",
       .assign = number_into(options.queue_limit, std::size_t{0}, std::size_t{65'536})},
      {.spelling = "--queue-tokens N",
       .default_text = "67108864, or 64 x context if that is more",
       .effect = "Tokens of all prompts that may run and wait; while any waits, a request for more is refused like one "
                 "that finds the queue full.",
       .assign = number_into(options.queue_tokens, std::size_t{1}, std::size_t{1} << 40, std::size_t{1})},
      {.spelling = "--key-limit N",
       .default_text = "none",
       .effect = "Replies of one API key that may run or wait; a request for more is refused like one that finds the "
                 "queue full.",
       .assign = number_into(options.key_limit, std::size_t{1}, std::size_t{65'536}, std::size_t{1})},
      {.spelling = "--shutdown-timeout SECONDS",
       .effect = "After SIGINT or SIGTERM, let accepted requests go on for so long, and refuse new ones with 503.",
       .assign = number_into(options.shutdown_timeout_s, 0.0, 86'400.0)},
      {.spelling = "-to, --timeout SECONDS",
       .environment = "LLAMA_ARG_TIMEOUT",
       .default_text = "60",
       .effect = "Time for a client to send its whole request, and to take each 64 KiB of a reply.",
       .assign = [&http](const std::string& text) -> Status {
         TRY_ASSIGN(const std::int64_t seconds, parse_number<std::int64_t>(text, 1, 86'400));
         http.limits.body_ms = http.limits.write_ms = seconds * 1'000;
         http.limits.header_ms = std::min(http.limits.header_ms, seconds * 1'000);
         return {};
       }},
      {.spelling = "--sse-ping-interval SECONDS",
       .environment = "LLAMA_ARG_SSE_PING_INTERVAL",
       .default_text = "5",
       .effect = "Send a comment into a stream after each silence of so many seconds; -1: none.",
       .assign = number_or_automatic<std::int64_t>(options.sse_ping_s, 1, 86'400, 1)},
      {.spelling = "--max-body-mb MIB",
       .default_text = "64",
       .effect = "Largest request body; larger ones are answered 413.",
       .assign = [&http](const std::string& text) -> Status {
         TRY_ASSIGN(const std::size_t mebibytes, parse_number<std::size_t>(text, 1, 4'096));
         http.body_bytes_max = mebibytes << 20;
         return {};
       }},
  };
}

std::vector<Flag> endpoint_flags(ServeOptions& options) {
  server::api::Endpoints& endpoints = options.endpoints;
  return {
      {.spelling = "--metrics, --no-metrics",
       .environment = "LLAMA_ARG_ENDPOINT_METRICS",
       .effect = "Serve GET /metrics: counters of requests and of the cache, for Prometheus.",
       .assign = switch_into(endpoints.metrics)},
      {.spelling = "--slots, --no-slots",
       .environment = "LLAMA_ARG_ENDPOINT_SLOTS",
       .effect = "Serve GET /slots: how far each running request is, without its text.",
       .assign = switch_into(endpoints.slots)},
      {.spelling = "--no-cache-api",
       .effect = "Serve no GET /cache and no path below it: clients cannot see, warm, pin or clear what is cached.",
       .assign = switch_into(endpoints.cache, false)},
      {.spelling = "--slot-save-path DIR",
       .environment = "LLAMA_ARG_SLOT_SAVE_PATH",
       .default_text = "none",
       .effect = "Serve POST /slots/ID: save the conversation that ran last at a slot under a name in DIR, which must "
                 "exist, restore or erase it.",
       .assign = text_into(options.slot_save_path)},
      {.spelling = "--props",
       .environment = "LLAMA_ARG_ENDPOINT_PROPS",
       .effect = "Serve POST /props. No property can be changed while serving: a request that names one is refused.",
       .assign = switch_into(endpoints.props)},
  };
}

std::vector<Flag> log_flags(LogOptions& log) {
  return {
      {.group = "Log",
       .spelling = "-lv, --verbosity, --log-verbosity N",
       .environment = "LLAMA_ARG_LOG_VERBOSITY",
       .effect = "0 and 1: errors; 2: and warnings; 3: and information; 4 and 5: and details.",
       .assign = number_into(log.verbosity, 0, 5)},
      {.spelling = "-v, --log-verbose, --verbose",
       .effect = "The same as --log-verbosity 5.",
       .assign = value_into(log.verbosity, 5)},
      {.spelling = "--log-file FILE",
       .environment = "LLAMA_ARG_LOG_FILE",
       .effect = "Also write the log here.",
       .assign = text_into(log.file)},
      {.spelling = "--log-colors on|off|auto",
       .environment = "LLAMA_ARG_LOG_COLORS",
       .default_text = "auto",
       .effect = "Colour the levels of the log on standard error; auto: if that is a terminal.",
       .assign = parsed_into(log.colors, parse_on_off_auto)},
      {.spelling = "--log-prefix, --no-log-prefix",
       .environment = "LLAMA_ARG_LOG_PREFIX",
       .effect = "Begin each line of the log with its level.",
       .assign = switch_into(log.prefix)},
      {.spelling = "--log-timestamps, --no-log-timestamps",
       .environment = "LLAMA_ARG_LOG_TIMESTAMPS",
       .effect = "Begin each line of the log with the time.",
       .assign = switch_into(log.timestamps)},
      {.spelling = "--log-format text|json",
       .effect = "json: each line is one JSON object with time, level, message and the fields that the message names.",
       .assign = choice_into(log.json, {{"text", false}, {"json", true}})},
      {.spelling = "--log-disable", .effect = "Write no log.", .assign = switch_into(log.disabled)},
      {.spelling = "--trace FILE",
       .effect = "Append one line of JSON per request: how much was reused, from which candidates, and why no more.",
       .assign = text_into(log.trace_file)},
      {.spelling = "--trace-prompts",
       .effect = "Write whole requests and replies to the trace, so that kvkeep replay can play it, and log a few "
                 "tokens where prompts part. Prompts are private.",
       .assign = switch_into(log.trace_prompts)},
      {.spelling = "--trace-media",
       .effect = "With --trace-prompts: write pictures and sounds, too, instead of their hashes.",
       .assign = switch_into(log.trace_media)},
      {.spelling = "--explain-text",
       .effect = "Without API keys: show everyone the texts of other requests where they differ (/cache/explain, "
                 "replies). With keys, each key sees its own.",
       .assign = switch_into(log.explain_text)},
  };
}

// parse_command_line() obeys it, on any command line: here it is for --help and suggestions.
Flag version_flag() {
  return {.group = "Help",
          .spelling = "--version",
          .effect = "Print the version and exit.",
          .assign = [](const std::string&) -> Status { return {}; }};
}

// The flags that most users may need, which --help lists.
constexpr std::array kShortHelp = {"--model",
                                   "--alias",
                                   "--ctx-size",
                                   "--parallel",
                                   "--flash-attn",
                                   "--cache-type-k",
                                   "--cache-type-v",
                                   "--threads",
                                   "--n-gpu-layers",
                                   "--cache-ram",
                                   "--kv-disk-dir",
                                   "--no-kv-disk",
                                   "--kv-disk-space-mb",
                                   "--share",
                                   "--cache-salt-by-key",
                                   "--chat-template-file",
                                   "--mmproj",
                                   "--host",
                                   "--port",
                                   "--api-key-file",
                                   "--log-verbosity",
                                   "--log-file",
                                   "--trace",
                                   "--version"};

// Checks flags against each other.
Status validate(const ServeOptions& options) {
  if (options.list_devices) return {};
  const engine::llama::ModelOptions& model = options.model;
  if (model.path.empty()) return invalid("no model was given: name a GGUF file with --model FILE");
  if (model.n_ubatch && *model.n_ubatch > model.n_batch) {
    return invalid(fmt::format("--ubatch-size {} is larger than --batch-size {}", *model.n_ubatch, model.n_batch));
  }
  if (is_quantized(model.type_v) && model.flash_attention == false) {
    return invalid(
        fmt::format("--cache-type-v {} needs flash attention: leave out --flash-attn off", to_string(model.type_v)));
  }
  if (!options.tiers.use_disk && !options.tiers.disk_directory.empty()) {
    return invalid("--no-kv-disk and --kv-disk-dir contradict each other");
  }
  const ReplyFormOptions& form = options.reply_form;
  const auto given = {!form.grammar.empty(), !form.grammar_file.empty(), !form.schema.empty(),
                      !form.schema_file.empty()};
  if (std::ranges::count(given, true) > 1) {
    return invalid(
        "--grammar, --grammar-file, --json-schema and --json-schema-file all give the form of replies: leave all but "
        "one out");
  }
  if (model.control_vector_layers && model.control_vectors.empty()) {
    return invalid("--control-vector-layer-range needs a --control-vector");
  }
  if (options.log.trace_prompts && options.log.trace_file.empty()) {
    return invalid("--trace-prompts needs --trace FILE");
  }
  if (options.log.trace_media && !options.log.trace_prompts) return invalid("--trace-media needs --trace-prompts");
  return {};
}

}  // namespace

FlagSet serve_flags(ServeOptions& options) {
  std::vector<Flag> all;
  for (std::vector<Flag> group :
       {model_flags(options), context_flags(options), thread_flags(options.model), offload_flags(options),
        cache_flags(options), share_flags(options.shared), point_flags(options), chat_flags(options),
        embedding_flags(options.embeddings), media_flags(options.media), http_flags(options), endpoint_flags(options),
        sampling_flags(options), adapter_flags(options.model), rope_flags(options.model), log_flags(options.log),
        accepted_flags()}) {
    std::ranges::move(group, std::back_inserter(all));
  }
  all.push_back(version_flag());
  FlagSet flags("kvkeep serve --model FILE [flags]",
                "Serves a GGUF model over HTTP and never prefills the same prefix twice.", std::move(all),
                refused_serve_flags());
  flags.take_words_for("--model");
  flags.shorten_help({kShortHelp.begin(), kShortHelp.end()});
  return flags;
}

namespace {

bool asks_for_embeddings(const std::vector<std::string>& arguments, const os::Environment& environment) {
  const auto asks = [](const std::string& one) {
    return one.starts_with("--embedding") || one.starts_with("--rerank");
  };
  return std::ranges::any_of(arguments, asks) || environment.contains("LLAMA_ARG_EMBEDDINGS") ||
         environment.contains("LLAMA_ARG_RERANKING");
}

bool names_model(const std::string& argument) {
  return argument == "-m" || argument == "--model" || argument.starts_with("--model=");
}

// Takes the model of "kvkeep serve model.gguf". Any other word is a mistake, such as a value after a switch.
Status take_model(const std::vector<std::string>& arguments, const std::vector<std::string>& words,
                  std::string& model) {
  if (words.empty()) return {};
  const std::string& word = words.front();
  const bool is_file = word.ends_with(".gguf") || word.find('/') != std::string::npos;
  const bool is_named = std::ranges::any_of(arguments, names_model);
  if (words.size() > 1 || is_named || !is_file) {
    return invalid("unexpected argument '" + (words.size() > 1 && is_file && !is_named ? words[1] : word) + "'" +
                   (is_named || is_file ? "" : "; a model is named with --model FILE"));
  }
  model = word;
  return {};
}

// Settles what --kv-unified and --repeatable, or their absence, mean for the model's memory.
Status settle_cells(ServeOptions& options) {
  engine::llama::ModelOptions& model = options.model;
  model.own_cells = model.repeatable || options.pool == false;
  model.choose_cells = !model.repeatable && !options.pool;
  if (!model.repeatable) return {};
  if (options.pool == true) {
    return invalid(
        "--repeatable and --kv-unified contradict each other: in one pool of cells, results depend on the state of "
        "other requests");
  }
  if (options.slice_ms) {
    return invalid(
        "--repeatable and --prefill-slice-ms contradict each other: slices are as long as --ubatch-size then");
  }
  if (options.decode_with_prefill == DecodeWithPrefill::kTogether) {
    return invalid(
        "--repeatable and --decode-with-prefill together contradict each other: a reply's text would depend on the "
        "prompts that come meanwhile");
  }
  model.swa_full = true;
  return {};
}

}  // namespace

Result<ParsedServe> parse_serve(const std::vector<std::string>& arguments, const os::Environment& environment) {
  ParsedServe parsed;
  const FlagSet known = serve_flags(parsed.options);
  os::Environment read = environment;
  // The variable may be set for all servers of a user, and does not contradict --no-kv-disk for one of them.
  if (std::ranges::find(arguments, "--no-kv-disk") != arguments.end()) read.erase(kDiskDirectoryVariable);
  if (!asks_for_embeddings(arguments, environment)) read.erase("LLAMA_ARG_POOLING");  // for servers that embed
  std::vector<std::string> words;
  TRY_ASSIGN(parsed.wants_help, known.parse(arguments, read, &words));
  if (!parsed.wants_help) TRY(take_model(arguments, words, parsed.options.model.path));
  parsed.options.ignored_variables = known.ignored_variables(environment);
  const auto marker = environment.find("LLAMA_MEDIA_MARKER");  // llama-server has no flag for it either
  if (marker != environment.end()) parsed.options.media.marker = marker->second;
  if (!parsed.wants_help) TRY(validate(parsed.options));
  if (!parsed.wants_help) TRY(settle_cells(parsed.options));
  if (!parsed.wants_help) TRY(check_embeddings(parsed.options.embeddings));
  if (!parsed.wants_help) TRY(check_share(parsed.options.shared));
  if (!parsed.wants_help) TRY(check_media(parsed.options.media));
  if (!parsed.wants_help) TRY(obey_vertex(environment, parsed.options));
  return parsed;
}

std::string serve_help() {
  ServeOptions options;
  return serve_flags(options).help();
}

std::string serve_help_all() {
  ServeOptions options;
  return serve_flags(options).help_all();
}

CommandManual serve_manual() {
  ServeOptions options;
  return serve_flags(options).manual();
}

}  // namespace kvkeep::cli
