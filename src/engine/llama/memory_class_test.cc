// Which architectures pass the class test. Metadata is enough: the trial makes its own weights.
//
// This program itself answers the hidden command of class tests, so that trials run in a child process as in the
// server: some of them end it.

#include "engine/llama/memory_class.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <memory>
#include <variant>

#include "engine/llama/clone_trial.h"
#include "engine/llama/model_file.h"
#include "os/child_process.h"
#include "testing/models/test_model.h"
#include "testing/sim/temporary_directory.h"

namespace kvkeep::engine::llama {
namespace {

using Value = std::variant<std::uint32_t, float, std::string, bool, std::vector<std::uint32_t>>;
using Metadata = std::map<std::string, Value>;

Metadata attention_only(std::uint32_t heads_kv) {
  return {{"context_length", 32768U},
          {"embedding_length", 1024U},
          {"block_count", 4U},
          {"feed_forward_length", 2048U},
          {"attention.head_count", 16U},
          {"attention.head_count_kv", heads_kv},
          {"rope.freq_base", 1e6F},
          {"attention.layer_norm_rms_epsilon", 1e-6F},
          {"attention.layer_norm_epsilon", 1e-6F}};
}

Metadata with(Metadata base, const Metadata& more) {
  for (const auto& [key, value] : more) base[key] = value;
  return base;
}

// A GGUF file with metadata only.
class MetadataFile {
 public:
  MetadataFile(const std::string& architecture, const Metadata& metadata)
      : path_(::testing::TempDir() + "class-" + architecture + ".gguf") {
    const GgufHandle file(gguf_init_empty());
    gguf_set_val_str(file.get(), "general.architecture", architecture.c_str());
    for (const auto& [key, value] : metadata) put(*file, architecture + "." + key, value);
    EXPECT_TRUE(gguf_write_to_file(file.get(), path_.c_str(), true));
  }
  ~MetadataFile() { std::remove(path_.c_str()); }
  const std::string& path() const { return path_; }
  static void put(gguf_context& file, const std::string& key, const Value& value) {
    if (const auto* number = std::get_if<std::uint32_t>(&value)) gguf_set_val_u32(&file, key.c_str(), *number);
    if (const auto* real = std::get_if<float>(&value)) gguf_set_val_f32(&file, key.c_str(), *real);
    if (const auto* text = std::get_if<std::string>(&value)) gguf_set_val_str(&file, key.c_str(), text->c_str());
    if (const auto* flag = std::get_if<bool>(&value)) gguf_set_val_bool(&file, key.c_str(), *flag);
    if (const auto* list = std::get_if<std::vector<std::uint32_t>>(&value)) {
      gguf_set_arr_data(&file, key.c_str(), GGUF_TYPE_UINT32, list->data(), list->size());
    }
  }

