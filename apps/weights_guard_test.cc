// Which files a model is made of, and how often they are read.

#include "weights_guard.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "engine/gguf/model_identity.h"
#include "engine/llama/fingerprint.h"
#include "model_maker/make_model.h"
#include "os/file_stamp.h"
#include "testing/sim/temporary_directory.h"

namespace kvkeep::cli {
namespace {

namespace fs = std::filesystem;

class GuardedFiles : public ::testing::Test {
 protected:
  std::string path(const std::string& name) const { return directory_.path() + "/" + name; }
  std::string model() const {
    if (!fs::exists(path("model.gguf"))) {
      EXPECT_TRUE(gguf::make_model({}, path("model.gguf")).ok());
    }
    return path("model.gguf");
  }
  static void write(const std::string& file, const std::string& text) { std::ofstream(file) << text; }
  // Writes until the system's clock of files has moved on.
  static void flip_last_byte(const std::string& file) {
    const os::FileStamp before = os::stamp_of(file).value();
    std::fstream stream(file, std::ios::in | std::ios::out | std::ios::binary);
    stream.seekg(-1, std::ios::end);
    const char byte = static_cast<char>(stream.get() ^ 1);
    do {
      stream.seekp(-1, std::ios::end);
      stream.put(byte).flush();
    } while (os::stamp_of(file).value() == before);
  }

  const sim::TemporaryDirectory directory_;
};

TEST_F(GuardedFiles, AllPartsOfASplitModelCount) {
  const std::string first = path("m-00001-of-00003.gguf");
  for (const char* name : {"m-00001-of-00003.gguf", "m-00002-of-00003.gguf"}) write(path(name), "four");
  EXPECT_FALSE(see_files(first).ok()) << "the third part is missing";
  write(path("m-00003-of-00003.gguf"), "seven!!");
  const SeenFiles before = see_files(first).value();
  EXPECT_EQ(before.bytes, 15U);
  EXPECT_EQ(see_files(first)->mark, before.mark);
  for (const char* name : {"m-00002-of-00003.gguf", "m-00003-of-00003.gguf"}) {
    const SeenFiles last = see_files(first).value();
    write(path(name), "another length");
    EXPECT_NE(see_files(first)->mark, last.mark) << name;
  }
}

TEST_F(GuardedFiles, AProjectorIsReadOnceAndAgainAfterAChange) {
  const SeenFiles seen = see_files(model()).value();
  const std::string root = directory_.path();
  const ModelHash hash = hash_at_once(seen, root).value();
  flip_last_byte(model());
  EXPECT_EQ(hash_at_once(seen, root).value(), hash) << "the kept one: the file was not read";
  const SeenFiles changed = see_files(model()).value();
  EXPECT_NE(changed.mark, seen.mark);
  const ModelHash other = hash_at_once(changed, root).value();
  EXPECT_NE(other, hash);
  fs::remove(model());
  EXPECT_EQ(hash_at_once(changed, root).value(), other);
  EXPECT_FALSE(hash_at_once(changed, "").ok()) << "without a root nothing is kept";
}

// A file that changes between its stamp and its reading has another hash than its mark says.
TEST_F(GuardedFiles, AHashOfAFileThatChangedIsNotKept) {
  const SeenFiles seen = see_files(model()).value();
  flip_last_byte(model());
  ASSERT_TRUE(hash_at_once(seen, directory_.path()).ok());
  fs::remove(model());
  EXPECT_FALSE(hash_at_once(seen, directory_.path()).ok());
}

TEST_F(GuardedFiles, AFormerFingerprintHasOnlyTheModelOfFormerSamples) {
  const auto identity = [&](gguf::IdentityDepth depth) {
    return gguf::model_identity([](const std::string& name) { return os::real_file_system().open(name); }, model(),
                                depth)
        .value()
        .hex();
  };
  const auto text_with = [](const std::string& hash) { return "llama=b1\nmodel=" + hash + "\nsequences=4\n"; };
  const std::string text = text_with(identity(gguf::IdentityDepth::kSampled));
  const FingerprintHash former = former_fingerprint(model(), text).value();
  EXPECT_EQ(former, engine::llama::fingerprint_hash(text_with(identity(gguf::IdentityDepth::kFormerlySampled))));
  EXPECT_NE(former, engine::llama::fingerprint_hash(text));
}

}  // namespace
}  // namespace kvkeep::cli
