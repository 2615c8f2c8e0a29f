#include "store/served_files.h"

#include <gtest/gtest.h>

#include "testing/sim/sample_segments.h"

namespace kvkeep::store {
namespace {

const sim::SampleSegment kFirst = sim::sample_segment(sim::sample_fingerprint(1), 1, 0, 700);
const sim::SampleSegment kSecond = sim::sample_segment(sim::sample_fingerprint(1), 1, 1, 5000);

std::string name_of(const sim::SampleSegment& segment) { return format::file_name(segment.header.name); }

os::FileInfo info_of(const sim::SampleSegment& segment, std::int64_t modified_ns) {
  return {.name = name_of(segment),
          .size = ByteCount{format::file_bytes(segment.header)},
          .modified_ns = modified_ns,
          .is_regular = true};
}

ServedFile written(const sim::SampleSegment& segment, std::int64_t modified_ns) {
  return {.name = segment.header.name,
          .header = format::encode_header(segment.header),
          .size_bytes = format::file_bytes(segment.header),
          .modified_ns = modified_ns,
          .durable = true};
}

std::vector<FoundSegment> found(const sim::SampleSegment& segment, std::int64_t modified_ns) {
  std::vector<FoundSegment> one;
  one.push_back({info_of(segment, modified_ns), segment.header, {}});
  return one;
}

TEST(ServedFiles, ALaterFileOfTheNameIsAnother) {
  ServedFiles table;
  table.serve(name_of(kFirst), written(kFirst, 1));
  const auto before = table.generation_of(name_of(kFirst));
  ASSERT_TRUE(before);
  table.serve(name_of(kFirst), written(kFirst, 2));
  EXPECT_FALSE(table.take(name_of(kFirst), *before));
  table.set_modified(name_of(kFirst), *before, 9);
  table.suspect(name_of(kFirst), *before);
  EXPECT_EQ(table.find(name_of(kFirst))->modified_ns, 2);
  EXPECT_TRUE(table.has_durable(kFirst.header.name));
  EXPECT_TRUE(table.take(name_of(kFirst), *table.generation_of(name_of(kFirst))));
  EXPECT_EQ(table.size(), 0U);
}

TEST(ServedFiles, OnlyFilesThatThisProcessSyncedAreDurable) {
  ServedFiles table;
  table.adopt(found(kFirst, 1));
  EXPECT_FALSE(table.has_durable(kFirst.header.name)) << "its writer may have died before the sync";
  table.serve(name_of(kFirst), written(kFirst, 2));
  EXPECT_TRUE(table.has_durable(kFirst.header.name));
  table.suspect(name_of(kFirst), *table.generation_of(name_of(kFirst)));
  EXPECT_FALSE(table.has_durable(kFirst.header.name)) << "the device refused to read it";
  EXPECT_FALSE(table.has_durable(kSecond.header.name));
}

TEST(ServedFiles, AListingTellsWhatLeftAndWhatWasUsed) {
  ServedFiles table;
  table.serve(name_of(kFirst), written(kFirst, 1));
  table.serve(name_of(kSecond), written(kSecond, 1));
  EXPECT_EQ(table.physical_bytes(), written(kFirst, 1).physical() + written(kSecond, 1).physical());
  const auto changes = table.compare_with({info_of(kSecond, 5)});
  ASSERT_EQ(changes.gone.size(), 1U);
  EXPECT_EQ(changes.gone.front().name, kFirst.header.name);
  ASSERT_EQ(changes.used.size(), 1U);
  EXPECT_EQ(changes.used.front().modified_ns, 5);
  EXPECT_TRUE(table.compare_with({info_of(kSecond, 5)}).used.empty());
  os::FileInfo cut = info_of(kSecond, 5);
  cut.size = ByteCount{10};
  EXPECT_EQ(table.compare_with({cut}).gone.size(), 1U);
}

TEST(ServedFiles, AFileServedBeforeIsNotReportedAsFound) {
  ServedFiles table;
  table.adopt(found(kSecond, 1));
  table.adopt(found(kFirst, 1));
  const auto told = table.take_found();
  ASSERT_EQ(told.size(), 2U);
  EXPECT_EQ(told.front().header.name, kFirst.header.name) << "by ascending begin";
  const ServedFiles::Table before = table.forget_all();
  table.adopt(found(kFirst, 1));
  EXPECT_EQ(table.missing_from(before), std::vector{kSecond.header.name});
  EXPECT_TRUE(table.take_found().empty());
  EXPECT_EQ(table.size(), 1U);
}

TEST(ServedFiles, AnIndexIsDueAfterAChange) {
  ServedFiles table;
  table.serve(name_of(kFirst), written(kFirst, 1));
  EXPECT_TRUE(table.changed_index());
  EXPECT_FALSE(table.changed_index());
  table.set_modified(name_of(kFirst), *table.generation_of(name_of(kFirst)), 7);
  EXPECT_TRUE(table.changed_index());
  table.set_index_current(false);
  EXPECT_TRUE(table.changed_index()) << "the last one was not written";
}

}  // namespace
}  // namespace kvkeep::store
