#include "engine/gguf/make_model.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>

namespace kvkeep::gguf {
namespace {

class MakeModelTest : public testing::Test {
 protected:
  std::string path(const char* name) const { return (std::filesystem::path(testing::TempDir()) / name).string(); }

  std::string bytes_of(const MakeModelOptions& options) {
    const std::string file = path("make_model_test.gguf");
    const Status made = make_model(options, file);
    EXPECT_TRUE(made.ok()) << (made ? "" : made.error().message);
    std::ifstream in(file, std::ios::binary);
    std::string bytes((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
    std::filesystem::remove(file);
    return bytes;
  }
};

TEST_F(MakeModelTest, TheSameSeedGivesTheSameBytes) {
  const std::string first = bytes_of({});
  EXPECT_GT(first.size(), 1'500'000u);
  EXPECT_LT(first.size(), 3'500'000u);
  EXPECT_TRUE(first == bytes_of({}));
}

TEST_F(MakeModelTest, SeedAndFreeOutputChangeTheModel) {
  const std::string first = bytes_of({});
  EXPECT_FALSE(first == bytes_of({.seed = 2}));
  EXPECT_FALSE(first == bytes_of({.free_output = true}));
}

TEST_F(MakeModelTest, SmallIsSmall) {
  const std::string bytes = bytes_of({.size = ModelSize::kSmall});
  EXPECT_GT(bytes.size(), 20'000'000u);
  EXPECT_LT(bytes.size(), 32'000'000u);
}

TEST_F(MakeModelTest, RefusesWhatItCannotMake) {
  const Status unknown = make_model({.architecture = "abacus"}, path("unused.gguf"));
  ASSERT_FALSE(unknown.ok());
  EXPECT_EQ(unknown.error().kind, ErrorKind::kInvalid);
  EXPECT_NE(unknown.error().message.find("llama"), std::string::npos);
  EXPECT_FALSE(std::filesystem::exists(path("unused.gguf")));

  const Status nowhere = make_model({}, path("no/such/directory/model.gguf"));
  ASSERT_FALSE(nowhere.ok());
  EXPECT_EQ(nowhere.error().kind, ErrorKind::kIo);
  EXPECT_FALSE(parse_model_size("huge").ok());
  EXPECT_EQ(*parse_model_size("real"), ModelSize::kReal);
}

}  // namespace
}  // namespace kvkeep::gguf
