// Damaged pictures and sounds through libmtmd: each is refused with a reason, or read within bounds.
// KVKEEP_TEST_SEED repeats a run; KVKEEP_MUTATED_FILES says how many files are tried.

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <algorithm>
#include <cstdlib>
#include <iostream>
#include <random>

#include "base/test_seed.h"
#include "engine/llama/weights.h"
#include "engine/media/media_files_fixture.h"
#include "engine/media/projector.h"
#include "testing/models/test_model.h"

namespace kvkeep::engine::media {
namespace {

#ifdef KVKEEP_MTMD

using File = std::vector<std::byte>;

std::vector<File> whole_files() {
  FileWriter tagged;
  tagged.text("ID3\x04");
  tagged.big(0x00100000, 4);  // a tag of no bytes, with a foot that is not there
  tagged.big(0, 2);
  tagged.add(make_mp3(30));
  const File index = make_mp3_index("Info", 200'000);  // of 330 MB of samples
  FileWriter counted;
  counted.add(make_mp3_index("Xing", 30));
  counted.add(make_mp3(30));
  FileWriter counted_twice;
  counted_twice.add(make_mp3_index("Xing", 5));
  counted_twice.add(index);
  counted_twice.add(make_mp3(30));
  return {make_png(64, 48),
          make_jpeg(64, 48),
          make_jpeg(64, 48, 4),
          make_gif(64, 48, 3),
          make_bmp(64, 48),
          webp_file(true),
          webp_file(false),
          make_wav(20'000),
          make_wav(20'000, 44'100),
          make_float_wav(std::vector<float>(20'000, 0.5F)),
          make_flac(make_wav(20'000)),
          make_mp3(40),
          index,
          counted.take(),
          counted_twice.take(),
          tagged.take()};
}

// Makes one to six changes, more of them in the first bytes, where heads are.
class Mutator {
 public:
  explicit Mutator(std::uint64_t seed) : random_(seed) {}

  File next() {
    File file = files_[below(files_.size())];
    for (std::size_t left = 1 + below(6); left > 0 && !file.empty(); --left) change(file);
    return file;
  }

 private:
  std::size_t below(std::size_t limit) { return std::uniform_int_distribution<std::size_t>(0, limit - 1)(random_); }

  void change(File& file) {
    const std::size_t at = below(below(3) == 0 ? file.size() : std::min<std::size_t>(file.size(), 64));
    const std::size_t end = at + below(std::min<std::size_t>(file.size() - at, 64) + 1);
    const auto place = file.begin() + static_cast<std::ptrdiff_t>(at);
    switch (below(7)) {
      case 0: file[at] ^= static_cast<std::byte>(1U << below(8)); break;
      case 1: file[at] = static_cast<std::byte>(below(256)); break;
      case 2:
        std::fill_n(place, std::min<std::size_t>(4, file.size() - at), static_cast<std::byte>(below(2) * 255));
        break;
      case 3: file.resize(below(file.size())); break;
      case 4: file.erase(place, file.begin() + static_cast<std::ptrdiff_t>(end)); break;
      case 5: splice(file, at); break;
      default: begin_with_another(file);
    }
  }
  void splice(File& file, std::size_t at) {
    const File& other = files_[below(files_.size())];
    const std::size_t begin = below(other.size());
    const std::size_t count = std::min<std::size_t>(other.size() - begin, below(512));
    const auto from = other.begin() + static_cast<std::ptrdiff_t>(begin);
    file.insert(file.begin() + static_cast<std::ptrdiff_t>(at), from, from + static_cast<std::ptrdiff_t>(count));
  }
  void begin_with_another(File& file) {
    const File& other = files_[below(files_.size())];
    file.insert(file.begin(), other.begin(), other.end());
  }

  std::mt19937_64 random_;
  const std::vector<File> files_ = whole_files();
};

std::uint64_t most_memory_kib() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<std::uint64_t>(usage.ru_maxrss);
}

// AddressSanitizer keeps for a while what was freed, which is more than the bound.
#if defined(__SANITIZE_ADDRESS__)  // of g++
constexpr bool kMemoryIsGivenBack = false;
#elif defined(__has_feature)
constexpr bool kMemoryIsGivenBack = !__has_feature(address_sanitizer);
#else
constexpr bool kMemoryIsGivenBack = true;
#endif

int count_of_files() {
  const char* given = std::getenv("KVKEEP_MUTATED_FILES");
  return given != nullptr ? std::atoi(given) : 300;
}

std::unique_ptr<Projector> load(const std::string& architecture) {
  llama::ModelOptions options = llama::tiny_options();
  options.path = llama::tiny_model_path(architecture);
  const auto weights = llama::load_weights(options, {});
  auto loaded = load_projector(
      {.path = llama::tiny_projector_path(architecture), .threads = 1, .use_gpu = false, .warmup = false},
      weights->model);
  EXPECT_TRUE(loaded.ok()) << (loaded ? "" : loaded.error().message);
  return loaded ? std::move(loaded).value() : nullptr;
}

TEST(MutatedFiles, AreRefusedOrReadWithinBounds) {
  const int files = count_of_files();
  constexpr int kEncoded = 20;  // one of so many is not only decoded
  constexpr std::uint64_t kMostKib = 256 << 10;
  const auto eye = load("qwen3vl");
  const auto ear = load("llama");
  ASSERT_TRUE(eye && ear);
  ASSERT_TRUE(ear->encode(make_wav(16'000), 0, {}).ok());
  ASSERT_TRUE(eye->encode(make_png(64, 48), 0, {}).ok());
  const std::uint64_t before = most_memory_kib();
  Mutator mutator(test_seed());
  int read = 0;
  for (int i = 0; i < files; ++i) {
    const File file = mutator.next();
    Projector& projector = begins_like_sound(file) ? *ear : *eye;
    const auto parts = projector.plan(file);
    if (!parts) {
      EXPECT_FALSE(parts.error().message.empty());
      continue;
    }
    ++read;
    const bool whole = read % kEncoded == 0;
    const auto chunks = projector.encode(file, 0, [&](double) { return whole; });
    if (chunks) continue;
    EXPECT_NE(chunks.error().message, "it has more samples than were counted") << "file " << i;
    EXPECT_NE(chunks.error().message, "it has other parts than its head says") << "file " << i;
  }
  EXPECT_GT(read, files / 20);
  EXPECT_TRUE(!kMemoryIsGivenBack || most_memory_kib() - before < kMostKib);
  std::cout << read << " of " << files << " files were read, in " << (most_memory_kib() - before) / 1'024 << " MiB\n";
}

#endif

}  // namespace
}  // namespace kvkeep::engine::media
