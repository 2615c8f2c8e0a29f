#pragma once

// A cache over a simulated disk whose rows are a function of the tokens, so that every wrong byte is seen.

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <vector>

#include "cache/cache.h"
#include "testing/sim/sim_clock.h"
#include "testing/sim/sim_executor.h"
#include "testing/sim/sim_file_system.h"

namespace kvkeep::cache {

using sim::FaultKind;

constexpr std::size_t kRowBytes = 64;
using Tokens = std::vector<TokenId>;

// Rows of a prefix: 64 bytes per token, a function of all tokens up to it.
inline std::vector<std::byte> rows_of(const Tokens& tokens, TokenRange range) {
  std::vector<std::byte> rows;
  std::uint64_t state = 1;
  for (std::size_t i = 0; i < range.end.value(); ++i) {
    state = (state ^ static_cast<std::uint64_t>(tokens[i] + 1)) * 0x9e3779b97f4a7c15ULL + 7;
    if (i < range.begin.value()) continue;
    std::uint64_t row = state;
    for (std::size_t b = 0; b < kRowBytes; ++b, row = row * 6364136223846793005ULL + 1) {
      rows.push_back(static_cast<std::byte>(row >> 56));
    }
  }
  return rows;
}

// A cache, its disk and its background work, all run by hand.
class World {
 public:
  explicit World(ByteCount ram = mebibytes(1), ByteCount disk_budget = mebibytes(64), std::uint64_t seed = 1)
      : files(seed), ram_(ram), disk_budget_(disk_budget) {}
  ~World() { shut_down(); }

  // False: the disk store refused to open.
  bool open() {
    auto disk =
        store::DiskStore::open({.directory = "/cache", .fingerprint = {}, .budget = disk_budget_}, files, clock);
    if (!disk) return false;
    store = disk->get();
    cache = std::make_unique<Cache>(
        CacheOptions{.fingerprint = {}, .ram_budget = ram_, .min_disk_tokens = 8, .save_index_after = save_index_after},
        std::move(*disk), clock, writer, reader);
    writer.run_all();
    return true;
  }
  void open_without_disk() {
    cache =
        std::make_unique<Cache>(CacheOptions{.fingerprint = {}, .ram_budget = ram_}, nullptr, clock, writer, reader);
  }
  void shut_down() {
    cache.reset();
    store = nullptr;
  }
  // The process dies: nothing that waits is run.
  void die() {
    writer.forget_all();
    reader.forget_all();
    shut_down();
  }
  // The process dies, what it wrote stays, and another one begins.
  bool restart() {
    die();
    files.kill();
    return open();
  }

  // Stores what the cache does not know of `tokens` in pieces of `piece`; returns how far it got.
  std::size_t grow(const Tokens& tokens, std::size_t piece = 16) {
    Track track = cache->track(tokens);
    while (track.position().value() < tokens.size()) {
      cache->follow(track, TokenSpan(tokens).subspan(track.position().value()));
      const Position begin = track.position();
      const std::size_t count = std::min(piece, tokens.size() - begin.value());
      if (count == 0) break;
      const auto rows = rows_of(tokens, {begin, begin + count});
      if (!cache->make_room(rows.size())) break;
      store::StagingBuffer buffer = cache->staging(rows.size());
      std::ranges::copy(rows, buffer.span().begin());
      if (!cache->store(track, TokenSpan(tokens).subspan(begin.value(), count), std::move(buffer), rows.size())) {
        break;
      }
    }
    return track.position().value();
  }

  // Loads the longest path of `prompt` and compares every byte; returns its length.
  std::size_t check(const Tokens& prompt) {
    for (int attempt = 0; attempt < 50; ++attempt) {
      const std::shared_ptr<Lease> lease = cache->lease(prompt);
      std::optional<Status> outcome;
      const TokenRange all{Position{}, lease->end()};
      cache->load(lease, all, [&](LoadResult result) { outcome = std::move(result.status); });
      reader.run_all();
      EXPECT_TRUE(outcome.has_value()) << "a load without an answer";
      if (!outcome || !*outcome) continue;  // the next best
      Position covered;
      for (const RowPiece& piece : lease->pieces(all)) {
        EXPECT_EQ(piece.wanted.begin, covered) << "a gap between pieces";
        covered = piece.wanted.end;
        const auto rows = rows_of(prompt, {Position{}, piece.wanted.end});
        const ByteSpan got =
            piece.bytes.subspan((piece.wanted.begin - piece.stored.begin) * kRowBytes, piece.wanted.size() * kRowBytes);
        const ByteSpan want = ByteSpan(rows).subspan(piece.wanted.begin.value() * kRowBytes);
        EXPECT_TRUE(std::ranges::equal(got, want)) << "bytes of another prefix at " << piece.wanted.begin.value();
      }
      EXPECT_EQ(covered, lease->end()) << "pieces end before the lease";
      return lease->end().value();
    }
    ADD_FAILURE() << "loading never succeeded nor gave up";
    return 0;
  }

  // Names of the segment files that are there, of every fingerprint.
  std::vector<std::string> segment_files() const {
    std::vector<std::string> found = files.paths();
    std::erase_if(found, [](const std::string& path) { return !path.ends_with(".kvs"); });
    return found;
  }

  std::size_t save_index_after = 3;  // so that faults meet it too
  sim::SimFileSystem files;
  sim::SimClock clock;
  sim::SimExecutor writer;
  sim::SimExecutor reader;
  store::DiskStore* store = nullptr;
  std::unique_ptr<Cache> cache;

 private:
  const ByteCount ram_;
  const ByteCount disk_budget_;
};

inline Tokens conversation(TokenId first, std::size_t count) {
  Tokens tokens(count);
  for (std::size_t i = 0; i < count; ++i) tokens[i] = first + static_cast<TokenId>(i % 7);
  return tokens;
}
inline Tokens operator+(Tokens a, const Tokens& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

}  // namespace kvkeep::cache
