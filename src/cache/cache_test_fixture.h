#pragma once

// A cache over a simulated disk whose rows are a function of the tokens, so that every wrong byte is seen.

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "cache/cache_stats.h"
#include "cache/capture.h"
#include "cache/shaky_tier_fixture.h"
#include "share/frail_engine_fixture.h"
#include "share/shared_store.h"
#include "testing/sim/sim_clock.h"
#include "testing/sim/sim_executor.h"
#include "testing/sim/sim_file_system.h"

namespace kvkeep::cache {

using sim::FaultKind;

inline constexpr std::int64_t kHourMs = 3'600'000;

constexpr std::size_t kRowBytes = 64;
constexpr std::size_t kWindowRowBytes = 40;
constexpr std::size_t kWindowTokens = 24;
using Tokens = std::vector<TokenId>;

// A class of models: the leaves that its sequences need, and the size of their rows.
struct ModelClass {
  const char* name = "Rows";
  StateShape shape = {.cacheable = true};
  std::size_t row_bytes = kRowBytes;
};
inline const ModelClass kRowsModel{};
inline const ModelClass kWindowedModel{"Windowed", {.cacheable = true, .window_tokens = kWindowTokens}, kRowBytes};
inline const ModelClass kHybridModel{"Hybrid", {.cacheable = true, .points = true}, kRowBytes};
inline const ModelClass kRecurrentModel{"Recurrent", {.cacheable = true, .points = true}, 0};
inline const ModelClass kOpaqueModel{"Opaque", {.cacheable = true, .points = true, .whole_points = true}, 0};
inline const std::vector<ModelClass> kPointModels{kWindowedModel, kHybridModel, kRecurrentModel, kOpaqueModel};
inline const std::vector<ModelClass> kClasses{kRowsModel, kWindowedModel, kHybridModel, kRecurrentModel, kOpaqueModel};
inline void PrintTo(const ModelClass& model, std::ostream* out) { *out << model.name; }

// Bytes of [begin, end) of a prefix, so many per token, a function of all tokens up to it and of a salt.
inline std::vector<std::byte> state_of(const Tokens& tokens, TokenRange range, std::size_t bytes_each,
                                       std::uint64_t salt = 1) {
  std::vector<std::byte> rows;
  std::uint64_t state = salt;
  for (std::size_t i = 0; i < range.end.value(); ++i) {
    state = (state ^ static_cast<std::uint64_t>(tokens[i] + 1)) * 0x9e3779b97f4a7c15ULL + 7;
    if (i < range.begin.value()) continue;
    std::uint64_t row = state;
    for (std::size_t b = 0; b < bytes_each; ++b, row = row * 6364136223846793005ULL + 1) {
      rows.push_back(static_cast<std::byte>(row >> 56));
    }
  }
  return rows;
}
inline std::vector<std::byte> rows_of(const Tokens& tokens, TokenRange range) {
  return state_of(tokens, range, kRowBytes);
}
inline std::vector<std::byte> window_rows_of(const Tokens& tokens, TokenRange range) {
  return state_of(tokens, range, kWindowRowBytes, 2);
}
constexpr std::size_t kPointBytes = 300;
constexpr std::size_t kStateBytesEach = 20;
// The state at `at`: 300 bytes of their own, and as an opaque model's it grows with the position, by bytes that an
// earlier state of the prefix has as well.
inline std::vector<std::byte> point_of(const Tokens& tokens, Position at, bool whole) {
  std::vector<std::byte> state = state_of(tokens, {Position{at.value() - 1}, at}, kPointBytes, 3);
  if (!whole) return state;
  const auto grown = state_of(tokens, {Position{}, at}, kStateBytesEach, 4);
  state.insert(state.end(), grown.begin(), grown.end());
  return state;
}

// A model's memory with one sequence that holds `tokens`; counts copies.
class OneSequence final : public ModelMemory {
 public:
  explicit OneSequence(Tokens tokens, ModelClass model = kRowsModel) : tokens_(std::move(tokens)), model_(model) {}

