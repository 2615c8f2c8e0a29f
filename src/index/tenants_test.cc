// Tenants in the index: each has a trie of its own. The twin is one index for each of them.

#include <gtest/gtest.h>

#include <array>
#include <random>
#include <string>
#include <vector>

#include "base/test_seed.h"
#include "index/text_match_twin_test.h"

namespace kvkeep::index {
namespace {

constexpr FingerprintHash kModel{{9}};

Cursor root_of(const Tenant& tenant) { return {kRootSegment, {}, tenant}; }

PrefixHash name_for(const Tenant& tenant, TokenSpan prefix) {
  PrefixHasher hasher(prefix_key(kModel, tenant));
  hasher.append(prefix);
  return hasher.current();
}

// Inserts what the tenant does not know, in segments of at most `piece` ids.
void learn(PrefixIndex& index, const Tenant& tenant, const Tokens& all, std::size_t piece,
           Origin origin = Origin::kPrompt) {
  Cursor at = index.advance(root_of(tenant), all);
  while (at.at.value() < all.size()) {
    const std::size_t begin = at.at.value();
    const std::size_t end = std::min(all.size(), begin + piece);
    const TokenSpan tokens(all);
    const SegmentId id = index.insert(at, tokens.subspan(begin, end - begin), name_for(tenant, tokens.first(begin)),
                                      name_for(tenant, tokens.first(end)), origin);
    at = {id, Position{} + end};
  }
}

std::size_t known(const PrefixIndex& index, const Tenant& tenant, const Tokens& prompt) {
  const std::vector<Step> steps = index.match(prompt, tenant);
  return steps.empty() ? 0 : steps.back().range.end.value();
}

const std::array<Tenant, 3> kTenants{kNoTenant, tenant_of(kModel, "one"), tenant_of(kModel, "other")};

// Forgets a segment without children that some tenant has, in both.
void forget_one(PrefixIndex& shared, std::array<PrefixIndex, 3>& twins, std::mt19937_64& random) {
  const std::vector<SegmentId> ends = shared.childless();
  if (ends.empty()) return;
  const SegmentId last = ends[random() % ends.size()];
  const auto tenant = static_cast<std::size_t>(std::ranges::find(kTenants, shared.tenant(last)) - kTenants.begin());
  const Tokens path = shared.path_tokens({last, shared.info(last).range.end});
  const Cursor same = twins[tenant].advance({}, path);
  ASSERT_EQ(same.at.value(), path.size()) << "a segment that its tenant does not know";
  twins[tenant].erase(same.segment);
  shared.erase(last);
}

TEST(IndexTenants, AreAsManyIndexes) {
  const std::uint64_t seed = test_seed();
  for (std::uint64_t round = 0; round < 100; ++round) {
    std::mt19937_64 random(seed + round);
    PrefixIndex shared;
    std::array<PrefixIndex, 3> twins;
    for (int step = 0; step < 60; ++step) {
      const std::size_t who = random() % kTenants.size();
      Tokens tokens(1 + random() % 8);
      for (TokenId& id : tokens) id = static_cast<TokenId>(random() % 2);
      const std::size_t piece = 1 + random() % 4;
      if (random() % 3 == 0) {
        ASSERT_NO_FATAL_FAILURE(forget_one(shared, twins, random)) << "seed " << seed + round;
      } else {
        learn(shared, kTenants[who], tokens, piece);
        learn(twins[who], kNoTenant, tokens, piece);
      }
      for (std::size_t i = 0; i < kTenants.size(); ++i) {
        ASSERT_EQ(known(shared, kTenants[i], tokens), known(twins[i], kNoTenant, tokens)) << "seed " << seed + round;
      }
      ASSERT_EQ(shared.segment_count(), twins[0].segment_count() + twins[1].segment_count() + twins[2].segment_count());
    }
  }
}

TEST(IndexTenants, SegmentsTellWhoseTheyAre) {
  PrefixIndex index;
  const Tokens tokens{1, 2, 3, 4, 5};
  for (const Tenant& tenant : kTenants) learn(index, tenant, tokens, 2);
  for (const Tenant& tenant : kTenants) {
    const std::vector<Step> steps = index.match(tokens, tenant);
    ASSERT_EQ(steps.size(), 3U);
    for (const Step& step : steps) EXPECT_EQ(index.tenant(step.segment), tenant);
  }
}

// A reply that began a prompt: sampled ids at the root.
TEST(IndexTenants, TextIsMatchedWithinOne) {
  const Tokens sampled{0, 1, 0, 1};
  const Tokens prompt{2, 2};  // the same text
  const auto usable = [](SegmentId) { return true; };
  for (const Tenant& owner : kTenants) {
    PrefixIndex index;
    learn(index, owner, sampled, 3, Origin::kSampled);
    for (const Tenant& asks : kTenants) {
      const TextMatch match = match_text(index, prompt, texts(), usable, asks);
      EXPECT_EQ(match.head, asks == owner ? sampled : Tokens{});
      EXPECT_EQ(match_text(index, sampled, texts(), usable, asks).prompt_tokens, asks == owner ? 4U : 0U);
    }
  }
}

// ---- from names ----

struct TenantFile {
  Tenant tenant;
  Tokens path;
  std::size_t begin = 0;
};

NamedSegment named(const TenantFile& file) {
  const TokenSpan path(file.path);
  const Position begin = Position{} + file.begin;
  return {{begin, Position{} + path.size()},
          name_for(file.tenant, path.first(file.begin)),
          name_for(file.tenant, path),
          path.subspan(file.begin),
          format::PartKind::kRows,
          Origin::kPrompt,
          file.tenant};
}

TEST(IndexTenants, AreRebuiltEachUnderItsKeyInAnyOrder) {
  std::vector<TenantFile> files;
  for (const Tenant& tenant : kTenants) {
    files.push_back({tenant, {1, 2, 3}, 0});
    files.push_back({tenant, {1, 2, 3, 4}, 3});
    files.push_back({tenant, {1, 2, 7}, 2});  // in the middle of the first
  }
  std::mt19937_64 random(test_seed());
  for (int round = 0; round < 50; ++round) {
    std::ranges::shuffle(files, random);
    PrefixIndex index;
    // In two portions: the second finds the first in the index.
    const auto half = files.begin() + static_cast<std::ptrdiff_t>(random() % (files.size() + 1));
    std::vector<NamedSegment> portion;
    for (auto file = files.begin(); file != half; ++file) portion.push_back(named(*file));
    (void)rebuild(index, kModel, portion);
    portion.clear();
    for (const TenantFile& file : files) portion.push_back(named(file));
    (void)rebuild(index, kModel, portion);
    EXPECT_EQ(index.segment_count(), files.size());
    for (const TenantFile& file : files) ASSERT_EQ(known(index, file.tenant, file.path), file.path.size());
  }
}

TEST(IndexTenants, AFileThatTellsAnothersTenantIsNotPlaced) {
  for (const Tenant& owner : kTenants) {
    for (const Tenant& told : kTenants) {
      const TenantFile files[] = {{owner, {1, 2, 3}, 0}, {owner, {1, 2, 3, 4}, 3}};
      NamedSegment first = named(files[0]);
      NamedSegment second = named(files[1]);
      second.tenant = told;
      PrefixIndex index;
      EXPECT_EQ(rebuild(index, kModel, {first, second}).back().outcome == Placement::Outcome::kPlaced, told == owner);
      PrefixIndex empty;
      first.tenant = told;
      EXPECT_EQ(rebuild(empty, kModel, {first}).front().outcome == Placement::Outcome::kPlaced, told == owner);
    }
  }
}

// A client that names salts without end costs only its prompts, and nothing once these are gone.
TEST(IndexTenants, CostNothingWhenTheirSegmentsAreGone) {
  PrefixIndex index;
  const Tokens tokens{1, 2, 3};
  std::uint64_t after_first = 0;
  for (int i = 0; i < 20000; ++i) {
    const Tenant tenant = tenant_of(kModel, std::to_string(i));
    learn(index, tenant, tokens, 3);
    index.erase(index.match(tokens, tenant).front().segment);
    if (i == 0) after_first = index.memory().value();
  }
  EXPECT_EQ(index.memory().value(), after_first);
}

}  // namespace
}  // namespace kvkeep::index
