#pragma once

// A projector that counts, pictures for it, and a scheduler that has it.

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "base/media_ids.h"
#include "engine/projector.h"
#include "server/run/encoded_media.h"
#include "server/run/job.h"
#include "server/run/scheduler_test_fixture.h"

namespace kvkeep::server {

inline const ChunkShape kShape{.embeddings = 40, .positions = 40};
inline constexpr std::string_view kBroken = "broken";

// Makes as many equal chunks of each file as it is told to, one at first, unless the file is broken.
class CountingProjector final : public engine::Projector {
 public:
  const engine::ProjectorDescription& description() const override { return description_; }
  Result<std::vector<engine::MediaPart>> plan(ByteSpan) const override {
    return std::vector<engine::MediaPart>(chunks, engine::MediaPart{{}, kShape});
  }
  Result<std::vector<engine::EncodedChunk>> encode(ByteSpan file, std::size_t first,
                                                   const engine::EncodeProgress& progress) override {
    ++encoded;
    do {
      if (!progress(told_share)) {
        ++ended;
        return aborted("the encoding was ended");
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    } while (is_slow);
    if (file.size() == kBroken.size()) return damaged("it cannot be decoded as PNG");
    std::vector<engine::EncodedChunk> made(chunks, {.shape = shape, .at_once = at_once});
    for (std::size_t i = first; i < chunks; ++i) made[i].embeddings.resize(shape.embeddings);
    encoded_chunks += static_cast<int>(chunks - std::min(chunks, first));
    return made;
  }

  std::atomic<int> encoded = 0;
  std::atomic<int> encoded_chunks = 0;
  std::atomic<int> ended = 0;
  std::atomic<bool> is_slow = false;  // then it does not get beyond this share of a file
  double told_share = 0.5;
  ChunkShape shape = kShape;
  bool at_once = false;
  std::size_t chunks = 1;

 private:
  engine::ProjectorDescription description_;
};

inline ChunkSource picture(std::uint8_t number, std::string_view file = "file") {
  MediaHash hash;
  hash.bytes[0] = number;
  return {std::make_shared<const PromptFile>(PromptFile{hash, std::make_shared<const std::string>(file),
                                                        "messages[0].content[" + std::to_string(number) + "]"})};
}

inline std::vector<TokenId> ids_of(const ChunkSource& source, const ChunkShape& shape = kShape) {
  return media_ids(source.file->hash, source.number, shape);
}

class MediaWorldTest : public ::testing::TestWithParam<engine::MemoryClass> {
 protected:
  Job job_of(const std::vector<TokenId>& prompt, std::vector<ChunkSource> media, std::int64_t max_tokens = 4) {
    Job job = World::job_of(prompt, max_tokens);
    job.media = std::move(media);
    return job;
  }
  Reply ask(Job job) {
    const auto sink = std::make_shared<CollectingSink>();
    auto reply = sink->future();
    EXPECT_TRUE(world_.scheduler.submit(std::move(job), sink).ok());
    return reply.get();
  }

  CountingProjector projector_;
  World world_{options(projector_)};
  std::mt19937 random_{seed()};

 private:
  static WorldOptions options(CountingProjector& projector) {
    WorldOptions options;
    options.fake.memory_class = GetParam();
    options.fake.batch_tokens = 64;
    options.scheduler.projector = &projector;
    return options;
  }
};

}  // namespace kvkeep::server
