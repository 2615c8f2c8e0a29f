#pragma once

// Servers that share a frail engine, in virtual time, and prompts whose segments have bytes that follow from their
// tokens: a wrong byte is visible to everybody who knows the prompt.

#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "share/frail_engine_fixture.h"
#include "share/shared_store.h"
#include "share/vault.h"
#include "testing/sim/sample_segments.h"
#include "testing/sim/sim_clock.h"
#include "testing/sim/sim_executor.h"

namespace kvkeep::share {

using Tokens = std::vector<TokenId>;

inline std::uint64_t number_of(const PrefixHash& hash) {
  std::uint64_t number;
  std::memcpy(&number, hash.bytes.data(), sizeof number);
  return number;
}

// Returns the bytes of a segment or leaf that ends so: the only right ones.
inline std::vector<std::byte> right_bytes(const format::SegmentName& name) {
  const std::uint64_t number =
      number_of(name.begin_hash) * 31 + number_of(name.end_hash) + static_cast<std::uint64_t>(name.kind);
  return sim::sample_bytes(number, 100 + number % 3000);
}

inline PrefixHash hash_of(const FingerprintHash& fingerprint, const Tenant& tenant, TokenSpan tokens) {
  PrefixHasher hasher(prefix_key(fingerprint, tenant));
  hasher.append(tokens);
  return hasher.current();
}

// One server's store, and what it does with it.
class ShareServer {
 public:
  explicit ShareServer(FrailWorld& world, ShareOptions options = {}, std::size_t heads_at_once = 512)
      : ShareServer(world.clock, std::make_unique<FrailEngine>(world, heads_at_once), std::move(options)) {}
  ShareServer(sim::SimClock& clock, std::unique_ptr<ObjectEngine> engine, ShareOptions options = {})
      : clock_(clock), options_(with_fingerprint(std::move(options))) {
    auto made = SharedStore::make(std::move(engine), options_, clock, executor_, &prober_);
    EXPECT_TRUE(made.ok());
    store_ = std::move(*made);
    run_all();
  }
  ~ShareServer() {
    executor_.forget_all();
    prober_.forget_all();
  }
  ShareServer(const ShareServer&) = delete;
  ShareServer& operator=(const ShareServer&) = delete;

  SharedStore& store() { return *store_; }
  sim::SimExecutor& executor() { return executor_; }
  sim::SimExecutor& prober() { return prober_; }
  void run_all() {
    while (prober_.run_one() || executor_.run_one()) {}
  }
  // A second passes, and the tick with its probes comes.
  void tick(std::int64_t ms = 1'000) {
    clock_.advance_ms(ms);
    store_->tick();
    run_all();
  }

  // Offers the rows of the prompt cut at `ends`, and leaves of `leaf` at the same places. Returns how many were taken.
  std::size_t offer(const Tokens& prompt, const std::vector<Position>& ends, std::optional<format::PartKind> leaf = {},
                    const Tenant& tenant = kNoTenant) {
    std::size_t taken = 0;
    std::vector<format::PathStep> path;
    Position begin;
    for (const Position end : ends) {
      path.push_back(step(prompt, end, tenant));
      taken += store_->offer(publication(prompt, {begin, end}, format::PartKind::kRows, path, tenant)) ? 1 : 0;
      if (leaf) taken += store_->offer(publication(prompt, {end, end}, *leaf, path, tenant)) ? 1 : 0;
      begin = end;
    }
    return taken;
  }
  std::size_t publish(const Tokens& prompt, const std::vector<Position>& ends,
                      std::optional<format::PartKind> leaf = {}, const Tenant& tenant = kNoTenant) {
    const std::size_t taken = offer(prompt, ends, leaf, tenant);
    executor_.run_all();
    return taken;
  }

