#include "model_settings.h"

#include <gtest/gtest.h>

namespace kvkeep::cli {
namespace {

constexpr std::string_view kFingerprint =
    "devices=CPU\nflash_attention=on\nggml=0.27.0\nllama=0.7.0\nmodel=00ff\nsalt=\n";

TEST(ModelSettings, NothingSaidIsTheDefault) {
  EXPECT_EQ(settings_text({}, kFingerprint), "default");
  EXPECT_EQ(computed_by_text(kFingerprint), "CPU, libllama 0.7.0, ggml 0.27.0");
}

TEST(ModelSettings, AreFlagsAsTheyAreTyped) {
  engine::llama::ModelOptions options;
  options.type_k = options.type_v = engine::llama::KvType::kQ8_0;
  options.repack = false;
  options.rope_frequency_base = 10000;
  options.kv_overrides = {{"llama.rope.freq_base", 9.0}};
  options.loras = {{"/home/u/private/a.gguf", 1.0F}, {"b.gguf", 0.5F}};
  options.salt = "a secret";
  const std::string text = settings_text(options, kFingerprint);
  EXPECT_EQ(text,
            "-ctk q8_0 -ctv q8_0 --no-repack --rope-freq-base 10000 --override-kv llama.rope.freq_base=float:9 "
            "--lora a.gguf --lora-scaled b.gguf 0.5 --cache-salt-file");
}

// Flash attention may be left to the engine, and states of some models can only be read with the same --parallel.
TEST(ModelSettings, TellWhatWasDecidedAtLoad) {
  EXPECT_EQ(settings_text({}, "flash_attention=off\nsequences=4\n"), "-fa off -np 4");
  EXPECT_EQ(settings_text({}, "rope_factors=long\n"), "-c (long RoPE factors)");
  EXPECT_EQ(settings_text({}, "x=flash_attention=off"), "default");
}

}  // namespace
}  // namespace kvkeep::cli
