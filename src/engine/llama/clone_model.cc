#include "engine/llama/clone_model.h"

#include <algorithm>
#include <vector>

#include "engine/llama/model_file.h"

namespace kvkeep::engine::llama {
namespace {

constexpr std::uint32_t kHeads = 2;
constexpr std::uint32_t kNarrowEmbedding = 64;
constexpr std::uint32_t kFeedForward = 64;
constexpr std::uint32_t kExperts = 4;
constexpr std::uint32_t kWindow = 32;  // trials compute more tokens than this

// Sets a number if the model has it: stored as one value or one per layer, as before. Zeros stay, because layers
// without attention or feed-forward parts define some architectures.
class Shrinker {
 public:
  Shrinker(gguf_context& file, std::string architecture) : file_(file), prefix_(std::move(architecture) + ".") {}

  // Returns the largest value if there is one per layer.
  std::uint64_t get(const char* name, std::uint64_t otherwise) const {
    const std::string key = prefix_ + name;
    const std::int64_t id = gguf_find_key(&file_, key.c_str());
    const bool is_list = id >= 0 && gguf_get_kv_type(&file_, id) == GGUF_TYPE_ARRAY;
    std::uint64_t largest = gguf_number(file_, key).value_or(otherwise);
    for (std::size_t i = 1; is_list && i < gguf_get_arr_n(&file_, id); ++i) {
      largest = std::max(largest, gguf_number(file_, key, i).value_or(0));
    }
    return largest;
  }
  void put(const char* name, std::uint32_t value) { gguf_set_val_u32(&file_, (prefix_ + name).c_str(), value); }
  void at_most(const char* name, std::uint32_t value) {
    const std::string key = prefix_ + name;
    const std::int64_t id = gguf_find_key(&file_, key.c_str());
    if (id < 0) return;
    if (gguf_get_kv_type(&file_, id) != GGUF_TYPE_ARRAY) {
      const auto old = gguf_number(file_, key);
      if (old) put(name, static_cast<std::uint32_t>(std::min<std::uint64_t>(*old, value)));
      return;
    }
    std::vector<std::uint32_t> values;
    for (std::size_t i = 0; i < gguf_get_arr_n(&file_, id); ++i) {
      values.push_back(
          static_cast<std::uint32_t>(std::min<std::uint64_t>(gguf_number(file_, key, i).value_or(0), value)));
    }
    gguf_set_arr_data(&file_, key.c_str(), GGUF_TYPE_UINT32, values.data(), values.size());
  }

