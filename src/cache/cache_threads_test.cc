// The cache under real threads, on a real disk: everything that a server does at once, so that ThreadSanitizer sees the
// locks at work (docs/building.md). Without it the test says that no thread ever gets another prefix's bytes.

#include <array>
#include <future>
#include <random>
#include <thread>

#include "base/test_seed.h"
#include "cache/cache_test_fixture.h"
#include "testing/sim/temporary_directory.h"

namespace kvkeep::cache {
namespace {

constexpr std::size_t kThreads = 4;
constexpr std::size_t kConversations = 4;  // of each thread
constexpr std::size_t kMostTokens = 128;
constexpr int kRounds = 120;

class CacheThreads : public testing::TestWithParam<ModelClass> {
 protected:
  void SetUp() override {
    auto disk = store::DiskStore::open(
        {.directory = folder_.path() + "/cache", .fingerprint = {}, .budget = ByteCount{40 * 8192}},
        os::real_file_system(), clock_);
    ASSERT_TRUE(disk.ok());
    // Budgets that everything has to leave again and again.
    cache_ = std::make_unique<Cache>(CacheOptions{.fingerprint = {},
                                                  .ram_budget = ByteCount{32 << 10},
                                                  .point_bytes = ByteCount{4 << 10},
                                                  .min_disk_tokens = 8,
                                                  .save_index_after = 20,
                                                  .shape = GetParam().shape},
                                     std::move(*disk), clock_, *writer_, *reader_);
    cache_->settle();
  }

  // Only its own thread stores a conversation, as the one engine thread does; all of them read it.
  static Tokens prompt_of(std::size_t thread, std::size_t number) {
    const auto first = static_cast<TokenId>(1000 * thread + 1);
    return conversation(first, 32) + conversation(first + 10 * static_cast<TokenId>(number + 1), kMostTokens - 32);
  }

  void store(const Tokens& tokens) {
    Track track = cache_->track(tokens);
    while (track.position().value() < tokens.size()) {
      const Position begin = track.position();
      const std::size_t count = std::min<std::size_t>(16, tokens.size() - begin.value());
      const auto rows = state_of(tokens, {begin, begin + count}, GetParam().row_bytes);
      store::StagingBuffer buffer = cache_->staging(rows.size());
      std::ranges::copy(rows, buffer.span().begin());
      if (!cache_->make_room(rows.size()) ||
          !cache_->store(track, TokenSpan(tokens).subspan(begin.value(), count), std::move(buffer), rows.size())) {
        return;
      }
      if (!cache_->follow(track, TokenSpan(tokens).subspan(track.position().value()))) return;
    }
    OneSequence memory(tokens, GetParam());
    (void)capture_point(*cache_, memory, SeqId{0}, tokens, track);
  }

  void load(const Tokens& tokens) {
    const std::shared_ptr<Lease> lease = cache_->lease(tokens);
    const TokenRange all{Position{}, lease->end()};
    std::promise<bool> loaded;
    cache_->load(lease, all, [&](const LoadResult& result) { loaded.set_value(result.status.ok()); });
    if (!loaded.get_future().get()) return;
    cache_->note_use(*lease);
    for (const RowPiece& piece : lease->pieces(all)) {
      const std::size_t each = GetParam().row_bytes;
      const ByteSpan got =
          piece.bytes.subspan((piece.wanted.begin - piece.stored.begin) * each, piece.wanted.size() * each);
      EXPECT_TRUE(std::ranges::equal(got, state_of(tokens, piece.wanted, each))) << "bytes of another prefix";
    }
    loaded_tokens_ += lease->end().value();
  }

  void look(const Tokens& tokens) {
    const CacheStats stats = cache_->stats();
    EXPECT_LE(stats.disk_used, stats.disk_budget);
    EXPECT_LE(cache_->branch(tokens, 4).at.value(), tokens.size());
    (void)cache_->accepts();
  }

  void play(std::size_t thread, std::uint64_t seed) {
    std::mt19937_64 random(seed);
    for (int round = 0; round < kRounds; ++round) {
      const Tokens own = prompt_of(thread, random() % kConversations);
      const Tokens other = prompt_of(random() % kThreads, random() % kConversations);
      switch (random() % 8) {
        case 0:
        case 1:
        case 2: store(head(own, 16 * (1 + random() % (kMostTokens / 16)))); break;
        case 3:
        case 4: load(other); break;
        case 5: look(other); break;
        case 6: cache_->keep(cache_->track(other), 1'000'000); break;
        default: cache_->forget_points(own, {Position{32}, Position{64}});
      }
      if (random() % 64 == 0) cache_->flush();
    }
  }

  const sim::TemporaryDirectory folder_;
  sim::SimClock clock_;
  const std::unique_ptr<os::Executor> writer_ = os::make_thread_executor("writer");
  const std::unique_ptr<os::Executor> reader_ = os::make_thread_executor("reader");
  std::unique_ptr<Cache> cache_;
  std::atomic<std::uint64_t> loaded_tokens_ = 0;
};

TEST_P(CacheThreads, StoreLoadEvictAndLookAtOnce) {
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < kThreads; ++i) {
    threads.emplace_back([this, i] { play(i, test_seed() + i); });
  }
  for (std::thread& thread : threads) thread.join();
  cache_->flush();
  const CacheStats stats = cache_->stats();
  EXPECT_GT(loaded_tokens_, 0U);
  EXPECT_GT(stats.stored, 0U);
  EXPECT_GT(stats.from_disk.count() + stats.from_ram.count(), 0U) << "the budgets are to be too small";
  EXPECT_EQ(stats.damaged, 0U);
  EXPECT_EQ(stats.waiting_writes, 0U);
  for (std::size_t i = 0; i < kThreads; ++i) load(prompt_of(i, 0));
}

INSTANTIATE_TEST_SUITE_P(Classes, CacheThreads, testing::Values(kRowsModel, kHybridModel, kOpaqueModel),
                         testing::PrintToStringParamName());

}  // namespace
}  // namespace kvkeep::cache
