#pragma once

// Everything `kvkeep serve` can be told, as plain values. Filled and validated once by parse_serve (serve_flags.h);
// nothing else reads the command line or the environment. Defaults stand here and nowhere else.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "chat/stabilize.h"
#include "chat/tools/reply_parser.h"
#include "engine/llama/model_options.h"
#include "engine/sampling.h"
#include "server/http/http_server.h"

namespace kvkeep::cli {

struct CacheOptions {
  bool cache_prompt = true;              // for requests that do not say; off: they neither read nor write the cache
  std::string salt_file;                 // whose text sets this server's state apart; empty: none
  bool salt_by_key = false;              // each API key shares with itself alone
  bool match_text = true;                // --match text; else ids alone
  bool always_restore = false;           // --restore always; else prefill where loading would take longer
  std::optional<std::uint64_t> ram_mib;  // empty: a quarter of available memory, at most 8192; 0: no RAM tier
  bool use_disk = true;
  std::string disk_directory;             // empty: under the user's cache home; an unusable one is then only a warning
  std::optional<std::uint64_t> disk_mib;  // empty: a tenth of the free space, 1024 to 65536
  std::optional<std::uint64_t> disk_reserve_mib;  // empty: 1024, or a hundredth of the file system if that is less
  std::uint64_t disk_write_mib_per_day = 0;       // 0: no limit
  std::uint32_t hours_to_live = 0;                // unused; 0: for ever
  std::uint32_t disk_points_percent = 100;        // of the disk budget, for points, whole states and windows
  double audit_minutes = 10;                      // between two audits of what is stored; 0: none
  std::uint32_t store_tokens_min = 32;            // shorter conversations are not stored on disk
  bool anchor_user = true;
  std::uint32_t cold_tokens_max = UINT32_MAX;  // the context
  std::uint32_t continued_interval_tokens = 2048;
  std::uint32_t boundary_trim_tokens = 32;
  std::uint32_t boundary_align_tokens = 2048;
  std::uint32_t points_max = UINT32_MAX;  // no limit
  std::uint32_t point_step_min = 32;
};

struct LogOptions {
  int verbosity = 3;  // 0 and 1 errors, 2 warnings, 3 information, 4 and 5 details
  std::string file;   // also written there; empty: the terminal only
  bool disabled = false;
  std::string trace_file;      // one line per request; empty: none
  bool trace_prompts = false;  // with everything that users send
};

// What becomes of earlier turns in a prompt.
enum class Replay {
  kExact,      // as they were sampled, where they say the same
  kCanonical,  // as the template writes them; that is prefilled ahead
  kOff,        // as the template writes them, when they come
};

// What the model is called, how what it writes is read, and what its template is told.
struct ChatOptions {
  std::vector<std::string> model_names;                // the API shows; empty: the file's name
  bool strict_model_names = false;                     // requests that name another model are refused
  std::string template_source;                         // Jinja text; empty: the model's own
  std::string template_file;                           // likewise
  std::optional<chat::tools::FormatKind> tool_format;  // empty: as the template says
  chat::tools::ReasoningFormat reasoning_format = chat::tools::ReasoningFormat::kDeepSeek;
  std::optional<bool> thinks;                        // empty: as the template has it
  std::optional<std::size_t> thinking_tokens_max;    // of a thought; empty: no limit
  std::string reasoning_effort;                      // empty: likewise
  bool preserve_reasoning = true;                    // earlier thoughts stay, where templates know such a switch
  nlohmann::ordered_json template_kwargs = nullptr;  // more variables for the template; null: none
  bool skip_parsing = false;                         // everything is content
  Replay replay = Replay::kExact;
  bool prefill_ahead = true;
};

struct ServeOptions {
  engine::llama::ModelOptions model;
  bool list_devices = false;  // print them and exit; no model is needed then
  ChatOptions chat;
  std::optional<std::uint32_t>
      predict_tokens;               // of a reply whose request does not say; empty: until the context is full
  engine::SamplingParams sampling;  // of requests that do not say otherwise
  CacheOptions cache;
  chat::Stabilizers stabilizers;
  server::HttpOptions http;         // api_keys holds those of --api-key only
  std::optional<int> http_threads;  // empty: by processors and parallel requests
  bool strict_fields = false;       // requests with fields that no dialect knows are refused
  std::string api_key_file;         // one key per line, see server::parse_key_lines; empty: none
  LogOptions log;
  std::vector<std::string> ignored_variables;  // a warning for each LLAMA_ARG_... in the environment that sets nothing
};

}  // namespace kvkeep::cli
