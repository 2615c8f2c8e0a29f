#include "store/removal_order.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "base/test_seed.h"

namespace kvkeep::store {
namespace {

using format::PartKind;

// A file and all ids before its end.
struct Sample {
  UnservedFile file;
  std::vector<TokenId> ids;
};

PrefixHash hash_of(const std::vector<TokenId>& ids, std::size_t count) {
  PrefixHasher hasher(FingerprintHash{});
  hasher.append(TokenSpan(ids).first(count));
  return hasher.current();
}

// Conversations that continue the beginnings of others, stored run by run, with leaves below rows.
class Conversations {
 public:
  explicit Conversations(std::mt19937& random, bool branch_inside) : random_(random), branch_inside_(branch_inside) {
    const std::size_t count = 1 + below(5);
    for (std::size_t i = 0; i < count; ++i) add_conversation();
  }
  std::vector<Sample> take() { return std::move(samples_); }

 private:
  std::size_t below(std::size_t limit) { return random_() % limit; }

  void add_conversation() {
    std::vector<TokenId> ids;
    if (!samples_.empty() && below(4) > 0) {
      const Sample& other = samples_[below(samples_.size())];
      ids = other.ids;
      const std::size_t own = other.file.place->name.end - other.file.place->name.begin;
      if (branch_inside_ && own > 1) ids.resize(ids.size() - below(own));
    }
    const std::size_t runs = 1 + below(3);
    for (std::size_t run = 0; run < runs; ++run) {
      const std::size_t begin = ids.size();
      const std::size_t tokens = 1 + below(4);
      for (std::size_t i = 0; i < tokens; ++i) ids.push_back(static_cast<TokenId>(next_id_++));
      add(ids, begin, PartKind::kRows);
      if (below(2) == 0) add(ids, ids.size(), PartKind::kPoint);
      if (below(2) == 0) add(ids, begin, PartKind::kWindowRows);
      if (branch_inside_ && tokens > 1 && below(3) == 0) {
        const std::vector<TokenId> inside(ids.begin(), ids.end() - 1);
        add(inside, inside.size(), PartKind::kPoint);
      }
      if (below(3) == 0) add_whole(ids);
    }
  }

  void add_whole(const std::vector<TokenId>& ids) {
    Position base;
    for (const Sample& other : samples_) {
      const bool before = other.file.place->name.kind == PartKind::kWhole && other.ids.size() < ids.size() &&
                          std::ranges::equal(other.ids, std::span(ids).first(other.ids.size()));
      if (before && below(2) == 0) base = other.file.place->name.end;
    }
    add(ids, ids.size(), PartKind::kWhole);
    samples_.back().file.place->base = base;
  }

  void add(const std::vector<TokenId>& ids, std::size_t begin, PartKind kind) {
    FilePlace place;
    place.name = {.begin = Position{static_cast<std::uint32_t>(begin)},
                  .end = Position{static_cast<std::uint32_t>(ids.size())},
                  .begin_hash = hash_of(ids, begin),
                  .end_hash = hash_of(ids, ids.size()),
                  .kind = kind};
    samples_.push_back({{.path = std::string("/cache/").append(std::to_string(samples_.size())),
                         .directory = "/cache",
                         .modified_ns = static_cast<std::int64_t>(below(20)),
                         .place = place},
                        ids});
  }

