#include "engine/gguf/model_identity.h"

#include <gguf.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "model_maker/make_model.h"

namespace kvkeep::gguf {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

class ModelIdentityTest : public testing::Test {
 protected:
  void SetUp() override {
    directory_ = fs::path(testing::TempDir()) / "model_identity_test";
    fs::remove_all(directory_);
    fs::create_directories(directory_);
    ASSERT_TRUE(make_model({}, path("model.gguf")).ok());
  }
  void TearDown() override { fs::remove_all(directory_); }

  std::string path(const std::string& name) const { return (directory_ / name).string(); }

  static Result<ModelHash> identity(const std::string& file, IdentityDepth depth = IdentityDepth::kSampled) {
    return model_identity([](const std::string& name) { return os::real_file_system().open(name); }, file, depth);
  }

  static void flip(const std::string& file, std::uint64_t offset) {
    std::fstream stream(file, std::ios::in | std::ios::out | std::ios::binary);
    stream.seekg(static_cast<std::streamoff>(offset));
    const char byte = static_cast<char>(stream.get() ^ 1);
    stream.seekp(static_cast<std::streamoff>(offset));
    stream.put(byte);
  }

  // Offset in the file of the first byte of tensor `name`, and its size.
  std::pair<std::uint64_t, std::uint64_t> extent(const char* name) const {
    gguf_context* header = gguf_init_from_file(path("model.gguf").c_str(), {.no_alloc = true, .ctx = nullptr});
    const std::int64_t index = gguf_find_tensor(header, name);
    const std::pair<std::uint64_t, std::uint64_t> found{
        gguf_get_data_offset(header) + gguf_get_tensor_offset(header, index), gguf_get_tensor_size(header, index)};
    gguf_free(header);
    return found;
  }

