// Real libmtmd with generated projectors.

#include "engine/media/projector.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <ctime>
#include <fstream>
#include <functional>
#include <limits>
#include <map>
#include <set>
#include <string>

#include "engine/llama/weights.h"
#include "engine/media/media_files_fixture.h"
#include "testing/models/test_model.h"

namespace kvkeep::engine::media {
namespace {

#ifndef KVKEEP_MTMD

TEST(Projector, IsRefusedWithTheReasonWhereLibmtmdIsMissing) {
  const auto refused = load_projector({}, nullptr);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().kind, ErrorKind::kUnsupported);
  EXPECT_EQ(refused.error().message, "this kvkeep was built without libmtmd: it knows no pictures and sound");
}

#else

// A text model and its projector, made for one test.
class Pair {
 public:
  explicit Pair(const std::string& architecture, std::uint64_t seed = 1)
      : path_(llama::tiny_projector_path(architecture, seed)) {
    llama::ModelOptions options = llama::tiny_options();
    options.path = llama::tiny_model_path(architecture);
    weights_ = llama::load_weights(options, {}).value();
  }

  ProjectorOptions options() const { return {.path = path_, .threads = 1, .use_gpu = false, .warmup = false}; }
  Result<std::unique_ptr<Projector> > load(const ProjectorOptions& options) const {
    return load_projector(options, weights_.model);
  }
  std::unique_ptr<Projector> load() const { return load(options()).value(); }

