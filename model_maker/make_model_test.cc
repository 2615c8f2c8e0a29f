#include "model_maker/make_model.h"

#include <ggml.h>
#include <gguf.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>

#include "model_maker/architecture.h"

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

TEST_F(MakeModelTest, VocabulariesHaveTheSizeAskedFor) {
  const std::string first = bytes_of({.vocabulary = 6'000});
  EXPECT_GT(first.size(), bytes_of({}).size());
  EXPECT_TRUE(first == bytes_of({.vocabulary = 6'000}));
  EXPECT_EQ(make_model({.vocabulary = 100}, path("a")).error().kind, ErrorKind::kInvalid);
  EXPECT_EQ(make_model({.vocabulary = 300'000}, path("a")).error().kind, ErrorKind::kInvalid);
  EXPECT_EQ(make_model({.architecture = "bert", .vocabulary = 6'000}, path("a")).error().kind, ErrorKind::kInvalid);
}

TEST_F(MakeModelTest, EveryArchitectureIsTinyAndReproducible) {
  for (const Architecture& architecture : architectures()) {
    SCOPED_TRACE(architecture.name);
    const std::string name(architecture.name);
    const std::string first = bytes_of({.architecture = name});
    EXPECT_GT(first.size(), 1'500'000u);
    EXPECT_LT(first.size(), 4'000'000u);
    EXPECT_TRUE(first == bytes_of({.architecture = name}));
    EXPECT_FALSE(first == bytes_of({.architecture = name, .seed = 2}));
    EXPECT_FALSE(first == bytes_of({.architecture = name, .free_output = true}));
  }
}

TEST_F(MakeModelTest, AnEncoderMayHaveAClassifier) {
  const std::string plain = bytes_of({.architecture = "bert"});
  EXPECT_GT(plain.size(), 1'000'000u);
  EXPECT_LT(plain.size(), 4'000'000u);
  EXPECT_TRUE(plain == bytes_of({.architecture = "bert"}));
  EXPECT_FALSE(plain == bytes_of({.architecture = "bert", .seed = 2}));
  EXPECT_GT(bytes_of({.architecture = "bert", .rerank = true}).size(), plain.size());
  const std::string file = path("make_model_test.gguf");
  EXPECT_EQ(make_model({.architecture = "llama", .rerank = true}, file).error().kind, ErrorKind::kInvalid);
  EXPECT_EQ(make_model({.architecture = "bert", .free_output = true}, file).error().kind, ErrorKind::kInvalid);
}

TEST_F(MakeModelTest, ProjectorsAreReproducibleAndFitTheirArchitecture) {
  const std::string picture = bytes_of({.architecture = "gemma3", .projector = true});
  EXPECT_TRUE(picture == bytes_of({.architecture = "gemma3", .projector = true}));
  EXPECT_FALSE(picture == bytes_of({.architecture = "gemma3", .seed = 2, .projector = true}));
  EXPECT_FALSE(picture == bytes_of({.architecture = "qwen35", .projector = true}));
  EXPECT_NE(picture.find("mmproj"), std::string::npos);
  EXPECT_GT(picture.size(), 500'000U);
  EXPECT_LT(bytes_of({.architecture = "mamba", .projector = true}).size(), 6'000'000U);
  EXPECT_GT(bytes_of({.architecture = "gemma3", .size = ModelSize::kSmall, .projector = true}).size(), picture.size());
  EXPECT_EQ(architectures_by_medium().rfind("pictures: qwen3vl, gemma3, qwen35; sound: llama, ", 0), 0U);
}

TEST_F(MakeModelTest, RecurrentAndOpaqueModelsSeeThroughAnotherProjector) {
  for (const char* architecture : {"gemma3", "qwen3vl", "qwen35"})
    EXPECT_EQ(picture_projector(architecture), architecture);
  for (const char* architecture : {"mamba", "mamba2", "deepseek4"})
    EXPECT_EQ(picture_projector(architecture), "gemma3");
  for (const char* architecture : {"", "llama", "jamba", "bert"}) EXPECT_EQ(picture_projector(architecture), "");
}

// libmtmd transposes it while it encodes; ggml ends the process if a matrix is quantized then.
TEST_F(MakeModelTest, TheProjectionOfGemmasPicturesIsNotQuantized) {
  for (const ModelSize size : {ModelSize::kTiny, ModelSize::kSmall}) {
    const std::string file = path("projection.gguf");
    ASSERT_TRUE(make_model({.architecture = "gemma3", .size = size, .projector = true}, file).ok());
    const std::unique_ptr<gguf_context, decltype(&gguf_free)> read(
        gguf_init_from_file(file.c_str(), {.no_alloc = true, .ctx = nullptr}), gguf_free);
    std::filesystem::remove(file);
    const std::int64_t projection = gguf_find_tensor(read.get(), "mm.input_projection.weight");
    ASSERT_GE(projection, 0);
    EXPECT_EQ(gguf_get_tensor_type(read.get(), projection), GGML_TYPE_F32);
  }
}

TEST_F(MakeModelTest, AProjectorTakesNoFlagsOfAModel) {
  const std::string file = path("projector.gguf");
  for (const MakeModelOptions& options : {MakeModelOptions{.architecture = "bert", .projector = true},
                                          {.window = 64, .projector = true},
                                          {.free_output = true, .projector = true},
                                          {.vocabulary = 6'000, .projector = true},
                                          {.rerank = true, .projector = true}}) {
    EXPECT_EQ(make_model(options, file).error().kind, ErrorKind::kInvalid);
  }
  EXPECT_FALSE(std::filesystem::exists(file));
}

TEST_F(MakeModelTest, EveryArchitectureHasASmallSize) {
  for (const Architecture& architecture : architectures()) {
    const std::string bytes = bytes_of({.architecture = std::string(architecture.name), .size = ModelSize::kSmall});
    EXPECT_GT(bytes.size(), 18'000'000u) << architecture.name;
    EXPECT_LT(bytes.size(), 32'000'000u) << architecture.name;
  }
}

TEST_F(MakeModelTest, AWindowIsForThoseThatHaveOne) {
  for (const Architecture& architecture : architectures()) {
    SCOPED_TRACE(architecture.name);
    const std::string name(architecture.name);
    const Status made = make_model({.architecture = name, .window = 64}, path("windowed.gguf"));
    EXPECT_EQ(made.ok(), architecture.window != Window::kNone);
    if (made.ok()) continue;
    EXPECT_EQ(made.error().kind, ErrorKind::kInvalid);
    EXPECT_NE(made.error().message.find("gemma3"), std::string::npos) << made.error().message;
  }
  std::filesystem::remove(path("windowed.gguf"));
  const std::string by_default = bytes_of({.architecture = "gemma3"});
  EXPECT_TRUE(by_default == bytes_of({.architecture = "gemma3", .window = kDefaultWindow}));
  EXPECT_FALSE(by_default == bytes_of({.architecture = "gemma3", .window = 64}));
}

TEST(ArchitectureNamesTest, HelpNamesEachOnceByItsMemoryClass) {
  const std::string list = architectures_by_memory_class();
  EXPECT_NE(list.find("windowed: gemma3; "), std::string::npos) << list;
  EXPECT_NE(list.find("recurrent: mamba, mamba2; "), std::string::npos) << list;
  for (const Architecture& architecture : architectures()) {
    const std::string label = std::string(architecture.memory_class) + ": ";
    EXPECT_EQ(list.find(label), list.rfind(label)) << list;
    EXPECT_NE(architecture_names().find(architecture.name), std::string::npos);
  }
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
