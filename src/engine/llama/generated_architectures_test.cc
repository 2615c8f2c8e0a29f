// Assumptions of the tests of memory classes: generated models of every architecture load and run past their windows,
// their text depends on the whole context, and a wrong state of their memory changes the next logits.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <set>

#include "engine/llama/library.h"
#include "model_maker/architecture.h"
#include "model_maker/vocabulary.h"
#include "testing/models/test_model.h"

namespace kvkeep::engine::llama {
namespace {

constexpr std::uint32_t kWindow = 64;
constexpr std::size_t kEnvelope = 8;  // bytes of a state without content
using Logits = std::vector<float>;

// Distance of two vectors as a share of the first one's length.
double difference(const Logits& left, const Logits& right) {
  double distance = 0;
  double length = 0;
  for (std::size_t i = 0; i < left.size(); ++i) {
    distance += std::pow(left[i] - right[i], 2);
    length += std::pow(left[i], 2);
  }
  return std::sqrt(distance / length);
}

bool all_finite(const Logits& logits) {
  return std::ranges::all_of(logits, [](float logit) { return std::isfinite(logit); });
}

TokenId likeliest(const Logits& logits) {
  return static_cast<TokenId>(std::ranges::max_element(logits) - logits.begin());
}

// A tiny model of one architecture in a context of its own: bare calls of the library, without the engine.
class BareModel {
 public:
  explicit BareModel(const gguf::MakeModelOptions& options) {
    start_library();
    path_ = ::testing::TempDir() + "generated-" + options.architecture + ".gguf";
    const Status made = gguf::make_model(options, path_);
    EXPECT_TRUE(made.ok());
    model_ = ModelHandle(llama_model_load_from_file(path_.c_str(), llama_model_default_params()), ModelDeleter{});
    if (!model_) return;
    llama_context_params params = llama_context_default_params();
    params.n_ctx = 2048;
    params.n_batch = params.n_ubatch = 256;
    params.n_seq_max = 2;
    params.kv_unified = true;
    params.swa_full = false;
    params.n_threads = params.n_threads_batch = 1;
    params.flash_attn_type = LLAMA_FLASH_ATTN_TYPE_ENABLED;
    // With these, logits do not depend on where rows lie in the memory.
    params.type_k = params.type_v = GGML_TYPE_Q8_0;
    context_.reset(llama_init_from_model(model_.get(), params));
  }
  ~BareModel() { std::remove(path_.c_str()); }

  bool loaded() const { return context_ != nullptr; }
  const llama_model& model() const { return *model_; }

  // Empties the memory and decodes `tokens`; returns the last one's logits.
  Logits start(const std::vector<TokenId>& tokens) {
    llama_memory_clear(llama_get_memory(context_.get()), true);
    return append(tokens);
  }
  Logits append(std::vector<TokenId> tokens) {
    for (std::size_t done = 0; done < tokens.size(); done += 256) {
      const auto count = static_cast<std::int32_t>(std::min<std::size_t>(256, tokens.size() - done));
      EXPECT_EQ(llama_decode(context_.get(), llama_batch_get_one(tokens.data() + done, count)), 0);
    }
    const float* logits = llama_get_logits_ith(context_.get(), -1);
    return {logits, logits + llama_vocab_n_tokens(llama_model_get_vocab(model_.get()))};
  }

  std::size_t state_bytes(bool partial) { return llama_state_seq_get_size_ext(context_.get(), 0, flags(partial)); }
  // Returns the state other than rows of full attention.
  std::vector<std::uint8_t> save_partial() {
    std::vector<std::uint8_t> state(state_bytes(true));
    EXPECT_EQ(llama_state_seq_get_data_ext(context_.get(), state.data(), state.size(), 0, flags(true)), state.size());
    return state;
  }
  void restore_partial(const std::vector<std::uint8_t>& state) {
    EXPECT_EQ(llama_state_seq_set_data_ext(context_.get(), state.data(), state.size(), 0, flags(true)), state.size());
  }

 private:
  static llama_state_seq_flags flags(bool partial) { return partial ? LLAMA_STATE_SEQ_FLAGS_PARTIAL_ONLY : 0; }

  std::string path_;
  ModelHandle model_;
  ContextHandle context_;
};

std::string architecture_name(const ::testing::TestParamInfo<gguf::Architecture>& parameter) {
  std::string name(parameter.param.name);
  std::erase(name, '-');
  return name;
}

class GeneratedArchitectureTest : public ::testing::TestWithParam<gguf::Architecture> {
 protected:
  GeneratedArchitectureTest() : model_(options()) {}
  void SetUp() override { ASSERT_TRUE(model_.loaded()); }

  static gguf::MakeModelOptions options() {
    const bool windowed = GetParam().window == gguf::Window::kAlways;
    return {.architecture = std::string(GetParam().name), .window = windowed ? kWindow : 0};
  }
  std::string_view memory_class() const { return GetParam().memory_class; }

