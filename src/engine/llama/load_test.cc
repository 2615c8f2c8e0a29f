// Loading: each failure gives one clear line, and every option has a visible effect.

#include <gguf.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <fstream>
#include <functional>
#include <sstream>

#include "engine/llama/model_file.h"
#include "testing/models/test_model.h"

namespace kvkeep::engine::llama {
namespace {

using ::testing::TempDir;

std::string read_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream bytes;
  bytes << file.rdbuf();
  return bytes.str();
}

// A file that is deleted with the test.
class TemporaryFile {
 public:
  TemporaryFile(const char* name, std::string_view contents) : path_(TempDir() + name) {
    std::ofstream(path_, std::ios::binary) << contents;
  }
  ~TemporaryFile() { std::remove(path_.c_str()); }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

Error error_of(const ModelOptions& options) {
  auto engine = LlamaEngine::load(options);
  if (engine) return {ErrorKind::kBusy, "loaded"};
  EXPECT_EQ(engine.error().message.find('\n'), std::string::npos);
  return engine.error();
}

Error error_with(const std::function<void(ModelOptions&)>& change) {
  ModelOptions options = tiny_options();
  change(options);
  return error_of(options);
}

void expect_error(const Error& error, ErrorKind kind, std::string_view part) {
  EXPECT_EQ(error.kind, kind) << error.message;
  EXPECT_NE(error.message.find(part), std::string::npos) << error.message;
}

TEST(LoadErrorTest, MissingFile) {
  expect_error(error_with([](ModelOptions& o) { o.path = "/nowhere/model.gguf"; }), ErrorKind::kNotFound,
               "cannot load /nowhere/model.gguf: no such file");
}

TEST(LoadErrorTest, TruncatedFile) {
  const std::string bytes = read_file(tiny_model_path());
  for (const std::size_t size :
       {bytes.size() - 64, bytes.size() / 2, std::size_t{3000}, std::size_t{10}, std::size_t{0}}) {
    const TemporaryFile file("truncated.gguf", std::string_view(bytes).substr(0, size));
    expect_error(error_with([&](ModelOptions& o) { o.path = file.path(); }), ErrorKind::kDamaged, "cannot load");
  }
}

TEST(LoadErrorTest, NotAModel) {
  const TemporaryFile file("text.gguf", "This is a text, and quite a long one, too.");
  expect_error(error_with([&](ModelOptions& o) { o.path = file.path(); }), ErrorKind::kDamaged, "cannot load");
}

TEST(LoadErrorTest, UnknownArchitecture) {
  std::string bytes = read_file(tiny_model_path());
  // general.architecture: key, type string (8), length 5, "llama"
  const std::size_t key = bytes.find("general.architecture");
  ASSERT_NE(key, std::string::npos);
  const std::size_t value = bytes.find("llama", key);
  bytes.replace(value, 5, "nolla");
  const TemporaryFile file("unknown.gguf", bytes);
  expect_error(error_with([&](ModelOptions& o) { o.path = file.path(); }), ErrorKind::kUnsupported,
               "unknown model architecture: 'nolla'");
}

// The position of the value of a key (a whole number or an array): after the key and its type.
std::size_t value_of(const std::string& bytes, const std::string& key) {
  const std::size_t at = bytes.find(key);
  EXPECT_NE(at, std::string::npos) << key;
  return at + key.size() + 4;
}

TEST(LoadErrorTest, FilesForWhichLibllamaWouldEndTheProcess) {
  std::string bytes = read_file(tiny_model_path());
  bytes.replace(value_of(bytes, "llama.block_count"), 4, 4, '\0');
  const TemporaryFile no_layers("no-layers.gguf", bytes);
  expect_error(error_with([&](ModelOptions& o) { o.path = no_layers.path(); }), ErrorKind::kDamaged, "no layers");

  bytes = read_file(tiny_model_path());
  // An array: type and count of its items; each has a length of eight bytes. The first ones are single bytes.
  const std::size_t tokens = value_of(bytes, "tokenizer.ggml.tokens") + 12;
  const auto where = [&](std::size_t wanted) {
    std::size_t at = tokens;
    for (std::size_t id = 0; id < wanted; ++id) at += 8 + static_cast<unsigned char>(bytes[at]);
    return at + 8;
  };
  bytes[where('b')] = bytes[where('a')];
  const TemporaryFile twice("twice.gguf", bytes);
  expect_error(error_with([&](ModelOptions& o) { o.path = twice.path(); }), ErrorKind::kDamaged,
               "its tokens 97 and 98 are spelt alike");
}

// A fault that the checks before loading do not find also ends with one line.
TEST(LoadErrorDeathTest, LibllamasAssertionsAreAnErrorOfTheFile) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  ModelOptions options = tiny_options();
  options.kv_overrides = {{"llama.block_count", std::int64_t{0}}};
  EXPECT_EXIT((void)LlamaEngine::load(options), ::testing::ExitedWithCode(1),
              "^kvkeep: cannot load [^\n]*gguf: the file is damaged, or [^\n]*n_layer[^\n]*\n$");
}

TEST(LoadErrorTest, WrongOptions) {
  using O = ModelOptions;
  const auto expect_invalid = [](const std::function<void(O&)>& change, std::string_view part) {
    expect_error(error_with(change), ErrorKind::kInvalid, part);
  };
  expect_invalid([](O& o) { o.n_ctx = 32; }, "context of 32 tokens is too small");
  expect_invalid([](O& o) { o.type_v = KvType::kQ8_0, o.flash_attention = false; }, "needs flash attention");
  expect_invalid([](O& o) { o.devices = {"CUDA7"}; }, "unknown device 'CUDA7'; this machine has: ");
  expect_invalid([](O& o) { o.tensor_overrides = {{"ffn", "NOWHERE"}}; }, "unknown buffer type 'NOWHERE'");
  expect_invalid([](O& o) { o.kv_overrides = {{std::string(128, 'k'), true}}; }, "metadata override 'kkk");
  expect_invalid([](O& o) { o.kv_overrides = {{"a", std::string(128, 'x')}}; }, "metadata override 'a=str:xxx");
  expect_invalid([](O& o) { o.parallel = 300; }, "sequences are too many");
  expect_invalid([](O& o) { o.n_batch = 0; }, "batch sizes");
}

TEST(LoadErrorTest, ContextThatDoesNotFitIntoMemory) {
  expect_error(error_with([](ModelOptions& o) { o.n_ctx = 4'000'000'000; }), ErrorKind::kNoSpace,
               "a context of 4000000000 tokens needs");
}

TEST(LoadErrorTest, Adapters) {
  const TemporaryFile text("lora.gguf", "not an adapter at all, only text");
  expect_error(error_with([](ModelOptions& o) { o.loras = {{.path = "/nowhere/lora.gguf"}}; }), ErrorKind::kNotFound,
               "/nowhere/lora.gguf");
  expect_error(error_with([&](ModelOptions& o) { o.loras = {{.path = text.path()}}; }), ErrorKind::kInvalid,
               "cannot use the LoRA adapter");
  expect_error(error_with([&](ModelOptions& o) { o.loras = {{.path = tiny_model_path()}}; }), ErrorKind::kInvalid,
               "cannot use the LoRA adapter");
  expect_error(error_with([&](ModelOptions& o) { o.control_vectors = {{.path = text.path()}}; }), ErrorKind::kInvalid,
               "cannot read the control vector");
  expect_error(error_with([&](ModelOptions& o) { o.control_vectors = {{.path = tiny_model_path()}}; }),
               ErrorKind::kInvalid, "contains no control vector");
}

TEST(LoadTest, ProgressIsReportedAndCanStopTheLoad) {
  float last = -1.0F;
  auto loaded = LlamaEngine::load(tiny_options(), [&](float done) { return last = done, true; });
  ASSERT_TRUE(loaded.ok());
  EXPECT_EQ(last, 1.0F);
  auto stopped = LlamaEngine::load(tiny_options(), [](float) { return false; });
  ASSERT_FALSE(stopped.ok());
  EXPECT_EQ(stopped.error().kind, ErrorKind::kAborted);
}

TEST(LoadTest, DescriptionSaysWhatWasLoaded) {
  const auto engine = load_or_die(tiny_options());
  const Description& description = engine->description();
  EXPECT_EQ(description.context_tokens, 1024U);
  EXPECT_EQ(description.batch_tokens, 1024U);  // never more than the context
  EXPECT_EQ(description.model_path, tiny_model_path());
  EXPECT_TRUE(description.summary.starts_with("llama 1M")) << description.summary;
  EXPECT_NE(description.chat_template.find("im_start"), std::string::npos);
  EXPECT_GT(description.parameters, 1'000'000U);
  EXPECT_EQ(engine->memory().sequence_count(), 4U);
  EXPECT_EQ(engine->memory().cells_total(), 1024U);
  EXPECT_EQ(engine->memory().cells_used(), 0U);
  EXPECT_EQ(engine->tokens_decoded(), 0U);
}

TEST(LoadTest, KvTypesDecideTheSizeOfRows) {
  EXPECT_GT(load_or_die(tiny_options(KvType::kF32))->description().row_bytes_per_token,
            load_or_die(tiny_options(KvType::kF16))->description().row_bytes_per_token);
}

// Returns the logits of one prompt under changed options.
std::vector<float> logits_with(const std::function<void(ModelOptions&)>& change) {
  ModelOptions options = tiny_options();
  change(options);
  const auto engine = load_or_die(options);
  const auto prompt = make_prompt(40, 5);
  EXPECT_EQ(prefill(*engine, SeqId{0}, prompt), DecodeStatus::kOk);
  const auto row = engine->logits(39);
  return {row.begin(), row.end()};
}

TEST(LoadTest, PositionOptionsChangeResults) {
  using O = ModelOptions;
  const auto plain = logits_with([](O&) {});
  EXPECT_EQ(logits_with([](O&) {}), plain);
  EXPECT_NE(logits_with([](O& o) { o.rope_frequency_base = 777; }), plain);
  EXPECT_NE(logits_with([](O& o) { o.rope_frequency_scale = 0.25F; }), plain);
  EXPECT_NE(logits_with([](O& o) { o.kv_overrides = {{"llama.rope.freq_base", 1000.0}}; }), plain);
  EXPECT_NE(logits_with([](O& o) {
              o.rope_scaling = RopeScaling::kYarn;
              o.rope_frequency_scale = 0.25F;
              o.yarn_original_context = 64;
            }),
            plain);
}

TEST(LoadTest, TensorOverridesAndLoadModesAreTaken) {
  using O = ModelOptions;
  const auto plain = logits_with([](O&) {});
  EXPECT_EQ(logits_with([](O& o) { o.tensor_overrides = {{"ffn_.*", "CPU"}}; }), plain);
  EXPECT_EQ(logits_with([](O& o) { o.load_mode = LoadMode::kNone; }), plain);
  EXPECT_EQ(logits_with([](O& o) { o.devices = {"CPU"}; }), plain);
  EXPECT_EQ(logits_with([](O& o) { o.devices = {"none"}; }), plain);
  EXPECT_EQ(logits_with([](O& o) { o.check_tensors = true; }), plain);
}

struct GgmlDeleter {
  void operator()(ggml_context* context) const { ggml_free(context); }
};

// A control vector for the tiny model: the same direction in layers 1 and 2.
std::string write_control_vector(const ModelShape& shape, std::int64_t embedding) {
  const std::string path = TempDir() + "control.gguf";
  const std::unique_ptr<ggml_context, GgmlDeleter> tensors(
      ggml_init({.mem_size = 1 << 20, .mem_buffer = nullptr, .no_alloc = false}));
  const GgufHandle file(gguf_init_empty());
  for (std::size_t layer = 1; layer < shape.layer_bytes.size(); ++layer) {
    ggml_tensor* tensor = ggml_new_tensor_1d(tensors.get(), GGML_TYPE_F32, embedding);
    ggml_set_name(tensor, ("direction." + std::to_string(layer)).c_str());
    for (std::int64_t i = 0; i < embedding; ++i) ggml_get_data_f32(tensor)[i] = i % 3 == 0 ? 1.0F : -0.5F;
    gguf_add_tensor(file.get(), tensor);
  }
  EXPECT_TRUE(gguf_write_to_file(file.get(), path.c_str(), false));
  return path;
}

TEST(LoadTest, ControlVectorsChangeResultsAndTheFingerprint) {
  const auto shape = read_model_shape(tiny_model_path());
  ASSERT_TRUE(shape.ok());
  const std::string path = write_control_vector(*shape, 128);
  const auto with = [&](float strength) {
    return [&, strength](ModelOptions& o) { o.control_vectors = {{.path = path, .scale = strength}}; };
  };
  const auto plain = logits_with([](ModelOptions&) {});
  EXPECT_NE(logits_with(with(1.0F)), plain);
  EXPECT_NE(logits_with(with(1.0F)), logits_with(with(2.0F)));
  EXPECT_EQ(logits_with(with(0.0F)), plain);
  std::remove(path.c_str());
}

}  // namespace
}  // namespace kvkeep::engine::llama