 private:
  std::string path_;
  llama::Weights weights_;
};

std::vector<float> embeddings_of(Projector& projector, ByteSpan file) {
  const auto chunks = projector.encode(file, 0, {});
  EXPECT_TRUE(chunks.ok()) << (chunks.ok() ? "" : chunks.error().message);
  std::vector<float> all;
  for (const EncodedChunk& chunk : *chunks) all.insert(all.end(), chunk.embeddings.begin(), chunk.embeddings.end());
  return all;
}

// Returns how many of the embeddings of `width` numbers differ.
std::size_t count_changed(const std::vector<float>& left, const std::vector<float>& right, std::size_t count) {
  EXPECT_EQ(left.size(), right.size());
  std::size_t changed = 0;
  for (std::size_t i = 0; i < count; ++i) {
    const std::size_t width = left.size() / count;
    changed += std::equal(left.begin() + i * width, left.begin() + (i + 1) * width, right.begin() + i * width) ? 0 : 1;
  }
  return changed;
}

struct Eye {
  std::string architecture;
  ChunkShape shape;  // of a picture of 96 x 64 pixels
  bool at_once = false;
};

class EyeTest : public ::testing::TestWithParam<Eye> {
 protected:
  Pair pair_{GetParam().architecture};
  std::unique_ptr<Projector> projector_ = pair_.load();
};

TEST_P(EyeTest, AWebpIsSeenAsTheSamePixelsInAnotherFormat) {
  if (!check_webp_support()) {
    EXPECT_EQ(projector_->plan(webp_file(true)).error().kind, ErrorKind::kUnsupported);
    return;
  }
  EXPECT_EQ(embeddings_of(*projector_, webp_file(true)), embeddings_of(*projector_, make_bmp(64, 48, webp_colours())));
  const auto file = webp_file(true);
  std::vector<std::byte> half(file.begin(), file.begin() + 40);
  EXPECT_EQ(projector_->plan(half).error().kind, ErrorKind::kDamaged);
  half[4] = std::byte{40 - 8};
  ASSERT_TRUE(projector_->plan(half).ok()) << "its head is whole";
  EXPECT_FALSE(projector_->encode(half, 0, {}).ok());
}

TEST_P(EyeTest, TheHeadTellsTheParts) {
  const ProjectorDescription& description = projector_->description();
  EXPECT_TRUE(description.pictures);
  EXPECT_FALSE(description.sound);
  EXPECT_EQ(description.device, "CPU");
  EXPECT_EQ(description.tokens_at_once, GetParam().at_once ? 16U : 0U);
  const auto parts = projector_->plan(make_png(96, 64));
  ASSERT_TRUE(parts.ok()) << parts.error().message;
  ASSERT_EQ(parts->size(), 3U);
  EXPECT_EQ((*parts)[0].tokens.size(), 1U) << "the marker before a picture is one token";
  EXPECT_EQ((*parts)[2].tokens.size(), 1U);
  EXPECT_EQ((*parts)[1].shape, GetParam().shape);
  const std::vector<TokenId> ids = prompt_ids(*parts, {});
  const auto runs = media_runs(ids);
  ASSERT_TRUE(runs.ok() && runs->size() == 1);
  EXPECT_EQ(runs->front().shape, GetParam().shape);
}

// The model would end the process over a picture that does not fit into one micro-batch.
TEST_P(EyeTest, APictureOfMoreTokensAtOnceIsRefused) {
  ProjectorOptions options = pair_.options();
  const std::uint32_t count = GetParam().shape.embeddings;
  options.most_at_once = count;
  EXPECT_TRUE(pair_.load(options).value()->plan(make_png(96, 64)).ok());
  options.most_at_once = count - 1;
  const auto refused = pair_.load(options).value()->plan(make_png(96, 64));
  EXPECT_EQ(refused.ok(), !GetParam().at_once) << "only a model that looks at all of it at once cannot take it";
  if (refused) return;
  EXPECT_EQ(refused.error().kind, ErrorKind::kNoSpace);
  const std::string& message = refused.error().message;
  EXPECT_NE(message.find("--ubatch-size " + std::to_string(count)), std::string::npos) << message;
}

TEST_P(EyeTest, EachPixelChangesEachEmbedding) {
  std::vector<std::uint8_t> pixels = make_pixels(96, 64);
  const std::vector<float> before = embeddings_of(*projector_, make_bmp(96, 64, pixels));
  const std::size_t count = GetParam().shape.embeddings;
  EXPECT_EQ(before, embeddings_of(*projector_, make_bmp(96, 64, pixels))) << "the same bytes, the same embeddings";
  EXPECT_EQ(before, embeddings_of(*projector_, make_png(96, 64))) << "another format, the same pixels";
  for (const std::size_t at : {std::size_t{0}, pixels.size() / 2, pixels.size() - 1}) {
    pixels[at] ^= 16;  // pictures are scaled in whole numbers: a change by 1 may be rounded away
    EXPECT_EQ(count_changed(before, embeddings_of(*projector_, make_bmp(96, 64, pixels)), count), count) << at;
    pixels[at] ^= 16;
  }
  double square = 0;
  for (const float value : before) square += value * value;
  EXPECT_NEAR(std::sqrt(square / static_cast<double>(before.size())), 1, 0.3) << "as long as tokens' embeddings";
}

TEST_P(EyeTest, AnotherSeedIsAnotherProjector) {
  const Pair other(GetParam().architecture, 2);
  const auto loaded = other.load();
  EXPECT_NE(loaded->description().identity, projector_->description().identity);
  EXPECT_NE(embeddings_of(*loaded, make_png(96, 64)), embeddings_of(*projector_, make_png(96, 64)));
  EXPECT_EQ(pair_.load()->description().identity, projector_->description().identity);
}

TEST_P(EyeTest, PlacesLieInThePlane) {
  const auto chunks = projector_->encode(make_png(96, 64), 0, {});
  ASSERT_TRUE(chunks.ok() && chunks->size() == 1);
  const EncodedChunk& chunk = chunks->front();
  EXPECT_EQ(chunk.shape, GetParam().shape);
  EXPECT_EQ(chunk.at_once, GetParam().at_once);
  EXPECT_EQ(chunk.places.size(), chunk.shape.plane ? chunk.shape.embeddings : 0);
  std::set<std::pair<std::uint32_t, std::uint32_t> > seen;
  for (const PlanePlace& place : chunk.places) {
    EXPECT_LT(std::max({place.time, place.row, place.column}), chunk.shape.positions);
    EXPECT_TRUE(seen.emplace(place.row, place.column).second);
  }
}

TEST_P(EyeTest, CanBeStoppedAndSaysHowFarItIs) {
  std::vector<double> seen;
  const auto watch = [&](double share) {
    seen.push_back(share);
    return true;
  };
  ASSERT_TRUE(projector_->encode(make_png(96, 64), 0, watch).ok());
  seen.clear();
  ASSERT_TRUE(projector_->encode(make_png(96, 64), 0, watch).ok());
  EXPECT_TRUE(std::ranges::is_sorted(seen));
  EXPECT_GT(seen.size(), 4U);
  EXPECT_GE(seen.front(), 0.0);
  EXPECT_LE(seen.back(), 1.0);
  std::size_t calls = 0;
  const auto stopped = projector_->encode(make_png(96, 64), 0, [&](double) { return ++calls < 3; });
  ASSERT_FALSE(stopped.ok());
  EXPECT_EQ(stopped.error().kind, ErrorKind::kAborted);
  EXPECT_EQ(calls, 3U) << "nothing is reported after that";
  EXPECT_TRUE(projector_->encode(make_png(96, 64), 0, {}).ok()) << "the next one is not stopped";
}

TEST_P(EyeTest, ReadsEveryFormatAndEverySize) {
  for (const auto& [width, height] : {std::pair{1U, 1U}, {700U, 3U}, {33U, 65U}, {640U, 480U}}) {
    for (const std::vector<std::byte>& file :
         {make_png(width, height), make_jpeg(width, height), make_gif(width, height), make_bmp(width, height)}) {
      const auto parts = projector_->plan(file);
      ASSERT_TRUE(parts.ok()) << width << " x " << height << ": " << parts.error().message;
      const auto chunks = projector_->encode(file, 0, {});
      ASSERT_TRUE(chunks.ok()) << width << " x " << height << ": " << chunks.error().message;
      ASSERT_EQ(chunks->size(), 1U);
      EXPECT_EQ(chunks->front().shape, (*parts)[1].shape);
    }
  }
}

TEST_P(EyeTest, RefusesWhatItCannotRead) {
  EXPECT_EQ(projector_->plan(make_wav(100)).error().kind, ErrorKind::kUnsupported);
  std::vector<std::byte> truncated = make_png(96, 64);
  truncated.resize(truncated.size() / 2);
  EXPECT_EQ(projector_->plan(truncated).error().kind, ErrorKind::kDamaged);
  const std::vector<std::byte> rows(32 * (1 + 96 * 3));
  const std::vector<std::byte> half_png = make_png(96, 64, stored(rows));
  std::vector<std::byte> half_gif = make_gif(96, 64);
  half_gif[13 + 6 + 7] = std::byte{128};  // its frame has twice the rows
  for (const auto& half : {half_png, half_gif}) {
    EXPECT_TRUE(projector_->plan(half).ok()) << "its head is whole";
    EXPECT_EQ(projector_->encode(half, 0, {}).error().kind, ErrorKind::kDamaged);
  }
  const std::vector<std::byte> bomb(3'000'000);
  EXPECT_EQ(projector_->encode(make_png(1, 1, stored(bomb)), 0, {}).error().kind, ErrorKind::kDamaged);
}

INSTANTIATE_TEST_SUITE_P(Families, EyeTest,
                         ::testing::Values(Eye{"gemma3", {16, 16, false}, true}, Eye{"qwen3vl", {12, 4, true}, false},
                                           Eye{"qwen35", {12, 4, true}, false}),
                         [](const auto& parameter) { return parameter.param.architecture; });

TEST(EarTest, EachSampleChangesEachEmbedding) {
  const Pair pair("llama");
  const auto projector = pair.load();
  EXPECT_TRUE(projector->description().sound);
  EXPECT_FALSE(projector->description().pictures);
  EXPECT_EQ(projector->description().samples_per_second, 16'000U);
  const auto parts = projector->plan(make_wav(16'000));
  ASSERT_TRUE(parts.ok()) << parts.error().message;
  ASSERT_EQ(parts->size(), 1U);
  EXPECT_EQ(parts->front().shape, (ChunkShape{30, 30, false, true}));
  const std::vector<float> before = embeddings_of(*projector, make_wav(16'000));
  EXPECT_EQ(before, embeddings_of(*projector, make_wav(16'000)));
  EXPECT_EQ(count_changed(before, embeddings_of(*projector, make_wav(16'000, 16'000, 1)), 30), 30U);
  EXPECT_EQ(projector->plan(make_png(8, 8)).error().kind, ErrorKind::kUnsupported);
}

TEST(EarTest, AFlacIsHeardAsTheSameSamplesInAWav) {
  const Pair pair("llama");
  const auto projector = pair.load();
  const std::vector<std::byte> wav = make_wav(24'000);
  const std::vector<std::byte> flac = make_flac(wav);
  EXPECT_EQ(projector->plan(flac).value(), projector->plan(wav).value());
  EXPECT_EQ(embeddings_of(*projector, flac), embeddings_of(*projector, wav));
  EXPECT_NE(embeddings_of(*projector, flac), embeddings_of(*projector, make_wav(24'000, 16'000, 1)));
}

TEST(EarTest, LongSoundsAreSeveralChunks) {
  const Pair pair("llama");
  const auto projector = pair.load();
  const std::vector<std::byte> file = make_wav(31 * 16'000);
  const auto parts = projector->plan(file);
  ASSERT_TRUE(parts.ok()) << parts.error().message;
  ASSERT_EQ(parts->size(), 2U);
  const auto ids = prompt_ids(*parts, {});
  const auto runs = media_runs(ids);
  ASSERT_TRUE(runs.ok());
  EXPECT_EQ(runs->size(), 2U) << "neighbouring chunks are told apart";
  std::vector<double> seen;
  const auto chunks = projector->encode(file, 0, [&](double share) {
    seen.push_back(share);
    return true;
  });
  ASSERT_TRUE(chunks.ok());
  EXPECT_EQ(chunks->size(), 2U);
  EXPECT_TRUE(std::ranges::is_sorted(seen));
  std::vector<double> seen_of_second;
  const auto second = projector->encode(file, 1, [&](double share) {
    seen_of_second.push_back(share);
    return true;
  });
  ASSERT_TRUE(second.ok());
  ASSERT_EQ(second->size(), 2U);
  EXPECT_TRUE(second->at(0).embeddings.empty()) << "nobody asked for the first one";
  EXPECT_EQ(second->at(1).embeddings, chunks->at(1).embeddings);
  EXPECT_EQ(seen_of_second.front(), 0) << "shares are of what is encoded";
  EXPECT_EQ(seen_of_second.back(), 1);
  for (const std::vector<std::byte>& other : {make_mp3(20), make_wav(8'000, 44'100)}) {
    const auto encoded = projector->encode(other, 0, {});
    EXPECT_TRUE(encoded.ok()) << encoded.error().message;
  }
  EXPECT_FALSE(projector->encode(make_flac_head(16'000, 8'000, 100), 0, {}).ok()) << "a head without sound";
}

// libmtmd ends the process over one sample, and over parts of less than a window.
TEST(EarTest, ShortSoundsAreFilledUpWithSilence) {
  const Pair pair("llama");
  const auto projector = pair.load();
  const std::vector<MediaPart> second = projector->plan(make_wav(16'000)).value();
  for (const std::uint32_t rate : {16'000U, 44'100U, 768'000U}) {
    for (const std::uint32_t samples : {1U, 2U, 100U, 201U}) {
      const std::vector<std::byte> file = make_wav(samples, rate);
      const auto parts = projector->plan(file);
      if (!parts && rate != 16'000) {
        EXPECT_EQ(parts.error().kind, ErrorKind::kDamaged) << "so few are none at the encoder's rate";
        continue;
      }
      ASSERT_TRUE(parts.ok()) << samples << " at " << rate << ": " << parts.error().message;
      EXPECT_EQ(*parts, second) << samples << " at " << rate;
      const auto chunks = projector->encode(file, 0, {});
      ASSERT_TRUE(chunks.ok()) << samples << " at " << rate << ": " << chunks.error().message;
    }
  }
  for (const std::uint32_t samples : {480'000U, 480'001U}) {
    const std::vector<std::byte> file = make_wav(samples);
    const auto parts = projector->plan(file);
    const auto chunks = projector->encode(file, 0, {});
    ASSERT_TRUE(parts.ok() && chunks.ok()) << samples;
    EXPECT_EQ(chunks->size(), parts->size()) << samples;
  }
}

TEST(EarTest, SamplesThatAreNoNumbersAreRefusedBeforeTheyAreEncoded) {
  const Pair pair("llama");
  const auto projector = pair.load();
  for (const float bad : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity(), 3e38F}) {
    std::vector<float> samples(16'000, 0.25F);
    samples[9'000] = bad;
    const std::vector<std::byte> file = make_float_wav(samples);
    EXPECT_EQ(projector->plan(file).error().kind, ErrorKind::kDamaged) << bad;
    EXPECT_EQ(projector->encode(file, 0, {}).error().kind, ErrorKind::kDamaged) << bad;
    samples[9'000] = -2e9F;
    EXPECT_TRUE(projector->encode(make_float_wav(samples), 0, {}).ok()) << "loud, and the sums stay numbers";
  }
}

// Its projector makes NaN of every sound, as one could of some.
TEST(EarTest, EmbeddingsThatAreNoNumbersAreRefused) {
  const Pair pair("llama");
  ProjectorOptions options = pair.options();
  std::ifstream whole(options.path, std::ios::binary);
  std::string bytes{std::istreambuf_iterator<char>(whole), {}};
  std::fill(bytes.end() - 4'096, bytes.end(), '\xFF');
  options.path = ::testing::TempDir() + "/nan_projector.gguf";
  std::ofstream(options.path, std::ios::binary) << bytes;
  const auto projector = pair.load(options);
  ASSERT_TRUE(projector.ok()) << projector.error().message;
  const auto refused = (*projector)->encode(make_wav(16'000), 0, {});
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().kind, ErrorKind::kDamaged);
  EXPECT_NE(refused.error().message.find("NaN"), std::string::npos) << refused.error().message;
}

double process_ms() {
  timespec time{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) * 1e3 + static_cast<double>(time.tv_nsec) / 1e6;
}

// To read a sound cannot be ended: it is done once, and not once more to count what was counted before.
TEST(EarTest, AClientThatLeavesEndsItAfterOneReading) {
  const Pair pair("llama");
  const auto projector = pair.load();
  const std::vector<std::byte> file = make_wav(120 * 16'000);
  EXPECT_NEAR(projector->sound_seconds(file), 120, 1);
  EXPECT_EQ(projector->sound_seconds(make_png(8, 8)), 0);
  const auto fastest_ms = [](const std::function<void()>& work) {
    double fastest = std::numeric_limits<double>::infinity();
    for (int i = 0; i < 3; ++i) {
      const double begin = process_ms();
      work();
      fastest = std::min(fastest, process_ms() - begin);
    }
    return fastest;
  };
  const double one_reading = fastest_ms([&] { EXPECT_TRUE(projector->plan(file).ok()); });
  const auto left_at = [&](int question) {
    return fastest_ms([&] {
      int asked = 0;
      const auto left = projector->encode(file, 0, [&](double) { return ++asked < question; });
      EXPECT_EQ(left.error().kind, ErrorKind::kAborted);
      EXPECT_EQ(asked, question);
    });
  };
  const double decoded = left_at(1);
  const double prepared = left_at(2);
  std::cout << one_reading << " ms to count, " << decoded << " to decode, " << prepared << " before the encoder\n";
  EXPECT_LT(prepared, 1.6 * one_reading);
  EXPECT_LT(decoded, prepared / 2);
}

TEST(EarTest, ASoundOfManySamplesCountsAsALongerOne) {
  const Pair pair("llama");
  const auto projector = pair.load();
  EXPECT_EQ(projector->sound_seconds(make_wav(192'000, 96'000)), 2);
  EXPECT_EQ(projector->sound_seconds(make_wav(384'000, 384'000)), 4) << "one second of 96,000 samples, four times";
}

TEST(ProjectorLoadTest, SaysWhatIsWrong) {
  const Pair pair("gemma3");
  ProjectorOptions options = pair.options();
  options.path = "/no/such/file.gguf";
  EXPECT_EQ(pair.load(options).error().kind, ErrorKind::kNotFound);
  options.path = llama::tiny_model_path();
  EXPECT_EQ(pair.load(options).error().kind, ErrorKind::kDamaged) << "a text model";
  options = pair.options();
  options.least_tokens = 5;
  options.most_tokens = 4;
  EXPECT_EQ(pair.load(options).error().kind, ErrorKind::kInvalid);
  options = pair.options();
  options.device = "no such";
  EXPECT_EQ(pair.load(options).error().kind, ErrorKind::kInvalid);
  options.device = "CPU";
  options.use_gpu = true;
  const auto named = pair.load(options);
  ASSERT_TRUE(named.ok());
  EXPECT_EQ((*named)->description().device, "CPU") << "it has the same name as without a device";
  const Pair wide("qwen3vl");  // embeddings twice as wide
  EXPECT_EQ(wide.load(pair.options()).error().kind, ErrorKind::kDamaged);
}

TEST(ProjectorLoadTest, TokenLimitsDecideTheTokens) {
  const Pair pair("qwen3vl");
  ProjectorOptions options = pair.options();
  options.least_tokens = 40;
  options.most_tokens = 60;
  const auto projector = pair.load(options).value();
  for (const std::uint32_t side : {8U, 800U}) {
    const std::uint32_t tokens = (*projector->plan(make_png(side, side)))[1].shape.embeddings;
    EXPECT_GE(tokens, 40U) << side;
    EXPECT_LE(tokens, 60U) << side;
  }
}

TEST(ProjectorLoadTest, TooSmallAMicroBatchIsAnErrorThatNamesTheNumber) {
  const Pair pair("gemma3");
  const auto projector = pair.load();
  Description model;
  model.batch_tokens = 64;
  model.tokens_at_once = 16;
  EXPECT_TRUE(check_tokens_at_once(projector->description(), model).ok());
  model.tokens_at_once = 15;
  const Status refused = check_tokens_at_once(projector->description(), model);
  ASSERT_FALSE(refused.ok());
  EXPECT_NE(refused.error().message.find("--ubatch-size 16"), std::string::npos) << refused.error().message;
}

#endif

}  // namespace
}  // namespace kvkeep::engine::media