  StateShape shape() const override { return model_.shape; }
  Position complete_from(SeqId) const override { return model_.shape.needs_points() ? length({}) : Position{}; }
  std::uint64_t rows_bytes(std::size_t tokens) const override { return tokens * model_.row_bytes; }
  Result<std::size_t> save_rows(SeqId, TokenRange range, MutableByteSpan out) override {
    copied_ += range.size();
    return copy(state_of(tokens_, range, model_.row_bytes), out);
  }
  std::uint64_t window_bytes(std::size_t tokens) const override {
    return model_.shape.window_tokens > 0 ? tokens * kWindowRowBytes : 0;
  }
  Result<std::size_t> save_window(SeqId, TokenRange range, MutableByteSpan out) override {
    window_copied_ += range.size();
    return copy(window_rows_of(tokens_, range), out);
  }
  std::uint64_t point_bytes(SeqId) const override {
    if (!model_.shape.points || tokens_.empty()) return 0;
    return point_of(tokens_, length({}), model_.shape.whole_points).size();
  }
  Result<std::size_t> save_point(SeqId, MutableByteSpan out) override {
    ++points_copied_;
    return copy(point_of(tokens_, length({}), model_.shape.whole_points), out);
  }
  std::size_t copied() const { return copied_; }
  std::size_t window_copied() const { return window_copied_; }
  std::size_t points_copied() const { return points_copied_; }

  std::uint32_t sequence_count() const override { return 1; }
  std::uint32_t cells_total() const override { return 1U << 20; }
  std::uint32_t cells_used() const override { return static_cast<std::uint32_t>(tokens_.size()); }
  std::uint32_t cells_owned(SeqId) const override { return cells_used(); }
  Position length(SeqId) const override { return Position{} + tokens_.size(); }
  Status restore_rows(SeqId, std::span<const RowPiece>) override { return {}; }
  Status restore_point(SeqId, std::span<const RowPiece>) override { return {}; }
  Status fork(SeqId, SeqId, Position) override { return {}; }
  bool truncate(SeqId, Position) override { return true; }
  void clear(SeqId) override {}
  bool can_shift() const override { return false; }
  Status shift(SeqId, TokenRange) override { return unsupported("no shift"); }

 private:
  static std::size_t copy(const std::vector<std::byte>& bytes, MutableByteSpan out) {
    std::ranges::copy(bytes, out.begin());
    return bytes.size();
  }
  const Tokens tokens_;
  const ModelClass model_;
  std::size_t copied_ = 0;
  std::size_t window_copied_ = 0;
  std::size_t points_copied_ = 0;
};

// A cache, its disk and its background work, all run by hand.
class World {
 public:
  explicit World(ByteCount ram = mebibytes(1), ByteCount disk = mebibytes(64), std::uint64_t seed = 1)
      : disk_budget(disk), own_files_(std::in_place, seed), files(*own_files_), clock(own_clock_), ram_(ram) {}
  // On a disk that the test breaks.
  World(sim::SimFileSystem& disk_files, ByteCount ram, ByteCount disk)
      : disk_budget(disk), files(disk_files), clock(own_clock_), ram_(ram) {}
  // One of several servers that share an engine, and so its clock.
  explicit World(share::FrailWorld& engine, ByteCount ram = mebibytes(1))
      : disk_budget(mebibytes(64)),
        own_files_(std::in_place, 1),
        files(*own_files_),
        clock(engine.clock),
        shared_engine(&engine),
        ram_(ram) {}
  ~World() { shut_down(); }