 private:
  std::string path_;
};

// Returns exit code and output of the trial in a child of this program.
os::ChildResult try_in_child(const std::string& path, KvType kv_type, CloneShape shape, TrialKind kind) {
  ModelOptions options;
  options.path = path;
  options.type_k = options.type_v = kv_type;
  os::ChildOptions child;
  child.arguments = trial_arguments(options, shape, kind);
  child.arguments.insert(child.arguments.begin(), kClassTestCommand);
  child.hide_errors = true;
  const auto result = os::run_child(child);
  EXPECT_TRUE(result.ok());
  return result ? *result : os::ChildResult{.exit_code = 99, .output = {}};
}

struct Case {
  const char* architecture;
  Metadata metadata;
  CloneShape shape;
  KvType kv_type;
  const char* found;  // the reported class, or part of the line that names the failure
  TrialKind kind = TrialKind::kParts;
};
void PrintTo(const Case& tried, std::ostream* out) { *out << tried.architecture; }

Metadata experts() { return {{"expert_count", 64U}, {"expert_used_count", 8U}, {"expert_feed_forward_length", 256U}}; }

Metadata latent_attention() {
  return {{"attention.key_length", 576U},       {"attention.value_length", 512U},  {"attention.key_length_mla", 192U},
          {"attention.value_length_mla", 128U}, {"attention.kv_lora_rank", 512U},  {"attention.q_lora_rank", 768U},
          {"rope.dimension_count", 64U},        {"leading_dense_block_count", 1U}, {"expert_shared_count", 1U},
          {"expert_weights_scale", 1.0F}};
}

Metadata recurrent() {
  return {{"context_length", 32768U},  {"embedding_length", 512U}, {"block_count", 4U},
          {"ssm.conv_kernel", 4U},     {"ssm.inner_size", 1024U},  {"ssm.state_size", 64U},
          {"ssm.time_step_rank", 16U}, {"ssm.group_count", 1U},    {"attention.layer_norm_rms_epsilon", 1e-6F}};
}

std::vector<Case> cases() {
  const Metadata window{{"attention.sliding_window", 64U}, {"block_count", 6U}};  // one layer of six has full attention
  const Metadata all_windowed{{"attention.sliding_window", 64U}};
  const Metadata mrope{{"rope.dimension_sections", std::vector<std::uint32_t>{16, 8, 8, 0}}};
  constexpr auto kNarrow = CloneShape::kNarrow;
  constexpr auto kMatched = CloneShape::kMatched;
  constexpr auto kWhole = TrialKind::kWhole;
  constexpr auto kF16 = KvType::kF16;
  constexpr auto kQ8_0 = KvType::kQ8_0;
  return {
      {"llama", attention_only(4), kNarrow, kF16, "sliceable"},
      {"llama", attention_only(4), kMatched, kQ8_0, "sliceable"},
      {"llama", attention_only(4), kMatched, kF16, "opaque", kWhole},
      {"qwen3moe", with(attention_only(4), experts()), kNarrow, kQ8_0, "sliceable"},
      {"phi2", attention_only(16), kMatched, kF16, "sliceable"},
      {"phi2", attention_only(16), kNarrow, kF16, "GGML_ASSERT"},  // its embeddings must match its heads
      {"qwen2vl", with(attention_only(4), mrope), kMatched, kF16, "sliceable"},
      {"deepseek2", with(attention_only(1), with(experts(), latent_attention())), kNarrow, kF16, "sliceable"},
      {"gemma3", with(attention_only(4), window), kNarrow, kF16, "windowed"},
      {"gemma3", with(attention_only(4), window), kNarrow, kQ8_0, "windowed"},
      {"gemma3", with(attention_only(4), all_windowed), kNarrow, kF16, "windowed"},
      {"gemma3", with(attention_only(4), window), kNarrow, kQ8_0, "opaque", kWhole},
      {"mamba2", recurrent(), kNarrow, kF16, "recurrent"},
      {"mamba2", recurrent(), kMatched, kF16, "recurrent"},
      {"nothing-known", attention_only(4), kNarrow, kF16, "unknown model architecture"},
  };
}

class CloneTrialTest : public ::testing::TestWithParam<Case> {};

TEST_P(CloneTrialTest, FindsOutWhatTheMemoryCanDo) {
  const Case& tried = GetParam();
  const MetadataFile file(tried.architecture, tried.metadata);
  const os::ChildResult child = try_in_child(file.path(), tried.kv_type, tried.shape, tried.kind);
  EXPECT_NE(child.output.find(tried.found), std::string::npos) << child.output;
  const TrialOutcome outcome = read_trial_report(child.output);
  const bool has_class = outcome.finding.memory_class != MemoryClass::kUncached;
  EXPECT_EQ(has_class, to_string(outcome.finding.memory_class) == std::string_view(tried.found));
}

INSTANTIATE_TEST_SUITE_P(Architectures, CloneTrialTest, ::testing::ValuesIn(cases()));

// The verdict of a whole load, with its trial in a child.
ClassVerdict verdict_on(const std::string& path, const std::string& program) {
  start_library();
  const ModelHandle model(llama_model_load_from_file(path.c_str(), llama_model_default_params()), ModelDeleter{});
  EXPECT_TRUE(model);
  ModelOptions options;
  options.path = path;
  options.class_test_program = program;
  return find_memory_class(*model, options);
}

struct Generated {
  const char* architecture;
  std::uint32_t window;
  MemoryClass memory_class;
};
void PrintTo(const Generated& model, std::ostream* out) { *out << model.architecture << " " << model.window; }

class GeneratedClassTest : public ::testing::TestWithParam<Generated> {};

TEST_P(GeneratedClassTest, IsFoundInAChild) {
  const Generated& model = GetParam();
  const ClassVerdict verdict = verdict_on(tiny_model_path(model.architecture, model.window), "/proc/self/exe");
  EXPECT_EQ(verdict.finding.memory_class, model.memory_class) << verdict.reason;
  EXPECT_TRUE(verdict.tried);
}

INSTANTIATE_TEST_SUITE_P(
    Architectures, GeneratedClassTest,
    ::testing::Values(Generated{"llama", 0, MemoryClass::kSliceable}, Generated{"qwen3vl", 0, MemoryClass::kSliceable},
                      Generated{"gemma3", 0, MemoryClass::kWindowed}, Generated{"gemma3", 24, MemoryClass::kWindowed},
                      Generated{"qwen35", 0, MemoryClass::kHybrid}, Generated{"falcon-h1", 0, MemoryClass::kHybrid},
                      Generated{"jamba", 0, MemoryClass::kHybrid}, Generated{"lfm2", 0, MemoryClass::kHybrid},
                      Generated{"lfm2", 64, MemoryClass::kHybrid}, Generated{"mamba", 0, MemoryClass::kRecurrent},
                      Generated{"mamba2", 0, MemoryClass::kRecurrent},
                      Generated{"deepseek4", 0, MemoryClass::kOpaque}));

// Without a clone nothing was tried; the loader then tries whole states in the model's own context.
TEST(MemoryClassTest, AChildThatFailsLeavesWholeStates) {
  const ClassVerdict exits = verdict_on(tiny_model_path(), "/bin/false");
  EXPECT_EQ(exits.finding.memory_class, MemoryClass::kOpaque);
  EXPECT_FALSE(exits.tried);
  EXPECT_NE(exits.reason.find("exit code 1"), std::string::npos) << exits.reason;
  const ClassVerdict missing = verdict_on(tiny_model_path(), "/nowhere/program");
  EXPECT_FALSE(missing.tried);
}

TEST(MemoryClassTest, WrongArgumentsFail) {
  EXPECT_EQ(class_test_main({}), 2) << "that says nothing of the memory";
  EXPECT_NE(class_test_main({"/nowhere/model.gguf", "f16", "f16", "auto", "narrow", "parts", "pool"}), 0);
}

// A stand-in for the program of trials counts its runs, and reports what it is told to.
class KeptTrialsTest : public ::testing::Test {
 protected:
  class Memo : public KeptTrials {
   public:
    std::optional<std::string> find(const std::string& name) override {
      const auto found = kept.find(name);
      return found == kept.end() ? std::nullopt : std::optional(found->second);
    }
    void keep(const std::string& name, const std::string& text) override { kept[name] = text; }
    std::map<std::string, std::string> kept;
  };

