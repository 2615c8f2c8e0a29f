// Names of segment files.

#include <gtest/gtest.h>

#include <utility>

#include "format/segment_file.h"

namespace kvkeep::format {
namespace {

SegmentName example_name() {
  SegmentName name{.begin = Position{5}, .end = Position{8}, .begin_hash = {}, .end_hash = {}};
  for (std::uint8_t i = 0; i < 32; ++i) {
    name.begin_hash.bytes[i] = static_cast<std::uint8_t>(0xa0 + i);
    name.end_hash.bytes[i] = static_cast<std::uint8_t>(0xc0 + i);
  }
  return name;
}

TEST(FileName, TellsBothEnds) {
  EXPECT_EQ(file_name(example_name()), "a0a1a2a3a4a5a6a7a8a9aaabacadaeaf-c0c1c2c3c4c5c6c7c8c9cacbcccdcecf.kvs");
}

TEST(FileName, TellsTheKind) {
  SegmentName name = example_name();
  const std::string rows = file_name(name);
  const std::string hashes = rows.substr(0, rows.find('.'));
  const std::pair<PartKind, const char*> suffixes[] = {{PartKind::kRows, ".kvs"},
                                                       {PartKind::kWindowRows, ".window.kvs"},
                                                       {PartKind::kPoint, ".point.kvs"},
                                                       {PartKind::kWhole, ".whole.kvs"}};
  for (const auto& [kind, suffix] : suffixes) {
    name.kind = kind;
    EXPECT_EQ(file_name(name), hashes + suffix);
    EXPECT_TRUE(is_file_name(file_name(name)));
  }
}

TEST(FileName, NothingElseIsOne) {
  const std::string good = file_name(example_name());
  ASSERT_TRUE(is_file_name(good));
  for (std::size_t at = 0; at < good.size(); ++at) {
    std::string bad = good;
    bad[at] = '_';
    EXPECT_FALSE(is_file_name(bad)) << bad;
    EXPECT_FALSE(is_file_name(good.substr(0, at))) << at;
    EXPECT_FALSE(is_file_name(good.substr(at + 1))) << at;
  }
  const std::string hashes = good.substr(0, good.find('.'));
  for (const char* suffix :
       {"", ".kv", ".kvs ", ".rows.kvs", ".Point.kvs", ".point", ".point.kvs.tmp", ".whole.kvs1"}) {
    EXPECT_FALSE(is_file_name(hashes + suffix)) << suffix;
  }
  std::string upper_case = good;
  upper_case.front() = 'A';
  EXPECT_FALSE(is_file_name(upper_case));
}

}  // namespace
}  // namespace kvkeep::format
