#pragma once

// All settings of `kvkeep serve`, as plain values: the options of the rooms, and those that belong to no room.
// parse_serve (serve_flags.h) fills and validates them once; nothing else reads the command line or the environment. An
// empty optional leaves the choice to the program.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cache/cache_options.h"
#include "chat/stabilize.h"
#include "chat/tools/tool_format.h"
#include "engine/embedder.h"
#include "engine/llama/model_options.h"
#include "engine/sampling_settings.h"
#include "policy/call_meter.h"
#include "policy/cut.h"
#include "policy/restore.h"
#include "server/api/monitoring.h"
#include "server/api/request.h"
#include "server/http/http_server.h"
#include "server/http/remote_file.h"
#include "share/share_types.h"

namespace kvkeep::cli {

// The tiers of the cache. cache_setup.h chooses sizes that are empty here by asking the machine.
struct TierOptions {
  std::optional<ByteCount> ram_budget;  // empty: a quarter of available memory, at most 8 GiB; 0: no RAM tier
  bool use_disk = true;
  std::string disk_directory;             // empty: under the user's cache home; an unusable one is then only a warning
  std::optional<ByteCount> disk_budget;   // empty: a tenth of the free space, 1 to 64 GiB
  std::optional<ByteCount> disk_reserve;  // empty: 1 GiB, or a hundredth of the file system if that is less
  ByteCount disk_written_per_day;         // 0: no limit
};

// The tier that servers of several machines share; cache_setup.h opens it.
struct SharedTierOptions {
  std::string url;  // empty: there is none
  share::ShareMode mode = share::ShareMode::kBoth;
  std::string key_file;  // empty: no key
  bool encrypt = false;
  std::int64_t ttl_hours = 7 * 24;
  bool across_devices = false;
  bool operator==(const SharedTierOptions&) const = default;
};

struct LogOptions {
  int verbosity = 3;  // 0 and 1 errors, 2 warnings, 3 information, 4 and 5 details
  std::string file;   // also written there; empty: the terminal only
  bool disabled = false;
  std::optional<bool> colors;  // on standard error; empty: if that is a terminal
  bool prefix = true;          // each line begins with its level
  bool timestamps = true;      // and, before that, with the time
  bool json = false;           // lines are JSON objects, whatever the three above say
  std::string trace_file;      // one line per request; empty: none
  bool trace_prompts = false;  // includes whole requests and replies
  bool trace_media = false;    // these include pictures and sounds, instead of their hashes
  bool explain_text = false;   // /cache/explain shows texts of prompts where the server has no keys
};

// How a prompt shows the assistant's earlier turns.
enum class Replay {
  kExact,      // as sampled, if the client's message says the same
  kCanonical,  // as the template writes them, prefilled ahead
  kOff,        // as the template writes them, not prefilled ahead
};

// The model's names, the variables of its chat template, and how its replies are parsed.
struct ChatOptions {
  std::vector<std::string> model_names;                // shown by the API; empty: the file's name
  std::vector<std::string> model_tags;                 // shown by the API
  bool strict_model_names = false;                     // requests for another model's name are refused
  std::string template_source;                         // Jinja text; empty: the model's own
  std::string template_file;                           // file with Jinja text; empty: none
  std::optional<chat::tools::FormatKind> tool_format;  // empty: detected from the template
  std::optional<bool> thinks;                          // empty: the template's own
  std::string reasoning_effort;                        // empty: the template's own
  bool preserve_reasoning = true;                      // earlier reasoning stays, if the template has a switch for it
  bool skip_parsing = false;                           // all of a reply is content
  Replay replay = Replay::kExact;
  bool prefill_ahead = true;
  bool fill_suffix_first = false;  // in prompts of /infill
};

// The form of replies to requests that demand none and have no tools; read_named_files() reads it. At most one is
// given.
struct ReplyFormOptions {
  std::string grammar;       // GBNF
  std::string grammar_file;  // a file with it
  std::string schema;        // a JSON schema
  std::string schema_file;   // a file with it
};

// check_embeddings() (serve_flags.h) settles what the flags leave open.
struct EmbeddingOptions {
  bool enabled = false;
  bool rank = false;                       // --rerank
  std::optional<engine::Pooling> pooling;  // empty: the model's own
  std::optional<std::int64_t> normalize;   // empty: as llama-server, to length 1
};

// Pictures and sound. check_media() (serve_flags.h) says which of these need which.
struct MediaOptions {
  std::string projector;           // file; empty: the model takes text only
  bool enabled = true;             // else `projector` does not count
  bool offload = true;             // encode on a device, if there is one
  std::string device;              // that encodes, by name; empty: the first one
  std::uint32_t least_tokens = 0;  // of a picture, if its number of tokens depends on its size; 0: the projector's own
  std::uint32_t most_tokens = 0;
  std::string directory;                         // of files that requests may name; empty: none
  std::vector<server::RemoteHost> remote_hosts;  // from which files are fetched that requests name
  std::string marker;  // that stands for a file in the prompts of completions; empty: a new one at each start
};

struct ServeOptions {
  engine::llama::ModelOptions model;  // its salt is the text of `salt_file`
  std::optional<bool> pool;           // --kv-unified; with --repeatable it settles model.own_cells; empty: chosen
  bool list_devices = false;          // print them and exit; no model is needed then
  ChatOptions chat;
  EmbeddingOptions embeddings;
  MediaOptions media;
  ReplyFormOptions reply_form;
  chat::Stabilizers stabilizers;
  server::api::RequestDefaults defaults;   // its template_kwargs are only those of --chat-template-kwargs
  engine::ChosenSettings chosen_sampling;  // settings of sampling that flags name: the model's file changes others only
  cache::CacheOptions cache;               // fields that depend on the model and the machine are not set
  TierOptions tiers;
  SharedTierOptions shared;
  policy::CutOptions cuts;  // its least length is that of `cache`
  policy::RestoreMode restore = policy::RestoreMode::kAuto;
  std::optional<double> slice_ms;  // --prefill-slice-ms; empty: SchedulerOptions has it
  policy::DecodeWithPrefill decode_with_prefill = policy::DecodeWithPrefill::kAuto;
  bool shift_context = false;  // --context-shift
  bool match_text = true;      // --match text; else equal ids only
  std::string salt_file;       // its text sets this server's state apart; empty: none
  bool salt_by_key = false;    // only requests with the same API key share state
  double audit_minutes = 10;   // between two audits of stored state; 0: none
  server::api::Endpoints endpoints;
  std::string slot_save_path;                  // empty: slots are not saved by name
  std::optional<std::int64_t> sse_ping_s = 5;  // empty: no pings
  server::HttpOptions http;         // api_keys holds those of --api-key only; threads and passed sockets are not set
  bool names_port = false;          // --port was given
  std::string web_directory;        // --path; empty: no files are served
  bool serves_page = true;          // else web_directory does not count
  std::size_t queue_limit = 4'096;  // --queue-limit
  std::optional<std::size_t> queue_tokens;  // --queue-tokens; empty: by the context's length
  std::optional<std::size_t> key_limit;     // --key-limit; empty: no key has a limit of its own
  double shutdown_timeout_s = 0;            // for replies to end by themselves
  std::optional<int> http_threads;          // empty: by processors and parallel requests
  std::string api_key_file;                 // one key per line, see server::parse_key_lines; empty: none
  LogOptions log;
  std::vector<std::string> ignored_variables;  // a line for each LLAMA_ARG_... variable that sets nothing
};

}  // namespace kvkeep::cli