  format::PathStep step(const Tokens& prompt, Position end, const Tenant& tenant = kNoTenant) const {
    const format::ShortHash hash =
        format::short_hash(hash_of(options_.fingerprint, tenant, TokenSpan(prompt).first(end.value())));
    return {.end = end, .place = end, .hash = hash, .object_end = end, .object_hash = hash};
  }
  Publication publication(const Tokens& prompt, TokenRange range, format::PartKind kind,
                          const std::vector<format::PathStep>& path, const Tenant& tenant = kNoTenant) const {
    Publication publication{.segment = {}, .path = path, .payload = {}};
    format::SegmentHeader& segment = publication.segment;
    segment.fingerprint = options_.fingerprint;
    segment.tenant = tenant;
    const TokenSpan tokens(prompt);
    segment.name = {.begin = range.begin,
                    .end = range.end,
                    .begin_hash = hash_of(options_.fingerprint, tenant, tokens.first(range.begin.value())),
                    .end_hash = hash_of(options_.fingerprint, tenant, tokens.first(range.end.value())),
                    .kind = kind};
    const TokenSpan own = tokens.subspan(range.begin.value(), range.size());
    segment.tokens.assign(own.begin(), own.end());
    const std::vector<std::byte> bytes = right_bytes(segment.name);
    segment.parts = {format::Part{.kind = kind,
                                  .size_bytes = bytes.size(),
                                  .sum = format::part_checksum(segment.fingerprint, segment.name, kind, bytes)}};
    auto buffer = store::PayloadBuffer::allocate(bytes.size());
    std::ranges::copy(bytes, buffer.span().begin());
    publication.payload = std::move(buffer).freeze();
    return publication;
  }

  std::optional<SharedPath> find(const Tokens& prompt, const std::vector<Position>& ends,
                                 format::PartKind kind = format::PartKind::kRows, const Tenant& tenant = kNoTenant,
                                 Position known = {}) {
    const ShareQuery query{.prompt = prompt, .tenant = tenant, .kind = kind, .ends = ends, .known = known};
    return store_->find(query, clock_.monotonic_ns() + kPatienceNs);
  }
  ObjectName name_of(const format::SegmentHeader& segment) const {
    const Vault vault({.fingerprint = options_.fingerprint, .device = options_.device, .key = options_.key});
    return vault.name_of(format::short_hash(segment.name.end_hash), segment.name.kind);
  }
  Result<std::shared_ptr<const store::Payload>> get(const format::SegmentHeader& segment) {
    return store_->get(segment, clock_.monotonic_ns() + kPatienceNs);
  }

  // Returns how far the prompt can be restored from the engine. Each byte on the way must be right.
  Position restorable(const Tokens& prompt, const std::vector<Position>& ends,
                      format::PartKind kind = format::PartKind::kRows, const Tenant& tenant = kNoTenant) {
    const auto path = find(prompt, ends, kind, tenant);
    if (!path) return {};
    Position at;
    for (const format::SharedHead& head : path->rows) {
      const format::SegmentName& name = head.segment.name;
      EXPECT_EQ(name.begin.value() <= at.value(), true);
      if (!is_right(head)) return kind == format::PartKind::kRows ? at : Position{};
      at = std::min(name.end, path->end);
    }
    EXPECT_EQ(at, path->end);
    if (path->leaf && !is_right(*path->leaf)) return {};
    EXPECT_EQ(path->leaf.has_value(), kind != format::PartKind::kRows);
    return path->end;
  }

 private:
  static constexpr std::int64_t kPatienceNs = 10'000'000'000;

  static ShareOptions with_fingerprint(ShareOptions options) {
    if (options.fingerprint == FingerprintHash{}) options.fingerprint = sim::sample_fingerprint(1);
    return options;
  }
  // Returns true if the payload came; then it must be right.
  bool is_right(const format::SharedHead& head) {
    const auto payload = get(head.segment);
    if (!payload.ok()) return false;
    EXPECT_TRUE(std::ranges::equal((*payload)->bytes(), right_bytes(head.segment.name))) << "wrong bytes";
    return true;
  }

  sim::SimClock& clock_;
  const ShareOptions options_;
  sim::SimExecutor executor_;
  sim::SimExecutor prober_;
  std::unique_ptr<SharedStore> store_;
};

// Tokens that depend on a conversation's number from `shared` on; before that all are the same.
inline Tokens share_prompt(std::uint32_t conversation, std::size_t size, std::size_t shared = 0) {
  Tokens tokens;
  for (std::size_t i = 0; i < size; ++i) {
    tokens.push_back(static_cast<TokenId>(i < shared ? 1000 + i : 100'000 * (conversation + 1) + i));
  }
  return tokens;
}

inline std::vector<Position> every(std::uint32_t step, std::uint32_t size) {
  std::vector<Position> ends;
  for (std::uint32_t end = step; end <= size; end += step) ends.push_back(Position{end});
  return ends;
}

class SharedStoreTest : public ::testing::Test {
 protected:
  sim::SimClock clock_;
  FrailWorld world_{clock_};

  double ms_of(const std::function<void()>& action) {
    const std::int64_t from_ns = clock_.monotonic_ns();
    action();
    return os::elapsed_ms(from_ns, clock_.monotonic_ns());
  }
};

}  // namespace kvkeep::share