  BareModel model_;
};

TEST_P(GeneratedArchitectureTest, RunsPastItsWindowWithFiniteLogits) {
  Logits logits = model_.start(make_prompt(960, 1));
  for (std::size_t i = 0; i < 2 * kWindow; ++i) {
    ASSERT_TRUE(all_finite(logits)) << "after " << 960 + i << " tokens";
    logits = model_.append({likeliest(logits)});
  }
}

TEST_P(GeneratedArchitectureTest, AnEarlyTokenShows) {
  for (std::uint32_t seed = 1; seed <= 3; ++seed) {
    std::vector<TokenId> prompt = make_prompt(600, seed);
    const Logits before = model_.start(prompt);
    EXPECT_LT(difference(before, model_.start(prompt)), 1e-6);
    prompt[100] = prompt[100] == 1000 ? 1001 : 1000;
    EXPECT_GT(difference(before, model_.start(prompt)), 0.01) << "seed " << seed;
  }
}

TEST_P(GeneratedArchitectureTest, TextDoesNotRunInCircles) {
  Logits logits = model_.start(make_prompt(100, 1));
  std::set<std::pair<TokenId, TokenId>> pairs;
  TokenId last = likeliest(logits);
  for (std::size_t i = 1; i < 300; ++i) {
    const TokenId next = likeliest(model_.append({last}));
    pairs.emplace(last, next);
    last = next;
  }
  EXPECT_GT(pairs.size(), 250U);
}

TEST_P(GeneratedArchitectureTest, StatesAreThoseOfItsMemoryClass) {
  model_.start(make_prompt(500, 1));
  const std::size_t earlier = model_.state_bytes(true);
  model_.append(make_prompt(500, 2));
  const std::size_t partial = model_.state_bytes(true);
  const std::size_t full = model_.state_bytes(false);
  EXPECT_EQ(partial, earlier) << "what is not rows of full attention does not grow";
  EXPECT_EQ(partial == kEnvelope, memory_class() == "sliceable");
  EXPECT_EQ(partial == full, memory_class() == "recurrent");
  EXPECT_EQ(llama_model_is_recurrent(&model_.model()), memory_class() == "recurrent");
  EXPECT_TRUE(llama_model_is_hybrid(&model_.model()) || memory_class() != "hybrid");
  EXPECT_TRUE(llama_model_n_swa(&model_.model()) == kWindow || memory_class() != "windowed");
}

INSTANTIATE_TEST_SUITE_P(All, GeneratedArchitectureTest, ::testing::ValuesIn(gguf::architectures()), architecture_name);

// Models whose memory is more than rows of full attention.
class GeneratedStateTest : public GeneratedArchitectureTest {};

TEST_P(GeneratedStateTest, AWrongStateShows) {
  const std::vector<TokenId> prompt = make_prompt(600, 1);
  model_.start(make_prompt(600, 2));
  const std::vector<std::uint8_t> wrong = model_.save_partial();
  model_.start(prompt);
  const std::vector<std::uint8_t> right = model_.save_partial();
  const Logits undisturbed = model_.append({1000});

  model_.start(prompt);
  model_.restore_partial(right);
  EXPECT_LT(difference(undisturbed, model_.append({1000})), 1e-6);
  model_.start(prompt);
  model_.restore_partial(wrong);
  EXPECT_GT(difference(undisturbed, model_.append({1000})), 0.05);
}

std::vector<gguf::Architecture> with_states() {
  std::vector<gguf::Architecture> found;
  std::ranges::copy_if(gguf::architectures(), std::back_inserter(found),
                       [](const gguf::Architecture& each) { return each.memory_class != "sliceable"; });
  return found;
}
INSTANTIATE_TEST_SUITE_P(All, GeneratedStateTest, ::testing::ValuesIn(with_states()), architecture_name);

// A window is optional for some models: their attention then has one, in addition to the recurrent state.
TEST(GeneratedWindowTest, AHybridModelCanHaveOne) {
  BareModel without({.architecture = "lfm2"});
  BareModel with({.architecture = "lfm2", .window = kWindow});
  ASSERT_TRUE(without.loaded() && with.loaded());
  without.start(make_prompt(500, 1));
  EXPECT_TRUE(all_finite(with.start(make_prompt(500, 1))));
  EXPECT_GT(with.state_bytes(true), 5 * without.state_bytes(true));
  EXPECT_EQ(llama_model_n_swa(&with.model()), kWindow);
}

class FreeOutputTest : public ::testing::TestWithParam<gguf::Architecture> {};

TEST_P(FreeOutputTest, TextHasTokensOfAllKinds) {
  BareModel model({.architecture = std::string(GetParam().name), .free_output = true});
  ASSERT_TRUE(model.loaded());
  Logits logits = model.start(make_prompt(100, 1));
  std::set<TokenId> tokens;
  for (std::size_t i = 0; i < 200; ++i) {
    tokens.insert(likeliest(logits));
    logits = model.append({likeliest(logits)});
  }
  EXPECT_GT(tokens.size(), 100U);
  const auto is_word = [](TokenId id) { return gguf::shared_vocabulary().whole_word[static_cast<std::size_t>(id)]; };
  EXPECT_LT(std::ranges::count_if(tokens, is_word), static_cast<std::ptrdiff_t>(tokens.size() / 2));
}

INSTANTIATE_TEST_SUITE_P(All, FreeOutputTest, ::testing::ValuesIn(gguf::architectures()), architecture_name);

}  // namespace
}  // namespace kvkeep::engine::llama