  ClassVerdict verdict(const std::string& model, const std::string& report, int exit_code) {
    std::ofstream(program()) << "#!/bin/sh\necho run >> " << runs_path() << "\nprintf '" << report << "'\nexit "
                             << exit_code << "\n";
    std::filesystem::permissions(program(), std::filesystem::perms::owner_all);
    start_library();
    const ModelHandle loaded(llama_model_load_from_file(model.c_str(), llama_model_default_params()), ModelDeleter{});
    ModelOptions options;
    options.path = model;
    options.own_cells = true;
    options.class_test_program = program();
    options.kept_trials = memo_;
    return find_memory_class(*loaded, options);
  }
  std::size_t runs() const {
    std::ifstream file(runs_path());
    return static_cast<std::size_t>(std::count(std::istreambuf_iterator<char>(file), {}, '\n'));
  }
  std::string program() const { return directory_.path() + "/program"; }
  std::string runs_path() const { return directory_.path() + "/runs"; }

  const sim::TemporaryDirectory directory_;
  const std::shared_ptr<Memo> memo_ = std::make_shared<Memo>();
};

TEST_F(KeptTrialsTest, ASecondStartTriesNothingAndAnotherFileIsTried) {
  const std::string copy = directory_.path() + "/copy.gguf";
  std::filesystem::copy_file(tiny_model_path(), copy);
  for (int start = 0; start < 2; ++start) {
    const ClassVerdict found = verdict(tiny_model_path(), "cloned\\nsliceable\\nown cells\\n", 0);
    EXPECT_EQ(found.finding.memory_class, MemoryClass::kSliceable);
    EXPECT_TRUE(found.finding.own_cells);
    EXPECT_EQ(found.no_own_cells, "");
    EXPECT_EQ(runs(), 1U) << start;
  }
  (void)verdict(copy, "cloned\\nsliceable\\nown cells\\n", 0);
  EXPECT_EQ(runs(), 2U);
}

TEST_F(KeptTrialsTest, OnlyAnAnswerIsKept) {
  const std::string refuted = "cloned\\nsliceable\\nstate of this kind cannot be divided\\n";
  for (const int exit_code : {2, 3, 1}) {
    const ClassVerdict found = verdict(tiny_model_path(), refuted, exit_code);
    EXPECT_EQ(found.finding.memory_class, MemoryClass::kSliceable);
    EXPECT_EQ(found.no_own_cells, "state of this kind cannot be divided");
    EXPECT_EQ(memo_->kept.empty(), exit_code != 1) << exit_code;
  }
  EXPECT_EQ(verdict(tiny_model_path(), "", 0).no_own_cells, "state of this kind cannot be divided");
  EXPECT_EQ(runs(), 3U);
}

TEST(MemoryClassTest, AReportSaysWhatWasProvenBeforeTheEnd) {
  EXPECT_FALSE(read_trial_report("").cloned);
  const TrialOutcome ended = read_trial_report("cloned\nopaque\ncells per sequence\nGGML_ASSERT(false) failed\n");
  EXPECT_TRUE(ended.cloned);
  EXPECT_EQ(ended.finding.memory_class, MemoryClass::kOpaque);
  EXPECT_TRUE(ended.finding.cells_per_sequence);
  EXPECT_FALSE(ended.finding.copies_whole);
  EXPECT_TRUE(read_trial_report("opaque\ncopies whole sequences").finding.copies_whole);
}

}  // namespace
}  // namespace kvkeep::engine::llama

int main(int argc, char** argv) {
  using namespace kvkeep::engine::llama;
  if (argc > 1 && std::string(argv[1]) == kClassTestCommand) return class_test_main({argv + 2, argv + argc});
  ::testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