 private:
  gguf_context& file_;
  std::string prefix_;
};

void shrink_heads(Shrinker& shrinker, CloneShape shape) {
  const std::uint64_t heads = shrinker.get("attention.head_count", 0);
  if (heads == 0) {  // no attention: same as without matching
    if (shape == CloneShape::kNarrow) shrinker.put("embedding_length", kNarrowEmbedding);
    return;
  }
  const std::uint64_t head_size = shrinker.get("embedding_length", 1) / heads;
  const bool grouped = shrinker.get("attention.head_count_kv", heads) < heads;
  const auto key_size = static_cast<std::uint32_t>(shrinker.get("attention.key_length", head_size));
  const auto value_size = static_cast<std::uint32_t>(shrinker.get("attention.value_length", head_size));
  shrinker.put("attention.key_length", key_size);
  shrinker.put("attention.value_length", value_size);
  shrinker.at_most("attention.head_count", kHeads);
  shrinker.at_most("attention.head_count_kv", grouped ? 1 : kHeads);
  shrinker.at_most("attention.output_group_count", kHeads);
  shrinker.at_most("attention.sliding_window", kWindow);
  shrinker.put("embedding_length", shape == CloneShape::kNarrow ? kNarrowEmbedding : kHeads * key_size);
}

void shrink_feed_forward(Shrinker& shrinker) {
  shrinker.at_most("feed_forward_length", kFeedForward);
  shrinker.at_most("expert_feed_forward_length", kFeedForward);
  shrinker.at_most("expert_shared_feed_forward_length", kFeedForward);
  shrinker.at_most("expert_count", kExperts);
  shrinker.at_most("expert_used_count", kExperts / 2);
  shrinker.at_most("expert_group_count", 1);
  shrinker.at_most("expert_group_used_count", 1);
}

// Recurrent layers: heads keep their size. Mamba has no heads and must be twice as wide as its embeddings.
void shrink_recurrent(Shrinker& shrinker, CloneShape shape) {
  const std::uint64_t inner = shrinker.get("ssm.inner_size", 0);
  const std::uint64_t heads = shrinker.get("ssm.time_step_rank", 0);
  if (inner == 0 || heads == 0) return;
  if (shrinker.get("ssm.group_count", 0) == 0) {
    shrinker.put("ssm.inner_size", 2 * static_cast<std::uint32_t>(shrinker.get("embedding_length", 0)));
  } else if (shape == CloneShape::kNarrow) {
    shrinker.put("ssm.inner_size", static_cast<std::uint32_t>(inner / heads) * kHeads);
    shrinker.put("ssm.time_step_rank", kHeads);
    shrinker.put("ssm.group_count", 1);
  }
}

// Copies only the metadata: the tensor directory would fix types and shapes.
GgufHandle clone_metadata(const gguf_context& original, CloneShape shape) {
  GgufHandle clone(gguf_init_empty());
  gguf_set_kv(clone.get(), &original);
  std::vector<std::string> tokenizer_keys;
  for (std::int64_t i = 0; i < gguf_get_n_kv(clone.get()); ++i) {
    const std::string key = gguf_get_key(clone.get(), i);
    if (key.starts_with("tokenizer.") || key.starts_with("split.")) tokenizer_keys.push_back(key);
  }
  for (const std::string& key : tokenizer_keys) gguf_remove_key(clone.get(), key.c_str());
  gguf_set_val_str(clone.get(), "tokenizer.ggml.model", "none");
  Shrinker shrinker(*clone, gguf_text(original, "general.architecture"));
  shrinker.put("vocab_size", kCloneVocabulary);
  shrink_heads(shrinker, shape);
  shrink_recurrent(shrinker, shape);
  shrink_feed_forward(shrinker);
  return clone;
}

// Fills in small values of both signs; vectors (norms, biases) are near 1, tables of numbers (of experts) 0.
void fill_tensor(ggml_tensor* tensor, void* data) {
  auto& state = *static_cast<std::uint64_t*>(data);
  if (tensor->type == GGML_TYPE_I32) return ggml_backend_tensor_memset(tensor, 0, 0, ggml_nbytes(tensor));
  std::vector<float> values(static_cast<std::size_t>(ggml_nelements(tensor)));
  const bool is_vector = ggml_n_dims(tensor) == 1;
  for (float& value : values) {
    state = state * 6364136223846793005U + 1442695040888963407U;
    const float unit = static_cast<float>(state >> 40) / static_cast<float>(1U << 23) - 1.0F;
    value = is_vector ? 1.0F + 0.1F * unit : 0.2F * unit;
  }
  ggml_backend_tensor_set(tensor, values.data(), 0, ggml_nbytes(tensor));
}

}  // namespace

std::string_view to_string(CloneShape shape) { return shape == CloneShape::kNarrow ? "narrow" : "matched"; }

// The head size of a model that names it does not depend on its embeddings.
std::array<CloneShape, 2> clone_shapes(const std::string& path) {
  const auto file = open_gguf(path);
  const bool named =
      file && gguf_number(**file, gguf_text(**file, "general.architecture") + ".attention.key_length").has_value();
  return named ? std::array{CloneShape::kNarrow, CloneShape::kMatched}
               : std::array{CloneShape::kMatched, CloneShape::kNarrow};
}

Result<ModelHandle> make_clone(const std::string& path, CloneShape shape) {
  TRY_ASSIGN(const GgufHandle original, open_gguf(path));
  const GgufHandle metadata = clone_metadata(*original, shape);
  llama_model_params params = llama_model_default_params();
  ggml_backend_dev_t no_devices[] = {nullptr};
  params.devices = no_devices;
  params.n_gpu_layers = 0;
  params.use_extra_bufts = false;  // weights are set as plain floats
  std::uint64_t random_state = 1;
  const std::uint64_t mark = log_mark();
  ModelHandle model(llama_model_init_from_user(metadata.get(), fill_tensor, &random_state, params), ModelDeleter{});
  if (!model) return unsupported("no clone: " + log_reason_since(mark));
  return model;
}

}  // namespace kvkeep::engine::llama
