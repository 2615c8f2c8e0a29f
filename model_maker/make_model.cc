#include "model_maker/make_model.h"

#include <ggml.h>
#include <gguf.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "base/assert.h"
#include "model_maker/architecture.h"
#include "model_maker/vocabulary.h"

namespace kvkeep::gguf {
namespace {

// Reproducible weights: the same seed gives the same bytes on every machine and compiler (integer arithmetic, then one
// exact conversion and one multiplication per value). The generator is splitmix64. Not for cryptography. About a
// nanosecond per value of fill().
class Random {
 public:
  // Each tensor has its own stream, so that adding a tensor does not change the others.
  Random(std::uint64_t seed, std::string_view stream) : state_(seed) {
    for (const char c : stream) state_ = mix(state_ ^ static_cast<unsigned char>(c));
  }

  std::uint64_t next() { return mix(state_ += 0x9E3779B97F4A7C15u); }

  // Fills in uniform values with mean 0 and the given standard deviation, in steps of 1/65536 of their range.
  void fill(std::span<float> values, float deviation) {
    constexpr float kSquareRootOf12 = 3.4641016F;
    fill_steps(values, deviation * kSquareRootOf12 / 65536.0F);
  }

  // Fills in uniform values of a range, in steps of 1/65536 of it.
  void fill_between(std::span<float> values, float lowest, float highest) {
    fill_steps(values, (highest - lowest) / 65536.0F);
    for (float& value : values) value += (lowest + highest) / 2;
  }

 private:
  // Fills in values with mean 0.
  void fill_steps(std::span<float> values, float step) {
    std::uint64_t bits = 0;
    for (std::size_t i = 0; i < values.size(); ++i) {
      bits = i % 4 == 0 ? next() : bits >> 16;
      values[i] = (static_cast<float>(bits & 0xFFFF) - 32767.5F) * step;
    }
  }

  static std::uint64_t mix(std::uint64_t z) {
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return z ^ (z >> 31);
  }

  std::uint64_t state_;
};

using File = std::unique_ptr<gguf_context, decltype(&gguf_free)>;
using Tensors = std::unique_ptr<ggml_context, decltype(&ggml_free)>;

std::string_view size_name(ModelSize size) {
  switch (size) {
    case ModelSize::kTiny: return "tiny";
    case ModelSize::kSmall: return "small";
    case ModelSize::kReal: return "real";
  }
  return "";
}

const Architecture* find_architecture(std::string_view name) {
  for (const auto group : {architectures(), encoders()}) {
    for (const Architecture& architecture : group) {
      if (architecture.name == name) return &architecture;
    }
  }
  return nullptr;
}

bool only_embeds(const Architecture& architecture) {
  return std::ranges::any_of(encoders(), [&](const Architecture& one) { return one.name == architecture.name; });
}

Status check_embedding(const MakeModelOptions& options, bool embeds) {
  if (options.rerank && !embeds) return invalid("only an encoder has a classifier for reranking: --arch bert");
  if (options.free_output && embeds) return invalid("an " + options.architecture + " model samples no tokens");
  return {};
}

Status check_vocabulary(const MakeModelOptions& options, bool embeds) {
  if (options.vocabulary == 0) return {};
  if (embeds) return invalid("an " + options.architecture + " model has a vocabulary of its own");
  const std::size_t least = shared_vocabulary().size();
  if (options.vocabulary >= least && options.vocabulary <= kMostTokens) return {};
  return invalid("a vocabulary has " + std::to_string(least) + " to " + std::to_string(kMostTokens) + " tokens");
}

Status check_projector(const MakeModelOptions& options, bool embeds) {
  if (!options.projector) return {};
  if (embeds) return invalid("an " + options.architecture + " model neither sees nor hears");
  if (options.window == 0 && options.vocabulary == 0 && !options.free_output && !options.rerank) return {};
  return invalid("a projector has no window, vocabulary, output or classifier: leave out their flags");
}

template <typename Predicate>
std::string names_of(Predicate wanted) {
  std::string names;
  for (const auto group : {architectures(), encoders()}) {
    for (const Architecture& architecture : group) {
      if (wanted(architecture)) names += (names.empty() ? "" : ", ") + std::string(architecture.name);
    }
  }
  return names;
}

// Returns 0 if there are no windowed layers.
Result<std::uint32_t> window_of(const Architecture& architecture, std::uint32_t asked_for) {
  if (asked_for != 0 && architecture.window == Window::kNone) {
    return invalid("an " + std::string(architecture.name) + " model has no window: only " +
                   windowed_architecture_names() + " can have one");
  }
  return asked_for == 0 && architecture.window == Window::kAlways ? kDefaultWindow : asked_for;
}

struct SetValue {
  gguf_context* file;
  const char* key;
  void operator()(std::uint32_t value) const { gguf_set_val_u32(file, key, value); }
  void operator()(float value) const { gguf_set_val_f32(file, key, value); }
  void operator()(bool value) const { gguf_set_val_bool(file, key, value); }
  void operator()(const std::string& value) const { gguf_set_val_str(file, key, value.c_str()); }
  void operator()(const std::vector<std::uint32_t>& values) const {
    gguf_set_arr_data(file, key, GGUF_TYPE_UINT32, values.data(), values.size());
  }
  void operator()(const std::vector<float>& values) const {
    gguf_set_arr_data(file, key, GGUF_TYPE_FLOAT32, values.data(), values.size());
  }
};

void write_metadata(const MakeModelOptions& options, const ModelPlan& plan, gguf_context* file) {
  const std::string size(size_name(options.size));
  const std::string name = "kvkeep random " + options.architecture + (options.projector ? " projector " : " ") + size +
                           " seed " + std::to_string(options.seed) + (options.free_output ? " free output" : "") +
                           (options.rerank ? " rerank" : "") +
                           (options.vocabulary == 0 ? "" : " vocabulary " + std::to_string(options.vocabulary));
  gguf_set_val_str(file, "general.architecture", options.projector ? "clip" : options.architecture.c_str());
  gguf_set_val_str(file, "general.type", options.projector ? "mmproj" : "model");
  gguf_set_val_str(file, "general.name", name.c_str());
  gguf_set_val_str(file, "general.size_label", size.c_str());
  gguf_set_val_u32(file, "general.quantization_version", GGML_QNT_VERSION);
  for (const auto& [key, value] : plan.metadata) std::visit(SetValue{file, key.c_str()}, value);
}

// Fills one row of a tensor at a time; rows do not depend on the type in which they are stored.
class RowSource {
 public:
  RowSource(const TensorPlan& plan, const MakeModelOptions& options, const Vocabulary& vocabulary)
      : plan_(plan), random_(options.seed, plan.name), vocabulary_(options.free_output ? nullptr : &vocabulary) {}