  // Returns false if the disk store refused to open.
  bool open() {
    auto disk = store::DiskStore::open({.directory = "/cache",
                                        .fingerprint = {},
                                        .budget = disk_budget,
                                        .reserve = reserve,
                                        .written_per_day = written_per_day,
                                        .most_files = most_files},
                                       files, clock);
    if (!disk) return false;
    store = disk->get();
    cache = std::make_unique<Cache>(CacheOptions{.fingerprint = {},
                                                 .ram_budget = ram_,
                                                 .point_bytes = point_bytes,
                                                 .min_disk_tokens = 8,
                                                 .save_index_after = save_index_after,
                                                 .write_queue = write_queue,
                                                 .most_waiting = most_waiting,
                                                 .most_read_to_publish = most_read_to_publish,
                                                 .time_to_live_ns = time_to_live_ns,
                                                 .disk_points_share = disk_points_share,
                                                 .shape = model.shape},
                                    std::move(*disk), clock, writer, reader, further_tiers(), shared_setup());
    if (before_settling) before_settling();
    cache->settle();
    writer.run_all();
    return true;
  }
  void open_without_disk() {
    cache = std::make_unique<Cache>(CacheOptions{.fingerprint = {},
                                                 .vocabulary_size = vocabulary_size,
                                                 .ram_budget = ram_,
                                                 .most_shared = most_shared,
                                                 .time_to_live_ns = time_to_live_ns,
                                                 .shape = model.shape},
                                    nullptr, clock, writer, reader, std::vector<FurtherTier>{}, shared_setup());
  }
  void shut_down() {
    cache.reset();
    store = nullptr;
  }
  // The process dies: nothing that waits is run.
  void die() {
    writer.forget_all();
    reader.forget_all();
    far_writer.forget_all();
    far_reader.forget_all();
    for (sim::SimExecutor* executor : {&share_worker, &share_reader, &share_helper, &searcher}) executor->forget_all();
    shut_down();
  }
  // The process dies, its files stay, and another one begins.
  bool restart() {
    die();
    files.kill();
    return open();
  }

  void use(const Tokens& tokens) {
    cache->note_use(*cache->lease(tokens));
    writer.run_all();
  }
  // Time passes, and then the server's tick comes.
  void pass(std::int64_t hours) {
    clock.advance_ms(hours * kHourMs);
    cache->tick();
    writer.run_all();
  }

  // Stores what the cache does not know of `tokens` in pieces of `piece`; returns how far it got.
  std::size_t grow(const Tokens& tokens, std::size_t piece = 16) {
    Track track = cache->track(tokens, tenant);
    while (track.position().value() < tokens.size()) {
      cache->follow(track, TokenSpan(tokens).subspan(track.position().value()));
      const Position begin = track.position();
      const std::size_t count = std::min(piece, tokens.size() - begin.value());
      if (count == 0) break;
      const auto rows = state_of(tokens, {begin, begin + count}, model.row_bytes);
      if (!cache->make_room(rows.size())) break;
      store::StagingBuffer buffer = cache->staging(rows.size());
      std::ranges::copy(rows, buffer.span().begin());
      if (!cache->store(track, TokenSpan(tokens).subspan(begin.value(), count), std::move(buffer), rows.size())) {
        break;
      }
    }
    return track.position().value();
  }

  // Captures the leaf at the end of a sequence that holds `tokens`; returns false if refused.
  bool capture_leaf(const Tokens& tokens) {
    OneSequence memory(tokens, model);
    const Track track = cache->track(tokens, tenant);
    return capture_point(*cache, memory, SeqId{0}, tokens, track).complete;
  }
  // Keeps rows and a leaf at their end.
  bool keep(const Tokens& tokens, std::size_t piece = 16) {
    return grow(tokens, piece) == tokens.size() && capture_leaf(tokens);
  }

  // Loads the longest path of `prompt` and compares every byte; returns its length.
  std::size_t check(const Tokens& prompt) {
    for (int attempt = 0; attempt < 50; ++attempt) {
      const std::shared_ptr<Lease> lease = cache->lease(prompt, tenant);
      if (loads(lease, prompt)) return lease->end().value();  // else the next best
    }
    ADD_FAILURE() << "loading never succeeded nor gave up";
    return 0;
  }

