#pragma once

// Everything `kvkeep serve` can be told, as plain values. Filled and validated once by parse_serve (serve_flags.h);
// nothing else reads the command line or the environment. Defaults stand here and nowhere else.

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "chat/stabilize.h"
#include "chat/tools/reply_parser.h"
#include "server/http/http_server.h"

namespace kvkeep::cli {

enum class FlashAttention { kOff, kOn, kAuto };
enum class SplitMode { kNone, kLayer, kRow, kTensor };
enum class LoadMode { kAuto, kNone, kMmap, kMlock, kMmapAndMlock, kDirect };
enum class RopeScaling { kFromModel, kNone, kLinear, kYarn };

// One value of the model's metadata, replaced at load. Alternatives are --override-kv's int, float, bool and str.
struct MetadataOverride {
  std::string key;
  std::variant<std::int64_t, double, bool, std::string> value;
};

struct ScaledFile {
  std::string path;
  float scale = 1.0F;
};

struct TensorOverride {
  std::string pattern;      // a regular expression over tensor names
  std::string buffer_type;  // as --list-devices prints it, or "CPU"
};

// What is loaded. What changes values is part of the cache's fingerprint: all but the names, `load_mode`,
// `host_buffers` and `check_tensors`, and but the chat template, which changes a conversation's tokens and not what is
// computed for them.
struct ModelOptions {
  std::string path;                         // GGUF file (the first of a split model); required
  std::vector<std::string> aliases;         // names the API shows; empty: the file's name
  bool strict_names = false;                // requests that name another model are refused
  LoadMode load_mode = LoadMode::kAuto;     // how the weights come into memory
  bool repack = true;                       // weights rearranged for this CPU: faster, takes memory, rounds otherwise
  bool host_buffers = true;                 // pinned host memory for weights beside a GPU; off with --no-host
  bool check_tensors = false;               // refuse a model with NaN or infinite weights: slower start
  std::vector<MetadataOverride> overrides;  // in the order given
  std::vector<ScaledFile> loras;            // adapters, applied to every request
  std::vector<ScaledFile> control_vectors;  // added to the layers' outputs
  std::optional<std::pair<int, int>> control_vector_layers;  // inclusive; empty: all
  std::string chat_template;       // a built-in one's name, or Jinja text; empty: the model's own
  std::string chat_template_file;  // Jinja; empty: the model's own
  bool full_hash = false;          // identity from every byte instead of samples: slow, for the careful
};

// RoPE settings; unset members come from the model.
struct RopeOptions {
  RopeScaling scaling = RopeScaling::kFromModel;
  float frequency_base = 0.0F;              // 0: from the model
  float frequency_scale = 0.0F;             // 0: from the model; --rope-scale N sets 1/N
  std::uint32_t yarn_original_context = 0;  // 0: the model's training context
  float yarn_extrapolation = -1.0F;         // negative: from the model
  float yarn_attention = -1.0F;
  float yarn_beta_slow = -1.0F;
  float yarn_beta_fast = -1.0F;
};

struct ContextOptions {
  std::uint32_t tokens = 0;                    // shared by all running requests; 0: the model's training context
  std::uint32_t parallel = 4;                  // requests that decode at the same time; more wait
  std::uint32_t predict_tokens = UINT32_MAX;   // per reply where the request says nothing; UINT32_MAX: until the
                                               // context is full
  std::uint32_t batch_tokens = 2048;           // most tokens given to the model at once
  std::optional<std::uint32_t> ubatch_tokens;  // most tokens computed at once; larger is faster and takes memory
  int threads = 0;                             // decoding; 0: one per physical core
  int threads_batch = 0;                       // prefill; 0: as `threads`
  FlashAttention flash_attention = FlashAttention::kAuto;
  std::string key_type = "f16";    // of the KV cache's keys: see kv_cache_types()
  std::string value_type = "f16";  // a quantized value type needs flash attention
  bool full_window = false;        // --swa-full: windowed layers keep everything
  bool warmup = true;              // an empty run before the first request
  RopeOptions rope;

  // The default shrinks with a smaller batch, so that -b alone can be lowered.
  std::uint32_t ubatch() const { return ubatch_tokens.value_or(std::min<std::uint32_t>(512, batch_tokens)); }
};

// -ngl: a count, all, or as many as fit.
struct GpuLayers {
  enum class Kind { kAuto, kAll, kCount } kind = Kind::kAuto;
  int count = 0;  // with kCount
};

// Where it is computed. Of all this the fingerprint holds the names of the devices alone: how layers, tensors and the
// KV cache are spread over them changes the order of sums, that is how they are rounded, and nothing else.
struct OffloadOptions {
  GpuLayers layers;
  std::vector<std::string> devices;  // to use, by name; empty: all. "none" alone: no device
  bool list_devices = false;         // print them and exit; no model is needed then
  bool kv_on_device = true;          // off: the KV cache stays in host memory
  std::vector<TensorOverride> tensors;
  bool experts_on_cpu = false;   // all experts of mixture models
  int expert_layers_on_cpu = 0;  // those of the first N layers
  SplitMode split = SplitMode::kLayer;
  std::vector<float> split_shares;  // per device; empty: by free memory
  int main_device = 0;
};

// For requests that do not say otherwise.
struct SamplingDefaults {
  std::optional<std::uint32_t> seed;  // empty: another one each time
  float temperature = 0.8F;
  int top_k = 40;               // 0: off
  float top_p = 0.95F;          // 1: off
  float min_p = 0.05F;          // 0: off
  float repeat_penalty = 1.0F;  // 1: off
  int repeat_last_n = 64;       // tokens the penalties look back; 0: off, -1: the context
  float presence_penalty = 0.0F;
  float frequency_penalty = 0.0F;
  bool ignore_eos = false;
};

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

// How what a model writes is read, and what its template is told.
struct ChatOptions {
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
  ModelOptions model;
  ChatOptions chat;
  ContextOptions context;
  OffloadOptions offload;
  SamplingDefaults sampling;
  CacheOptions cache;
  chat::Stabilizers stabilizers;
  server::HttpOptions http;    // api_keys holds those of --api-key only
  int http_threads = 0;        // 0: by processors and parallel requests
  bool strict_fields = false;  // requests with fields that no dialect knows are refused
  std::string api_key_file;    // one key per line, see server::parse_key_lines; empty: none
  LogOptions log;
  std::vector<std::string> ignored_variables;  // a warning for each LLAMA_ARG_... in the environment that sets nothing
};

}  // namespace kvkeep::cli