  fs::path directory_;
};

TEST_F(ModelIdentityTest, NameAndTimeDoNotMatter) {
  fs::copy_file(path("model.gguf"), path("copy.gguf"));
  fs::last_write_time(path("copy.gguf"), fs::file_time_type::clock::now() - std::chrono::hours(48));
  EXPECT_EQ(*identity(path("model.gguf")), *identity(path("copy.gguf")));
  EXPECT_NE(*identity(path("model.gguf")), *identity(path("model.gguf"), IdentityDepth::kFull));
}

TEST_F(ModelIdentityTest, AnySampledByteMatters) {
  const ModelHash before = *identity(path("model.gguf"));
  const auto [weights, size] = extent("token_embd.weight");
  const auto [norm, norm_size] = extent("output_norm.weight");
  const auto name_at = [&] {  // a byte inside the value of general.name
    std::ifstream in(path("model.gguf"), std::ios::binary);
    const std::string head(std::istreambuf_iterator<char>(in), {});
    return head.find("kvkeep random");
  }();
  for (const std::uint64_t offset : {std::uint64_t{name_at}, weights, weights + 4095, weights + size / 2,
                                     weights + size - 4096, weights + size - 1, norm + norm_size / 3}) {
    flip(path("model.gguf"), offset);
    EXPECT_NE(*identity(path("model.gguf")), before) << "offset " << offset;
    flip(path("model.gguf"), offset);
  }
  EXPECT_EQ(*identity(path("model.gguf")), before);
}

// Of every row of the small model's embedding one byte.
TEST_F(ModelIdentityTest, AnyRowOfASmallTensorMatters) {
  constexpr std::uint64_t kRowBytes = 136;
  const ModelHash before = *identity(path("model.gguf"));
  const ModelHash former = *identity(path("model.gguf"), IdentityDepth::kFormerlySampled);
  const auto [weights, size] = extent("token_embd.weight");
  ASSERT_LE(size, 1U << 20);
  std::size_t formerly_unseen = 0;
  for (std::uint64_t row = 0; row < size / kRowBytes; row += 97) {
    const std::uint64_t offset = weights + row * kRowBytes + row % kRowBytes;
    flip(path("model.gguf"), offset);
    EXPECT_NE(*identity(path("model.gguf")), before) << "row " << row;
    formerly_unseen += *identity(path("model.gguf"), IdentityDepth::kFormerlySampled) == former ? 1 : 0;
    flip(path("model.gguf"), offset);
  }
  EXPECT_GT(formerly_unseen, 0u);
}

TEST_F(ModelIdentityTest, FullDepthSeesBytesBetweenSamples) {
  ASSERT_TRUE(make_model({.vocabulary = 60'000}, path("large.gguf")).ok());
  fs::rename(path("large.gguf"), path("model.gguf"));
  const auto [weights, size] = extent("token_embd.weight");
  ASSERT_GT(size, 4U << 20);
  const ModelHash sampled = *identity(path("model.gguf"));
  const ModelHash full = *identity(path("model.gguf"), IdentityDepth::kFull);
  flip(path("model.gguf"), weights + size / 15 * 3 / 2);
  EXPECT_EQ(*identity(path("model.gguf")), sampled);
  EXPECT_NE(*identity(path("model.gguf"), IdentityDepth::kFull), full);
}

TEST_F(ModelIdentityTest, AReadingCanBeEnded) {
  std::size_t mebibytes = 0;
  const auto open = [](const std::string& name) { return os::real_file_system().open(name); };
  const auto stopped = model_identity(open, path("model.gguf"), IdentityDepth::kFull, [&]() -> Status {
    return ++mebibytes == 2 ? Status(aborted("enough")) : Status();
  });
  EXPECT_EQ(stopped.error().kind, ErrorKind::kAborted);
  EXPECT_EQ(mebibytes, 2u);
}

TEST_F(ModelIdentityTest, AllPartsOfASplitModelCount) {
  const std::string first = path("m-00001-of-00002.gguf");
  const std::string second = path("m-00002-of-00002.gguf");
  fs::copy_file(path("model.gguf"), first);
  EXPECT_EQ(identity(first).error().kind, ErrorKind::kNotFound);
  fs::copy_file(path("model.gguf"), second);
  const ModelHash before = *identity(first);
  EXPECT_NE(before, *identity(path("model.gguf")));
  flip(second, extent("output.weight").first);
  EXPECT_NE(*identity(first), before);
  const Result<ModelHash> later = identity(second);
  ASSERT_FALSE(later.ok());
  EXPECT_EQ(later.error().kind, ErrorKind::kInvalid);
  EXPECT_THAT(later.error().message, HasSubstr("m-00001-of-00002.gguf"));
}

TEST_F(ModelIdentityTest, OnlyNamesOfPartsAreSplit) {
  for (const char* name : {"model.gguf", "a-00001-of-0002.gguf", "a-00003-of-00002.gguf", "a-00000-of-00002.gguf",
                           "a-0000x-of-00002.gguf", "-00001-of-00002.gguf"}) {
    const Result<std::vector<std::string>> paths = split_paths(name);
    ASSERT_TRUE(paths.ok()) << name;
    EXPECT_EQ(*paths, std::vector<std::string>{name});
  }
}

TEST_F(ModelIdentityTest, TruncationIsSeenAtEveryLength) {
  const std::uint64_t size = fs::file_size(path("model.gguf"));
  for (const std::uint64_t kept : {std::uint64_t{20}, std::uint64_t{5000}, size / 2, size - 4096}) {
    fs::copy_file(path("model.gguf"), path("short.gguf"), fs::copy_options::overwrite_existing);
    fs::resize_file(path("short.gguf"), kept);
    const Result<ModelHash> result = identity(path("short.gguf"));
    ASSERT_FALSE(result.ok()) << kept;
    EXPECT_EQ(result.error().kind, ErrorKind::kDamaged);
    EXPECT_THAT(result.error().message, HasSubstr("truncated"));
    EXPECT_EQ(result.error().message.find('\n'), std::string::npos);
  }
}

TEST_F(ModelIdentityTest, SaysWhatIsWrong) {
  EXPECT_EQ(identity(path("missing.gguf")).error().kind, ErrorKind::kNotFound);
  std::ofstream(path("text.gguf")) << "hello, this is not a model";
  EXPECT_THAT(identity(path("text.gguf")).error().message, HasSubstr("not a GGUF file"));
  std::ofstream(path("empty.gguf")).flush();
  EXPECT_THAT(identity(path("empty.gguf")).error().message, HasSubstr("not a GGUF file"));
}

TEST_F(ModelIdentityTest, FilesAreNamedByEveryByte) {
  const OpenFile open = [](const std::string& name) { return os::real_file_system().open(name); };
  std::ofstream(path("adapter")) << std::string(3'000'000, 'a');
  const ModelHash before = *file_identity(open, path("adapter"));
  flip(path("adapter"), 1'500'000);
  EXPECT_NE(*file_identity(open, path("adapter")), before);
}

}  // namespace
}  // namespace kvkeep::gguf