  // Loads the rows of a lease of `prompt` and compares every byte. Returns false if they cannot be loaded.
  bool loads(const std::shared_ptr<Lease>& lease, const Tokens& prompt) {
    const TokenRange all{Position{}, lease->end()};
    const Position middle{reads_ahead ? all.end.value() / 2 : 0};
    lease->aim_at(all.end);
    for (const TokenRange portion : {TokenRange{all.begin, middle}, TokenRange{middle, all.end}}) {
      std::optional<Status> outcome;
      cache->load(lease, portion, [&](LoadResult result) { outcome = std::move(result.status); });
      wait_for_reader();
      EXPECT_TRUE(outcome.has_value()) << "a load without an answer";
      if (!outcome || !*outcome) return false;
    }
    Position covered;
    for (const RowPiece& piece : lease->pieces(all)) {
      EXPECT_EQ(piece.wanted.begin, covered) << "a gap between pieces";
      covered = piece.wanted.end;
      expect_bytes(piece, model.row_bytes, state_of(prompt, piece.wanted, model.row_bytes));
    }
    EXPECT_EQ(covered, lease->end()) << "pieces end before the lease";
    return true;
  }

  // Every position where the cache says that it can put a sequence which holds the beginning of `prompt`, ascending.
  // Loads the state for each and compares every byte; a position whose state cannot be loaded does not count.
  std::vector<std::size_t> restorable(const Tokens& prompt) {
    std::vector<std::size_t> found;
    std::size_t failures = 0;
    std::shared_ptr<Lease> lease = cache->lease(prompt, tenant);
    for (std::size_t at = 1; at <= prompt.size();) {
      const Position place = Position{} + at;
      if (!restorable_at(*lease, place)) {
        ++at;
        continue;
      }
      std::optional<Status> outcome;
      cache->load(lease, {}, [&](LoadResult result) { outcome = std::move(result.status); }, place);
      wait_for_reader();
      EXPECT_TRUE(outcome.has_value()) << "a load without an answer";
      if (outcome && *outcome) {
        expect_point(prompt, *lease, place);
        found.push_back(at++);
      } else if (++failures > 50) {
        ADD_FAILURE() << "loading never succeeded nor gave up";
        return found;
      } else {
        lease.reset();  // damaged segments leave once they are not held
        lease = cache->lease(prompt, tenant);
      }
    }
    return found;
  }
  static bool restorable_at(const Lease& lease, Position at) {
    return std::ranges::any_of(lease.restorable(),
                               [at](const policy::Restorable& run) { return run.first <= at && at <= run.last; });
  }

  // The lengths of all segment files.
  std::size_t store_bytes() const {
    std::size_t total = 0;
    for (const std::string& path : segment_files()) total += files.contents(path)->size();
    return total;
  }

  // Names of the segment files that are there, of every fingerprint.
  std::vector<std::string> segment_files() const {
    std::vector<std::string> found = files.paths();
    std::erase_if(found, [](const std::string& path) { return !path.ends_with(".kvs"); });
    return found;
  }

  ModelClass model = kRowsModel;
  Tenant tenant = kNoTenant;  // who asks
  ByteCount disk_budget;
  ByteCount point_bytes = {};
  ByteCount reserve = {};
  ByteCount written_per_day = {};
  std::int64_t time_to_live_ns = 0;
  std::uint32_t disk_points_share = 100;
  ByteCount write_queue = {};
  std::size_t most_waiting = CacheOptions{}.most_waiting;
  ByteCount most_read_to_publish = CacheOptions{}.most_read_to_publish;
  std::size_t most_files = store::kMaxServedFiles;
  std::size_t save_index_after = 3;  // so that faults meet it too

 private:
  std::optional<sim::SimFileSystem> own_files_;
  sim::SimClock own_clock_;

 public:
  sim::SimFileSystem& files;
  sim::SimClock& clock;
  share::FrailWorld* shared_engine = nullptr;  // null: there is no shared tier
  share::ShareMode share_mode = share::ShareMode::kBoth;
  bool reads_ahead = false;  // of the shared tier: rows are loaded in two portions then
  std::size_t most_shared = CacheOptions{}.most_shared;
  std::size_t vocabulary_size = CacheOptions{}.vocabulary_size;
  sim::SimExecutor writer;
  sim::SimExecutor reader;
  std::unique_ptr<ShakyTier> shaky;  // null: there is no third tier
  sim::SimExecutor far_writer;       // of the third tier
  sim::SimExecutor far_reader;
  sim::SimExecutor share_worker;  // of the shared tier
  sim::SimExecutor share_reader;
  sim::SimExecutor share_helper;
  sim::SimExecutor searcher;
  std::function<void()> before_settling;  // of each start
  // For a load to be answered.
  std::function<void()> wait_for_reader = [this] {
    while (reader.run_one() || far_reader.run_one() || share_reader.run_one() || share_helper.run_one()) {}
  };
  store::DiskStore* store = nullptr;
  std::unique_ptr<Cache> cache;

