#pragma once

// All options of loading a model. Plain values: the program's flags fill them, tests set them by hand. An empty
// optional leaves the choice to the model, to libllama or to the machine, as its comment says; the choice is made where
// the value is first needed.

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace kvkeep::engine::llama {

// The numbers of these values are those of ggml and libllama; model_params.cc checks that.
enum class KvType {
  kF32 = 0,
  kF16 = 1,
  kQ4_0 = 2,
  kQ4_1 = 3,
  kQ5_0 = 6,
  kQ5_1 = 7,
  kQ8_0 = 8,
  kIq4Nl = 20,
  kBf16 = 30
};
enum class LoadMode { kNone = 0, kMmap = 1, kMlock = 2, kMmapAndMlock = 3, kDirect = 4 };
enum class NumaPlacement { kDistribute = 1, kIsolate = 2, kNumactl = 3 };
enum class SplitMode { kNone = 0, kLayer = 1, kRow = 2, kTensor = 3 };
enum class RopeScaling { kNone = 0, kLinear = 1, kYarn = 2 };

// Their names, as ggml and flags spell them.
template <typename Value, std::size_t N>
using Names = std::array<std::pair<std::string_view, Value>, N>;
inline constexpr Names<KvType, 9> kKvTypes{{{"f32", KvType::kF32},
                                            {"f16", KvType::kF16},
                                            {"bf16", KvType::kBf16},
                                            {"q8_0", KvType::kQ8_0},
                                            {"q4_0", KvType::kQ4_0},
                                            {"q4_1", KvType::kQ4_1},
                                            {"iq4_nl", KvType::kIq4Nl},
                                            {"q5_0", KvType::kQ5_0},
                                            {"q5_1", KvType::kQ5_1}}};
inline constexpr Names<RopeScaling, 3> kRopeScalings{
    {{"none", RopeScaling::kNone}, {"linear", RopeScaling::kLinear}, {"yarn", RopeScaling::kYarn}}};

template <typename Value, std::size_t N>
constexpr std::string_view name_in(const Names<Value, N>& names, Value value) {
  return std::ranges::find(names, value, &std::pair<std::string_view, Value>::second)->first;
}
constexpr std::string_view to_string(KvType type) { return name_in(kKvTypes, type); }
constexpr std::string_view to_string(RopeScaling scaling) { return name_in(kRopeScalings, scaling); }

// Quantized values need flash attention.
constexpr bool is_quantized(KvType type) {
  return type != KvType::kF32 && type != KvType::kF16 && type != KvType::kBf16;
}

// One value of the model's metadata, replaced at load.
struct MetadataOverride {
  std::string key;
  std::variant<std::int64_t, double, bool, std::string> value;
};
// "key=int:1", "key=float:0.5", "key=bool:true", "key=str:text".
inline std::string to_string(const MetadataOverride& changed) {
  const auto text = [&](const char* type, const auto& value) {
    return fmt::format("{}={}:{}", changed.key, type, value);
  };
  if (const auto* number = std::get_if<std::int64_t>(&changed.value)) return text("int", *number);
  if (const auto* fraction = std::get_if<double>(&changed.value)) return text("float", *fraction);
  if (const auto* flag = std::get_if<bool>(&changed.value)) return text("bool", *flag);
  return text("str", std::get<std::string>(changed.value));
}

// A LoRA adapter, or a control vector (tensors direction.1 .. direction.N): a GGUF file, and its scale.
struct ScaledFile {
  std::string path;
  float scale = 1.0F;
};

struct TensorOverride {
  std::string pattern;      // a regular expression over names of tensors, "ffn_.*_exps"
  std::string buffer_type;  // as --list-devices prints it, or "CPU"
};

// In a smaller context not even a chat template with a short question fits.
inline constexpr std::uint32_t kLeastContext = 64;

// How threads that compute are placed, scheduled, and wait for each other.
struct ThreadRules {
  std::vector<std::uint32_t> processors = {};  // they run on these only, ascending; empty: on any
  bool one_each = false;                       // each thread stays on one of the processors
  int priority = 0;                            // -1 low, 0 normal, 1 medium, 2 high, 3 realtime
  int poll = kDefaultPoll;                     // 0: a thread that waits sleeps at once; 100: it spins longest

  static constexpr int kDefaultPoll = 50;
  bool operator==(const ThreadRules&) const = default;
};

// The same where prompts are computed; empty: as for single tokens.
struct ThreadRulesForPrompts {
  std::optional<std::vector<std::uint32_t>> processors = {};
  std::optional<bool> one_each = {};
  std::optional<int> priority = {};
  std::optional<int> poll = {};

  ThreadRules over(const ThreadRules& single) const {
    return {.processors = processors.value_or(single.processors),
            .one_each = one_each.value_or(single.one_each),
            .priority = priority.value_or(single.priority),
            .poll = poll.value_or(single.poll)};
  }
};

// Keeps a line of text for each name between starts. A line that was lost costs one trial.
class KeptTrials {
 public:
  virtual ~KeptTrials() = default;
  virtual std::optional<std::string> find(const std::string& name) = 0;
  virtual void keep(const std::string& name, const std::string& text) = 0;
};

struct ModelOptions {
  // --- the model
  std::string path;                                          // of a split model its first file
  std::vector<MetadataOverride> kv_overrides;                // in the order given
  std::vector<ScaledFile> loras;                             // applied to requests that say nothing else
  bool apply_loras = true;                                   // false: their scales are 0 until somebody asks for more
  std::vector<ScaledFile> control_vectors;                   // added to the layers' outputs
  std::optional<std::pair<int, int>> control_vector_layers;  // both included; 0 and empty: the first, the last

  // --- the memory
  // Cells of the memory: the longest prompt with its reply, shared by all sequences. Empty: as many as the model was
  // trained for, as far as memory allows.
  std::optional<std::uint32_t> n_ctx;
  // Requests decoded at the same time.
  std::uint32_t parallel = 4;
  // Sequences that keep finished conversations in the model's memory. They cost cells only while in use. None with
  // own_cells: a conversation that has finished keeps its cells until another needs them.
  std::uint32_t idle_sequences = 8;
  // Each of `parallel` sequences has cells of its own, n_ctx / parallel of them, and is not computed over the others'.
  // No prefix is then shared in memory, and a conversation has at most n_ctx / parallel tokens. Sliceable and windowed
  // models, and hybrid ones without a window; others keep one pool.
  bool own_cells = false;
  // The layout may change while the model is in use (Engine::lay_out), if a trial shows that state goes over. Without
  // effect on models that keep one pool, and with own_cells.
  bool choose_cells = false;
  KvType type_k = KvType::kF16;
  KvType type_v = KvType::kF16;
  std::optional<bool> flash_attention;  // empty: if model and device support it
  bool offload_kv = true;               // keep the KV memory on the device that computes the layer
  bool swa_full = false;                // windowed models: keep all rows, not only the window

  // --- computation
  std::uint32_t n_batch = 2048;  // most tokens per decode call
  // Most tokens per computation: with more, prefill is faster and takes more memory. Empty: 512, or n_batch if that is
  // less, so that n_batch can be lowered by itself.
  std::optional<std::uint32_t> n_ubatch;
  std::optional<int> threads;        // for one token at a time; empty: one per core
  std::optional<int> threads_batch;  // for prompts; empty: as threads
  ThreadRules thread_rules;          // for one token at a time
  ThreadRulesForPrompts thread_rules_batch;
  bool operation_offload = true;  // compute large batches of host-resident layers on a device
  bool warmup = true;             // run a first batch at load, so that the first request does not wait for it

  // --- the places of weights. The fingerprint has only the names of the devices: how layers, tensors and the KV memory
  // are spread over them changes only the order of sums, and so their rounding.
  static constexpr std::int32_t kAllLayers = INT32_MAX;  // more than any model has
  std::optional<std::int32_t> gpu_layers;                // empty: see `fit`
  // How the context's length and the layers on devices follow from free memory where nothing was given.
  struct Fit {
    bool enabled = true;  // false: the context that the model was trained for, and all layers on the devices
    // Memory of each device that is left to computation and other programs; the last stands for all further devices.
    std::vector<std::uint64_t> reserve_bytes = {std::uint64_t{1} << 30};
    // The context may become so short for memory's sake. Empty: 4,096 tokens where its cells lie in host memory; where
    // they lie on devices, layers leave the devices instead.
    std::optional<std::uint32_t> least_context = {};
  } fit;
  // "host:port" of RPC servers, whose devices are added to those of this machine.
  std::vector<std::string> rpc_servers;
  // By name, as --list-devices prints them; empty: all; only "none": no device.
  std::vector<std::string> devices;
  std::vector<TensorOverride> tensor_overrides;
  bool cpu_moe = false;              // all experts in host memory
  std::uint32_t cpu_moe_layers = 0;  // the experts of the first N layers in host memory
  SplitMode split_mode = SplitMode::kLayer;
  std::vector<float> tensor_split;  // share of each device; empty: by free memory
  std::int32_t main_gpu = 0;
  std::optional<LoadMode> load_mode;  // empty: as libllama chooses for the devices
  // Where threads run on a machine with several memory nodes; empty: the system decides. Holds for the process.
  std::optional<NumaPlacement> numa;
  bool repack = true;          // rearrange weights for the CPU's instructions; part of the fingerprint
  bool no_host = false;        // bypass pinned host buffers, so that extra ones can be used
  bool check_tensors = false;  // refuse weights that are NaN or infinite: slower to load

  // --- positions; empty: the model's
  std::optional<RopeScaling> rope_scaling;
  std::optional<float> rope_frequency_base;
  std::optional<float> rope_frequency_scale;
  std::optional<float> yarn_extrapolation;
  std::optional<float> yarn_attention;
  std::optional<float> yarn_beta_fast;
  std::optional<float> yarn_beta_slow;
  std::optional<std::uint32_t> yarn_original_context;

  // --- the cache
  // State of different salts is never shared. This is one server's salt; base/hash.h has those of its tenants.
  std::string salt;
  // Name the model by all its bytes instead of samples of each tensor: slower to start, for files that are patched.
  bool full_model_hash = false;
  // Prefill ends slices at fixed positions (the scheduler's part of this), and state that was computed otherwise is not
  // reused: part of the fingerprint. Needs own_cells, and swa_full for windowed models, whose window rows otherwise lie
  // in another order after a restore.
  bool repeatable = false;
  // The program to run class tests in (its hidden command kClassTestCommand). Empty, for tests: they run in this
  // process, which ends with them if the architecture cannot copy ranges.
  std::string class_test_program;
  // Remembers the trials of such children between starts; null: each start tries anew.
  std::shared_ptr<KeptTrials> kept_trials = nullptr;

  std::uint32_t ubatch() const { return std::min(n_ubatch.value_or(512), n_batch); }
};

}  // namespace kvkeep::engine::llama
