// The path to a segment, as objects of the shared tier name it.

#include "cache/publishing.h"

#include "base/media_ids.h"
#include "cache/parts_fixture.h"

namespace kvkeep::cache {
namespace {

// A prompt with a picture of 40 embeddings at 8 positions, cut into segments.
class PublishedPlaces : public ::testing::Test {
 protected:
  PublishedPlaces() {
    prompt_.assign(10, 1);
    const auto picture = media_ids({}, 0, {.embeddings = 40, .positions = 8, .plane = true});
    prompt_.insert(prompt_.end(), picture.begin(), picture.end());
    prompt_.insert(prompt_.end(), 20, 2);
  }

  SegmentId add(SegmentId parent, std::uint32_t end) REQUIRES(kCacheLock) {
    const Position begin = parent == kRootSegment ? Position{} : world_.table.info(parent).range.end;
    return world_.table.insert({parent, begin}, own({begin, Position{end}}), hash(begin), hash(Position{end}),
                               format::Origin::kPrompt, {kPayloadBytes, world_.clock.wall_ns()});
  }
  TokenSpan own(TokenRange range) const { return TokenSpan(prompt_).subspan(range.begin.value(), range.size()); }
  PrefixHash hash(Position end) const {
    PrefixHasher hasher{FingerprintHash{}};
    hasher.append(own({Position{}, end}));
    return hasher.current();
  }
  std::vector<std::uint32_t> places(SegmentId segment) REQUIRES(kCacheLock) {
    std::vector<std::uint32_t> places;
    for (const format::PathStep& step : shared_path(world_.table, segment)) places.push_back(step.place.value());
    return places;
  }

  PartsTable world_;
  std::vector<TokenId> prompt_;
};

TEST_F(PublishedPlaces, AreCountedAsTheModelDoes) {
  CacheLock lock(world_.mutex);
  const SegmentId text = add(kRootSegment, 10);
  const SegmentId shown = add(text, 55);
  const SegmentId last = add(shown, 70);
  EXPECT_EQ(places(text), (std::vector<std::uint32_t>{10}));
  EXPECT_EQ(places(last), (std::vector<std::uint32_t>{10, 23, 38}));
  const SegmentId leaf = world_.table.insert_leaf({last, Position{60}}, format::PartKind::kPoint, Position{60},
                                                  hash(Position{60}), hash(Position{60}), {1, 0});
  EXPECT_EQ(places(leaf), (std::vector<std::uint32_t>{10, 23, 28}));
}

}  // namespace
}  // namespace kvkeep::cache