  // Everything that was captured is written and published.
  void publish() {
    writer.run_all();
    share_worker.run_all();
  }
  SeekResult seek(const Tokens& prompt, const policy::PromptMarkers& markers = {}) {
    std::optional<SeekResult> answer;
    cache->seek({.prompt = prompt, .markers = markers, .tenant = tenant, .begins = [] { return true; }},
                [&](const SeekResult& result) { answer = result; });
    searcher.run_all();
    EXPECT_TRUE(answer.has_value()) << "a search without an answer";
    return answer.value_or(SeekResult{});
  }
  share::ShareCounters share_counters() const { return cache->share_counters().value(); }

 private:
  SharedSetup shared_setup() {
    if (shared_engine == nullptr) return {};
    auto shared = share::SharedStore::make(std::make_unique<share::FrailEngine>(*shared_engine),
                                           {.fingerprint = {}, .device = {}, .key = "secret", .mode = share_mode},
                                           clock, share_worker);
    EXPECT_TRUE(shared.ok());
    share_worker.run_all();
    return {.store = std::move(*shared),
            .worker = &share_worker,
            .reader = &share_reader,
            .helpers = reads_ahead ? std::vector<os::Executor*>{&share_helper} : std::vector<os::Executor*>{},
            .searcher = &searcher,
            .publishes = share_mode != share::ShareMode::kRead};
  }
  std::vector<FurtherTier> further_tiers() {
    std::vector<FurtherTier> tiers;
    if (shaky != nullptr) tiers.push_back({std::make_unique<SameTier>(*shaky), far_writer, far_reader});
    return tiers;
  }
  static void expect_bytes(const RowPiece& piece, std::size_t bytes_each, const std::vector<std::byte>& want) {
    const ByteSpan got =
        piece.bytes.subspan((piece.wanted.begin - piece.stored.begin) * bytes_each, piece.wanted.size() * bytes_each);
    EXPECT_TRUE(std::ranges::equal(got, want)) << "bytes of another prefix at " << piece.wanted.begin.value();
  }
  void expect_point(const Tokens& prompt, const Lease& lease, Position at) const {
    ASSERT_TRUE(lease.point_loaded(at));
    const std::vector<RowPiece> pieces = lease.point_pieces(at);
    const std::size_t window = model.shape.window_tokens;
    Position covered{at.value() - static_cast<std::uint32_t>(std::min<std::size_t>(window, at.value()))};
    for (const RowPiece& piece : pieces) {
      EXPECT_EQ(piece.wanted.begin, covered) << "a gap between pieces";
      covered = piece.wanted.end;
      if (window > 0) {
        expect_bytes(piece, kWindowRowBytes, window_rows_of(prompt, piece.wanted));
      } else {
        EXPECT_TRUE(std::ranges::equal(piece.bytes, point_of(prompt, at, model.shape.whole_points)))
            << "state of another prefix at " << at.value();
      }
    }
    EXPECT_EQ(covered, at) << "pieces end before the position";
    EXPECT_TRUE(window > 0 || pieces.size() == 1) << "a point is one piece";
  }

  const ByteCount ram_;
};

inline Tokens conversation(TokenId first, std::size_t count) {
  Tokens tokens(count);
  for (std::size_t i = 0; i < count; ++i) tokens[i] = first + static_cast<TokenId>(i % 7);
  return tokens;
}
inline Tokens head(const Tokens& tokens, std::size_t count) { return {tokens.begin(), tokens.begin() + count}; }
// [first, last].
inline std::vector<std::size_t> range_of(std::size_t first, std::size_t last) {
  std::vector<std::size_t> positions;
  for (; first <= last; ++first) positions.push_back(first);
  return positions;
}
inline Tokens operator+(Tokens a, const Tokens& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

}  // namespace kvkeep::cache
