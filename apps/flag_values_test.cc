#include "flag_values.h"

#include <gtest/gtest.h>

namespace kvkeep::cli {
namespace {

TEST(ValueParsers, TokensMayBeCountedInKi) {
  EXPECT_EQ(parse_tokens("32768", 0, 1U << 30).value(), 32768U);
  EXPECT_EQ(parse_tokens("32k", 0, 1U << 30).value(), 32768U);
  EXPECT_EQ(parse_tokens("4K", 0, 1U << 30).value(), 4096U);
  EXPECT_EQ(parse_tokens("1m", 0, 1U << 30).value(), 1U << 20);
  EXPECT_EQ(parse_tokens("0", 0, 1U << 30).value(), 0U);
  for (const char* wrong : {"", "k", "32kk", "-1k", "3.5k", "32 k", "32kb", "4294967295k", "1025m", "x"}) {
    const auto refused = parse_tokens(wrong, 0, 1U << 30);
    ASSERT_FALSE(refused) << wrong;
    EXPECT_NE(refused.error().message.find("' is not a whole number from 0 to 1073741824, which may end in k or m"),
              std::string::npos)
        << wrong;
    const bool is_near = std::string(wrong).starts_with("32k");
    EXPECT_EQ(refused.error().message.ends_with("; did you mean '32k'?"), is_near) << refused.error().message;
    EXPECT_EQ(refused.error().message.find("did you mean") != std::string::npos, is_near) << refused.error().message;
  }
  EXPECT_FALSE(parse_tokens("0k", 1, 10));
}

TEST(ValueParsers, SizesAreMebibytesOrGibibytes) {
  EXPECT_EQ(parse_mebibytes("0", 0).value(), ByteCount{0});
  EXPECT_EQ(parse_mebibytes("300", 1).value(), mebibytes(300));
  for (const char* two : {"2g", "2G"}) EXPECT_EQ(parse_mebibytes(two, 1).value(), mebibytes(2048)) << two;
  for (const char* wrong : {"", "g", "-1", "1.5g", "1gb", "1t", "0", "0g", "99999999999999g"}) {
    const auto refused = parse_mebibytes(wrong, 1);
    ASSERT_FALSE(refused) << wrong;
    EXPECT_TRUE(refused.error().message.ends_with("1g stands for 1024")) << refused.error().message;
  }
}

TEST(ValueParsers, NumbersTakeTheWholeTextAndTheRange) {
  EXPECT_EQ(*parse_number("42", 0, 100), 42);
  for (const char* wrong : {"", "x", "4x", " 4", "101", "-1", "99999999999999999999"}) {
    EXPECT_FALSE(parse_number(wrong, 0, 100)) << wrong;
  }
  EXPECT_FALSE(parse_number("nan", 0.0F, 1.0F));
  EXPECT_FALSE(parse_number("inf", 0.0F, 1.0F));
}

TEST(ValueParsers, ListsHaveNoEmptyItems) {
  EXPECT_EQ(*parse_list("a,b"), (std::vector<std::string>{"a", "b"}));
  for (const char* wrong : {"", ",", "a,", ",a", "a,,b"}) EXPECT_FALSE(parse_list(wrong)) << wrong;
}

TEST(ValueParsers, ScaledFilesSplitAtTheLastColon) {
  const auto files = parse_scaled_files("c:/a.gguf:0.5,b.gguf:-2").value();
  ASSERT_EQ(files.size(), 2);
  EXPECT_EQ(files[0].path, "c:/a.gguf");
  EXPECT_FLOAT_EQ(files[0].scale, 0.5F);
  EXPECT_FLOAT_EQ(files[1].scale, -2.0F);
  for (const char* wrong : {"a.gguf", "a.gguf:", ":1", "a.gguf:x"}) EXPECT_FALSE(parse_scaled_files(wrong)) << wrong;
}

TEST(ValueParsers, MetadataOverridesHaveFourTypes) {
  const auto overrides = parse_metadata_overrides("a.b=int:-3,c=float:0.5,d=bool:true,e=str:x:y").value();
  ASSERT_EQ(overrides.size(), 4);
  EXPECT_EQ(overrides[0].key, "a.b");
  EXPECT_EQ(std::get<std::int64_t>(overrides[0].value), -3);
  EXPECT_EQ(std::get<double>(overrides[1].value), 0.5);
  EXPECT_TRUE(std::get<bool>(overrides[2].value));
  EXPECT_EQ(std::get<std::string>(overrides[3].value), "x:y");
  for (const char* wrong : {"a", "a=1", "=int:1", "a=int:x", "a=bool:1", "a=u8:1"}) {
    EXPECT_FALSE(parse_metadata_overrides(wrong)) << wrong;
  }
  EXPECT_FALSE(parse_metadata_overrides("a=str:" + std::string(128, 'x')));
}

TEST(ValueParsers, TensorOverridesSplitAtTheLastEqualsSign) {
  const auto overrides = parse_tensor_overrides("blk\\.[0-9]=x=CPU,exps=CUDA0").value();
  ASSERT_EQ(overrides.size(), 2);
  EXPECT_EQ(overrides[0].pattern, "blk\\.[0-9]=x");
  EXPECT_EQ(overrides[0].buffer_type, "CPU");
  for (const char* wrong : {"exps", "=CPU", "exps="}) EXPECT_FALSE(parse_tensor_overrides(wrong)) << wrong;
}

TEST(ValueParsers, FlashAttentionTakesLlamaServersWords) {
  for (const char* on : {"on", "enabled", "true", "1"}) EXPECT_EQ(*parse_on_off_auto(on), std::optional(true)) << on;
  for (const char* off : {"off", "disabled", "false", "0"}) {
    EXPECT_EQ(*parse_on_off_auto(off), std::optional(false)) << off;
  }
  for (const char* automatic : {"auto", "-1"}) EXPECT_EQ(*parse_on_off_auto(automatic), std::nullopt);
  for (const char* wrong : {"", "yes", "2", "ON"}) EXPECT_FALSE(parse_on_off_auto(wrong)) << wrong;
}

TEST(ValueParsers, LayersSharesRangesAndTypes) {
  EXPECT_EQ(*parse_gpu_layers("auto"), std::nullopt);
  EXPECT_EQ(*parse_gpu_layers("all"), engine::llama::ModelOptions::kAllLayers);
  EXPECT_EQ(*parse_gpu_layers("12"), 12);
  EXPECT_FALSE(parse_gpu_layers("many"));
  EXPECT_EQ(*parse_shares("3,1"), (std::vector<float>{3, 1}));
  EXPECT_FALSE(parse_shares("0,0"));
  EXPECT_EQ(*parse_layer_range("2,5"), std::pair(2, 5));
  EXPECT_FALSE(parse_layer_range("5,2"));
  EXPECT_EQ(*parse_kv_type("q8_0"), engine::llama::KvType::kQ8_0);
  EXPECT_NE(parse_kv_type("q8_1").error().message.find("did you mean 'q8_0'"), std::string::npos);
}

}  // namespace
}  // namespace kvkeep::cli