  void fill(std::int64_t row_index, std::span<float> row) {
    if (const auto* constant = std::get_if<Constant>(&plan_.fill)) {
      std::fill(row.begin(), row.end(), constant->value);
    } else if (const auto* spread = std::get_if<Spread>(&plan_.fill)) {
      random_.fill(row, spread->deviation);
    } else if (const auto* between = std::get_if<Between>(&plan_.fill)) {
      random_.fill_between(row, between->lowest, between->highest);
    } else {
      random_.fill(row, std::get<OutputRows>(plan_.fill).deviation);
      const bool silent = vocabulary_ && !vocabulary_->whole_word[static_cast<std::size_t>(row_index)];
      if (silent) std::fill(row.begin(), row.end(), 0.0F);
    }
  }

 private:
  const TensorPlan& plan_;
  Random random_;
  const Vocabulary* vocabulary_;  // null: every output row is random
};

void fill_tensor(ggml_tensor* tensor, RowSource source) {
  std::vector<float> row(static_cast<std::size_t>(tensor->ne[0]));
  auto* out = static_cast<std::byte*>(tensor->data);
  const std::size_t row_bytes = ggml_row_size(tensor->type, tensor->ne[0]);
  for (std::int64_t i = 0; i < ggml_nrows(tensor); ++i, out += row_bytes) {
    source.fill(i, row);
    const std::size_t written = ggml_quantize_chunk(tensor->type, row.data(), out, 0, 1, tensor->ne[0], nullptr);
    KVKEEP_ASSERT(written == row_bytes, "a tensor row of the size its type says");
  }
}

Tensors make_tensors(const ModelPlan& plan) {
  std::size_t bytes = 0;
  for (const TensorPlan& tensor : plan.tensors) {
    std::size_t rows = 1;
    for (std::size_t i = 1; i < tensor.shape.size(); ++i) rows *= static_cast<std::size_t>(tensor.shape[i]);
    bytes += ggml_row_size(tensor.type, tensor.shape[0]) * rows + ggml_tensor_overhead() + GGML_MEM_ALIGN;
  }
  return {ggml_init({.mem_size = bytes, .mem_buffer = nullptr, .no_alloc = false}), ggml_free};
}

}  // namespace

Result<ModelSize> parse_model_size(std::string_view name) {
  for (const ModelSize size : {ModelSize::kTiny, ModelSize::kSmall, ModelSize::kReal}) {
    if (size_name(size) == name) return size;
  }
  return invalid("unknown model size '" + std::string(name) + "': one of tiny, small, real");
}

std::string architecture_names() {
  return names_of([](const Architecture&) { return true; });
}

std::string windowed_architecture_names() {
  return names_of([](const Architecture& architecture) { return architecture.window != Window::kNone; });
}

std::string architectures_by_memory_class() {
  std::string list;
  std::string_view last;
  for (const Architecture& architecture : architectures()) {
    if (architecture.memory_class == last) {
      list += ", ";
    } else {
      list += (list.empty() ? "" : "; ") + std::string(architecture.memory_class) + ": ";
    }
    list += architecture.name;
    last = architecture.memory_class;
  }
  for (const Architecture& architecture : encoders()) {
    list += "; " + std::string(architecture.memory_class) + ": " + std::string(architecture.name);
  }
  return list;
}

bool sees_pictures(std::string_view architecture) { return projector_medium(architecture) == "pictures"; }

std::string_view picture_projector(std::string_view architecture) {
  if (sees_pictures(architecture)) return architecture;
  const Architecture* found = find_architecture(architecture);
  const bool borrows = found != nullptr && (found->memory_class == "recurrent" || found->memory_class == "opaque");
  return borrows ? "gemma3" : "";
}

std::string architectures_by_medium() {
  std::string pictures = "pictures: ";
  std::string sound = "sound: ";
  for (const Architecture& architecture : architectures()) {
    std::string& list = sees_pictures(architecture.name) ? pictures : sound;
    list += (list.ends_with(' ') ? "" : ", ") + std::string(architecture.name);
  }
  return pictures + "; " + sound;
}

namespace {

Status write_file(const MakeModelOptions& options, const ModelPlan& plan, const Vocabulary& vocabulary,
                  gguf_context* file, const std::string& path) {
  const Tensors tensors = make_tensors(plan);
  if (!tensors) return no_space("not enough memory to make a model");
  for (const TensorPlan& tensor_plan : plan.tensors) {
    ggml_tensor* tensor = ggml_new_tensor(tensors.get(), tensor_plan.type, static_cast<int>(tensor_plan.shape.size()),
                                          tensor_plan.shape.data());
    ggml_set_name(tensor, tensor_plan.name.c_str());
    fill_tensor(tensor, RowSource(tensor_plan, options, vocabulary));
    gguf_add_tensor(file, tensor);
  }
  if (!gguf_write_to_file(file, path.c_str(), false)) return io_error("cannot write " + path);
  return {};
}

Status make_projector(const MakeModelOptions& options, const std::string& path) {
  const ModelPlan plan = plan_projector({options.architecture, options.size, 0, 0});
  const File file(gguf_init_empty(), gguf_free);
  write_metadata(options, plan, file.get());
  return write_file(options, plan, shared_vocabulary(), file.get(), path);
}

}  // namespace

Status make_model(const MakeModelOptions& options, const std::string& path) {
  const Architecture* architecture = find_architecture(options.architecture);
  if (!architecture) {
    return invalid("unknown architecture '" + options.architecture + "': one of " + architecture_names());
  }
  const bool embeds = only_embeds(*architecture);
  TRY(check_projector(options, embeds));
  if (options.projector) return make_projector(options, path);
  TRY_ASSIGN(const std::uint32_t window, window_of(*architecture, options.window));
  TRY(check_embedding(options, embeds));
  TRY(check_vocabulary(options, embeds));
  const std::optional<Vocabulary> extended =
      options.vocabulary == 0 ? std::nullopt : std::optional(extended_vocabulary(options.vocabulary));
  const Vocabulary& vocabulary = embeds ? word_piece_vocabulary() : extended ? *extended : shared_vocabulary();
  const ModelPlan plan = architecture->plan(
      {architecture->name, options.size, window, static_cast<std::int64_t>(vocabulary.size()), options.rerank});
  const File file(gguf_init_empty(), gguf_free);
  write_metadata(options, plan, file.get());
  embeds ? write_word_pieces(vocabulary, file.get()) : write_vocabulary(vocabulary, file.get());
  return write_file(options, plan, vocabulary, file.get(), path);
}

}  // namespace kvkeep::gguf
