#include "testing/models/test_model.h"

#include <ggml.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <map>

#include "base/assert.h"
#include "engine/llama/model_file.h"
#include "model_maker/make_model.h"
#include "os/process.h"

namespace kvkeep::engine::llama {
namespace {

std::string make_file(const gguf::MakeModelOptions& options, const std::string& name) {
  const char* directory = std::getenv("TMPDIR");
  const std::string path = std::string(directory != nullptr ? directory : "/tmp") + "/kvkeep-test-" +
                           std::to_string(os::process_id()) + "-" + name + ".gguf";
  const Status made = gguf::make_model(options, path);
  KVKEEP_ASSERT(made.ok(), "the test model can be written");
  return path;
}

// Removed at exit, so that test runs leave no files.
struct TemporaryModel {
  TemporaryModel(const gguf::MakeModelOptions& options, const std::string& name) : path(make_file(options, name)) {}
  ~TemporaryModel() { std::remove(path.c_str()); }
  TemporaryModel(const TemporaryModel&) = delete;
  TemporaryModel& operator=(const TemporaryModel&) = delete;
  std::string path;
};

std::vector<std::byte> cut_to(std::vector<std::byte> bytes, const Result<std::size_t>& written) {
  KVKEEP_ASSERT(written.ok(), "state that exists is saved");
  bytes.resize(*written);
  return bytes;
}

}  // namespace

const std::string& tiny_model_path() {
  static const TemporaryModel model({}, "tiny");
  return model.path;
}

const std::string& small_model_path() {
  static const TemporaryModel model({.size = gguf::ModelSize::kSmall}, "small");
  return model.path;
}

const std::string& tiny_model_path(const std::string& architecture, std::uint32_t window) {
  static std::map<std::string, TemporaryModel> models;
  const std::string name = architecture + "-" + std::to_string(window);
  const gguf::MakeModelOptions options{.architecture = architecture, .window = window};
  return models.try_emplace(name, options, name).first->second.path;
}

const std::string& tiny_projector_path(const std::string& architecture, std::uint64_t seed) {
  static std::map<std::string, TemporaryModel> projectors;
  const std::string name = architecture + "-projector-" + std::to_string(seed);
  const gguf::MakeModelOptions options{.architecture = architecture, .seed = seed, .projector = true};
  return projectors.try_emplace(name, options, name).first->second.path;
}

void make_longrope_model(const std::string& path, std::uint32_t original_context_tokens) {
  ggml_context* tensors = nullptr;
  const GgufHandle tiny(gguf_init_from_file(tiny_model_path().c_str(), {.no_alloc = false, .ctx = &tensors}));
  const GgufHandle file(gguf_init_empty());
  gguf_set_kv(file.get(), tiny.get());
  gguf_set_val_str(file.get(), "llama.rope.scaling.type", "longrope");
  if (original_context_tokens != 0) {
    gguf_set_val_u32(file.get(), "llama.rope.scaling.original_context_length", original_context_tokens);
  }
  for (std::int64_t i = 0; i < gguf_get_n_tensors(tiny.get()); ++i) {
    gguf_add_tensor(file.get(), ggml_get_tensor(tensors, gguf_get_tensor_name(tiny.get(), i)));
  }
  const auto head_size = gguf_number(*tiny, "llama.rope.dimension_count");
  KVKEEP_ASSERT(head_size.has_value(), "the tiny model says how many dimensions turn");
  ggml_context* factors = ggml_init({.mem_size = 1 << 16, .mem_buffer = nullptr, .no_alloc = false});
  for (const bool is_long : {false, true}) {
    ggml_tensor* tensor = ggml_new_tensor_1d(factors, GGML_TYPE_F32, static_cast<std::int64_t>(*head_size / 2));
    ggml_set_name(tensor, is_long ? "rope_factors_long.weight" : "rope_factors_short.weight");
    for (std::int64_t i = 0; i < tensor->ne[0]; ++i) {
      static_cast<float*>(tensor->data)[i] = is_long ? 4.0F + static_cast<float>(i) / 2 : 1.0F;
    }
    gguf_add_tensor(file.get(), tensor);
  }
  KVKEEP_ASSERT(gguf_write_to_file(file.get(), path.c_str(), false), "the test model can be written");
  ggml_free(factors);
  ggml_free(tensors);
}

ModelOptions tiny_options(KvType kv_type) {
  ModelOptions options;
  options.path = tiny_model_path();
  options.n_ctx = 1024;
  options.parallel = 2;
  options.idle_sequences = 2;
  options.type_k = kv_type;
  options.type_v = kv_type;
  options.threads = 1;
  options.warmup = false;
  return options;
}

std::unique_ptr<LlamaEngine> load_or_die(const ModelOptions& options) {
  auto engine = LlamaEngine::load(options);
  if (!engine) {
    std::fprintf(stderr, "%s\n", engine.error().message.c_str());
    std::abort();
  }
  return std::move(engine).value();
}

std::vector<TokenId> make_prompt(std::size_t count, std::uint32_t seed) {
  std::vector<TokenId> tokens(count);
  std::uint32_t state = seed * 2654435761U + 12345U;
  for (TokenId& token : tokens) {
    state = state * 1664525U + 1013904223U;
    token = static_cast<TokenId>(300 + (state >> 16) % 3000);
  }
  return tokens;
}

DecodeStatus prefill(LlamaEngine& engine, SeqId seq, TokenSpan tokens, std::size_t batch_size) {
  for (std::size_t done = 0; done < tokens.size(); done += batch_size) {
    const TokenSpan part = tokens.subspan(done, std::min(batch_size, tokens.size() - done));
    std::vector<BatchToken> batch;
    for (std::size_t i = 0; i < part.size(); ++i) {
      batch.push_back({seq, part[i], engine.memory().length(seq) + i, done + i + 1 == tokens.size()});
    }
    if (const DecodeStatus status = engine.decode(batch); status != DecodeStatus::kOk) return status;
  }
  return DecodeStatus::kOk;
}

std::size_t last_index(std::size_t tokens, std::size_t batch_size) { return (tokens - 1) % batch_size; }

std::vector<TokenId> generate_greedily(LlamaEngine& engine, SeqId seq, std::size_t index, std::size_t count) {
  SamplingParams greedy;
  greedy.temperature = 0.0F;
  auto sampler = engine.make_sampler(greedy);
  KVKEEP_ASSERT(sampler.ok(), "greedy sampling has no parameters to be wrong");
  std::vector<TokenId> text;
  while (text.size() < count) {
    text.push_back(engine.sample(**sampler, index));
    const BatchToken next{seq, text.back(), engine.memory().length(seq), true};
    KVKEEP_ASSERT(engine.decode(std::span(&next, 1)) == DecodeStatus::kOk, "one more token fits");
    index = 0;
  }
  return text;
}

std::vector<std::byte> save(LlamaEngine& engine, SeqId seq, TokenRange range) {
  std::vector<std::byte> bytes(engine.memory().rows_bytes(range.size()));
  const auto written = engine.memory().save_rows(seq, range, bytes);
  return cut_to(std::move(bytes), written);
}

std::vector<std::byte> save_window(LlamaEngine& engine, SeqId seq, TokenRange range) {
  std::vector<std::byte> bytes(engine.memory().window_bytes(range.size()));
  const auto written = engine.memory().save_window(seq, range, bytes);
  return cut_to(std::move(bytes), written);
}

std::vector<std::byte> save_point(LlamaEngine& engine, SeqId seq) {
  std::vector<std::byte> bytes(engine.memory().point_bytes(seq));
  const auto written = engine.memory().save_point(seq, bytes);
  return cut_to(std::move(bytes), written);
}

}  // namespace kvkeep::engine::llama