  std::mt19937& random_;
  const bool branch_inside_;
  std::vector<Sample> samples_;
  std::uint32_t next_id_ = 1;
};

bool begins_with(const std::vector<TokenId>& ids, const std::vector<TokenId>& all, std::size_t count) {
  return ids.size() >= count && all.size() >= count &&
         std::equal(ids.begin(), ids.begin() + static_cast<long>(count), all.begin());
}

// By the ids themselves: whether `file` hangs below `upper`.
bool continues(const Sample& file, const Sample& upper) {
  const format::SegmentName& own = file.file.place->name;
  const format::SegmentName& above = upper.file.place->name;
  const bool rows = own.kind == PartKind::kRows;
  const Position at = rows ? own.begin : own.end;
  if (above.kind == PartKind::kRows)
    return &file != &upper && above.begin < at && at <= above.end && begins_with(upper.ids, file.ids, at.value());
  if (own.kind == PartKind::kWindowRows && above.kind == PartKind::kWindowRows)
    return above.end == own.begin && begins_with(upper.ids, file.ids, above.end.value());
  return own.kind == PartKind::kWhole && above.kind == PartKind::kWhole && file.file.place->base == above.end &&
         above.end < own.end && begins_with(upper.ids, file.ids, above.end.value());
}

std::vector<UnservedFile> files_of(const std::vector<Sample>& samples) {
  std::vector<UnservedFile> files;
  for (const Sample& sample : samples) files.push_back(sample.file);
  return files;
}

TEST(RemovalOrder, NothingLeavesBeforeWhatContinuesIt) {
  std::mt19937 random(static_cast<std::mt19937::result_type>(test_seed()));
  std::size_t inside = 0;
  for (int i = 0; i < 3'000; ++i) {
    const std::vector<Sample> samples = Conversations(random, true).take();
    const std::vector<std::size_t> order = removal_order(files_of(samples));
    ASSERT_EQ(order.size(), samples.size());
    std::vector<bool> gone(samples.size(), false);
    for (const std::size_t next : order) {
      ASSERT_FALSE(gone[next]);
      for (std::size_t other = 0; other < samples.size(); ++other) {
        if (gone[other] || other == next || !continues(samples[other], samples[next])) continue;
        const bool elsewhere = std::ranges::any_of(samples, [&](const Sample& sample) {
          const std::size_t at = static_cast<std::size_t>(&sample - samples.data());
          return at != next && !gone[at] && sample.file.place->name.kind == samples[next].file.place->name.kind &&
                 continues(samples[other], sample);
        });
        ASSERT_TRUE(elsewhere) << i << ": " << next << " before " << other;
      }
      const format::SegmentName& name = samples[next].file.place->name;
      inside += std::ranges::any_of(samples, [&](const Sample& sample) {
        const format::SegmentName& own = sample.file.place->name;
        return continues(sample, samples[next]) && own.begin < name.end && own.kind == PartKind::kRows;
      });
      gone[next] = true;
    }
  }
  EXPECT_GT(inside, 1'000U) << "some branch in the middle of others";
}

// If all hang at ends, exactly the oldest of those that nothing continues.
TEST(RemovalOrder, TheOldestOfThoseThatNothingContinuesLeaves) {
  std::mt19937 random(static_cast<std::mt19937::result_type>(test_seed()));
  for (int i = 0; i < 2'000; ++i) {
    std::vector<Sample> samples = Conversations(random, false).take();
    for (Sample& sample : samples) sample.file.place->base = Position{};
    std::vector<std::size_t> left(samples.size());
    for (std::size_t at = 0; at < left.size(); ++at) left[at] = at;
    for (const std::size_t next : removal_order(files_of(samples))) {
      const auto is_last = [&](std::size_t file) {
        return std::ranges::none_of(left, [&](std::size_t other) { return continues(samples[other], samples[file]); });
      };
      std::vector<std::size_t> may;
      std::ranges::copy_if(left, std::back_inserter(may), is_last);
      const auto oldest = std::ranges::min_element(may, {}, [&](std::size_t file) {
        return std::pair(samples[file].file.modified_ns, samples[file].file.path);
      });
      ASSERT_EQ(next, *oldest) << i;
      std::erase(left, next);
    }
    ASSERT_TRUE(left.empty());
  }
}

TEST(RemovalOrder, DirectoriesHaveNothingToDoWithEachOther) {
  std::mt19937 random(static_cast<std::mt19937::result_type>(test_seed()));
  std::vector<UnservedFile> files = files_of(Conversations(random, true).take());
  for (std::size_t i = 0; i < files.size(); ++i) {
    files[i].directory = std::to_string(i);
    files[i].modified_ns = static_cast<std::int64_t>(i);
  }
  const std::vector<std::size_t> order = removal_order(files);
  EXPECT_EQ(order.size(), files.size());
  EXPECT_TRUE(std::ranges::is_sorted(order));
}

TEST(RemovalOrder, UnreadableFilesKeepNothing) {
  const std::vector<UnservedFile> files{{.path = "/c/b", .directory = "/c", .modified_ns = 2, .place = {}},
                                        {.path = "/c/a", .directory = "/c", .modified_ns = 1, .place = {}}};
  EXPECT_EQ(removal_order(files), (std::vector<std::size_t>{1, 0}));
}

// Forged headers may claim anything: all files leave nevertheless.
TEST(RemovalOrder, AllFilesLeaveWhateverTheirHeadersClaim) {
  std::mt19937 random(static_cast<std::mt19937::result_type>(test_seed()));
  const auto below = [&](std::uint32_t limit) { return static_cast<std::uint32_t>(random() % limit); };
  for (int i = 0; i < 20'000; ++i) {
    std::vector<UnservedFile> files;
    for (std::uint32_t count = below(8); count > 0; --count) {
      FilePlace place;
      place.name = {.begin = Position{below(4)}, .end = Position{below(4)}, .begin_hash = {}, .end_hash = {}};
      place.name.begin_hash.bytes[0] = static_cast<std::uint8_t>(below(2));
      place.name.end_hash.bytes[0] = static_cast<std::uint8_t>(below(2));
      place.name.kind = format::kPartKinds[below(4)];
      place.base = Position{below(4)};
      files.push_back({.path = std::to_string(count), .directory = "/c", .modified_ns = below(3), .place = place});
    }
    std::vector<std::size_t> order = removal_order(files);
    std::ranges::sort(order);
    ASSERT_EQ(order.size(), files.size());
    ASSERT_EQ(std::ranges::adjacent_find(order), order.end());
  }
}

}  // namespace
}  // namespace kvkeep::store
