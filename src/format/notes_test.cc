#include "format/notes.h"

#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <random>

#include "base/test_seed.h"

namespace kvkeep::format {
namespace {

std::vector<std::byte> bytes_of(const std::string& text) {
  const auto span = std::as_bytes(std::span(text));
  return {span.begin(), span.end()};
}

void append(std::vector<std::byte>& file, const std::vector<std::byte>& bytes) {
  file.insert(file.end(), bytes.begin(), bytes.end());
}

std::vector<std::byte> file_of(const std::vector<std::string>& payloads) {
  std::vector<std::byte> file = encode_record_file_head(7);
  for (const std::string& payload : payloads) append(file, encode_record(bytes_of(payload)));
  return file;
}

std::vector<std::string> texts(const RecordFile& file) {
  std::vector<std::string> all;
  for (const ByteSpan payload : file.payloads) {
    all.emplace_back(reinterpret_cast<const char*>(payload.data()), payload.size());
  }
  return all;
}

const std::vector<std::string> kTexts = {"one", "", "three", std::string(1000, 'x')};

TEST(RecordFile, GivesBackWhatWasWritten) {
  const auto bytes = file_of(kTexts);
  const RecordFile file = decode_record_file(bytes, 7);
  EXPECT_TRUE(file.whole);
  EXPECT_EQ(texts(file), kTexts);
}

TEST(RecordFile, CutAnywhereItGivesTheRecordsBefore) {
  const auto bytes = file_of(kTexts);
  std::size_t most = 0;
  for (std::size_t size = 0; size < bytes.size(); ++size) {
    const RecordFile file = decode_record_file(ByteSpan(bytes).first(size), 7);
    const auto found = texts(file);
    ASSERT_LE(found.size(), kTexts.size() - 1);
    EXPECT_TRUE(std::equal(found.begin(), found.end(), kTexts.begin()));
    EXPECT_GE(found.size(), most) << "a longer file has no fewer records";
    most = found.size();
    if (file.whole && size > 0) {
      EXPECT_EQ(file_of({kTexts.begin(), kTexts.begin() + most}).size(), size);
    }
  }
  EXPECT_EQ(most, 3U);
}

TEST(RecordFile, AnyFlippedBitEndsItBeforeTheDamage) {
  const auto bytes = file_of(kTexts);
  for (std::size_t at = 0; at < bytes.size(); ++at) {
    auto hurt = bytes;
    hurt[at] ^= std::byte{1};
    const RecordFile file = decode_record_file(hurt, 7);
    EXPECT_FALSE(file.whole) << at;
    const auto found = texts(file);
    EXPECT_TRUE(std::equal(found.begin(), found.end(), kTexts.begin())) << at;
  }
}

TEST(RecordFile, AFileOfAnotherKindHoldsNothing) {
  const auto bytes = file_of(kTexts);
  const RecordFile file = decode_record_file(bytes, 8);
  EXPECT_FALSE(file.whole);
  EXPECT_TRUE(file.payloads.empty());
}

TEST(SampledTurn, RoundTrips) {
  PrefixHash before;
  before.bytes[31] = 9;
  for (const SampledTurnRecord& turn : {SampledTurnRecord{before, {}, {}}, {before, {1, -1, 151643}, {"call_1", ""}}}) {
    const auto decoded = decode_sampled_turn(encode_sampled_turn(turn));
    ASSERT_TRUE(decoded);
    EXPECT_EQ(*decoded, turn);
  }
}

SampledTurnRecord turn_at_nine(std::vector<TokenId> ids, std::vector<std::string> call_ids = {}) {
  SampledTurnRecord turn{{}, std::move(ids), std::move(call_ids)};
  turn.before.bytes[31] = 9;
  return turn;
}

std::vector<std::byte> golden_turns(const std::string& name) {
  std::ifstream file(KVKEEP_SOURCES "/format/testdata/" + name, std::ios::binary);
  const std::string bytes{std::istreambuf_iterator<char>(file), {}};
  const ByteSpan span = std::as_bytes(std::span(bytes));
  return {span.begin(), span.end()};
}

TEST(SharedTurns, OneAndSeveralAreTheGoldenFiles) {
  const std::vector<SampledTurnRecord> one{turn_at_nine({1, 2, 151643}, {"call_1", ""})};
  const std::vector<SampledTurnRecord> several{one[0], turn_at_nine({}), turn_at_nine({1, 3}, {"call_2"})};
  ASSERT_FALSE(golden_turns("turns_v1.one").empty());
  EXPECT_EQ(encode_shared_turns(one), golden_turns("turns_v1.one"));
  EXPECT_EQ(encode_sampled_turn(one[0]), golden_turns("turns_v1.one")) << "former servers read one";
  EXPECT_EQ(encode_shared_turns(several), golden_turns("turns_v1.several"));
  EXPECT_EQ(*decode_shared_turns(golden_turns("turns_v1.one")), one);
  EXPECT_EQ(*decode_shared_turns(golden_turns("turns_v1.several")), several);
  EXPECT_FALSE(decode_sampled_turn(golden_turns("turns_v1.several"))) << "to a former server it is a miss";
}

TEST(SharedTurns, CutOrLengthenedTheyAreDamaged) {
  auto bytes = encode_shared_turns({turn_at_nine({1, 2}, {"call"}), turn_at_nine({3})});
  for (std::size_t size = 0; size < bytes.size(); ++size) {
    EXPECT_FALSE(decode_shared_turns(ByteSpan(bytes).first(size))) << size;
  }
  bytes.push_back(std::byte{0});
  EXPECT_FALSE(decode_shared_turns(bytes));
}

TEST(SharedTurns, CountsThatNobodyWritesAreDamaged) {
  const auto bytes = encode_shared_turns({turn_at_nine({}), turn_at_nine({1}), turn_at_nine({2})});
  constexpr std::size_t kCountAt = 36;
  for (const unsigned count : {0U, 1U, 5U, 255U}) {
    auto other = bytes;
    other[kCountAt] = static_cast<std::byte>(count);
    other.resize(other.size() + 100);  // empty turns
    const auto read = decode_shared_turns(other);
    ASSERT_FALSE(read) << count;
    EXPECT_EQ(read.error().kind, ErrorKind::kDamaged);
  }
  auto twice = encode_shared_turns({turn_at_nine({1}), turn_at_nine({2})});
  ASSERT_TRUE(decode_shared_turns(twice));
  std::copy_n(twice.begin() + kCountAt + 4, 12, twice.begin() + kCountAt + 16);
  EXPECT_FALSE(decode_shared_turns(twice)) << "the same turn twice";
}

TEST(SharedTurns, TheNewestStayEachOnce) {
  std::vector<SampledTurnRecord> turns;
  for (TokenId id = 0; id < 6; ++id) turns.push_back(turn_at_nine({id}));
  turns.push_back(turns[3]);
  EXPECT_EQ(*decode_shared_turns(encode_shared_turns(turns)),
            (std::vector<SampledTurnRecord>{turns[2], turns[4], turns[5], turns[3]}));
}

TEST(SharedTurns, TheNewestStayWithinTheBytes) {
  const SampledTurnRecord small = turn_at_nine({1}), large = turn_at_nine(std::vector<TokenId>(100, 2));
  const auto all = encode_shared_turns({large, small, turn_at_nine({3})});
  EXPECT_EQ(*decode_shared_turns(encode_shared_turns({large, small, turn_at_nine({3})}, all.size())),
            (std::vector<SampledTurnRecord>{large, small, turn_at_nine({3})}));
  EXPECT_EQ(*decode_shared_turns(encode_shared_turns({large, small, turn_at_nine({3})}, all.size() - 1)),
            (std::vector<SampledTurnRecord>{small, turn_at_nine({3})}));
  EXPECT_EQ(*decode_shared_turns(encode_shared_turns({small, large}, 50)), (std::vector<SampledTurnRecord>{large}));
}

TEST(SampledTurn, CutOrLengthenedItIsDamaged) {
  auto bytes = encode_sampled_turn({{}, {1, 2, 3}, {"call_1", "call_2"}});
  for (std::size_t size = 0; size < bytes.size(); ++size) {
    EXPECT_FALSE(decode_sampled_turn(ByteSpan(bytes).first(size))) << size;
  }
  bytes.push_back(std::byte{0});
  EXPECT_FALSE(decode_sampled_turn(bytes));
}

// ---- offenders ----

OffenderRecord some_offender() {
  return {.client = "claude-cli",
          .place = "system",
          .kind = "volatile-text",
          .what = "date",
          .line = "Today is",
          .times = 41,
          .lost_tokens = 1'104'211,
          .lost_us = 1'100'000'000,
          .last_ns = -5};
}

TEST(Offender, RoundTrips) {
  for (const OffenderRecord& offender : {some_offender(), OffenderRecord{}}) {
    const auto back = decode_offender(encode_offender(offender));
    ASSERT_TRUE(back.ok());
    EXPECT_EQ(*back, offender);
  }
}

TEST(Offender, LongTextsAreCut) {
  OffenderRecord offender = some_offender();
  offender.line.assign(10'000, 'x');
  const auto back = decode_offender(encode_offender(offender));
  ASSERT_TRUE(back.ok());
  EXPECT_EQ(back->line.size(), kMostOffenderText);
}

TEST(Offender, CutOrLengthenedItIsDamaged) {
  std::vector<std::byte> bytes = encode_offender(some_offender());
  for (std::size_t size = 0; size < bytes.size(); ++size) {
    const auto cut = decode_offender(ByteSpan(bytes).first(size));
    ASSERT_FALSE(cut.ok()) << size;
    EXPECT_EQ(cut.error().kind, ErrorKind::kDamaged);
  }
  bytes.push_back(std::byte{0});
  EXPECT_FALSE(decode_offender(bytes).ok());
  bytes = encode_offender({});
  bytes[1] = std::byte{0xff};  // a text longer than any
  EXPECT_FALSE(decode_offender(bytes).ok());
}

// ---- work ----

TEST(Work, RoundTripsInItsOwnSizesOnly) {
  WorkRecord work{.since_ns = -5, .reused_tokens = 1ull << 40, .load_us = 2, .prefilled_tokens = 3, .prefill_us = 4};
  const std::size_t older_size = encode_work(work).size();
  EXPECT_EQ(*decode_work(encode_work(work)), work) << "of an older program";
  work.saved_us = 5;
  std::vector<std::byte> bytes = encode_work(work);
  ASSERT_TRUE(decode_work(bytes).ok());
  EXPECT_EQ(*decode_work(bytes), work);
  for (std::size_t size = 0; size < bytes.size(); ++size) {
    if (size == older_size) continue;
    const auto cut = decode_work(ByteSpan(bytes).first(size));
    ASSERT_FALSE(cut.ok()) << size;
    EXPECT_EQ(cut.error().kind, ErrorKind::kDamaged);
  }
  bytes.push_back(std::byte{0});
  EXPECT_FALSE(decode_work(bytes).ok());
}

TEST(SampledTurn, AnyBytesAreReadWithoutHarm) {
  std::mt19937_64 random(test_seed());
  auto bytes = encode_sampled_turn({{}, {1, 2, 3}, {"call_1", "call_2"}});
  std::size_t read = 0;
  for (int i = 0; i < 20'000; ++i) {
    auto hurt = bytes;
    for (int j = 0; j < 3; ++j) hurt[32 + random() % (hurt.size() - 32)] = static_cast<std::byte>(random());
    if (decode_sampled_turn(hurt)) ++read;
  }
  EXPECT_GT(read, 0U) << "changed ids are ids";
}

// ---- the saved index ----

SegmentHeader indexed_header() {
  SegmentHeader header;
  header.name.end = Position{3};
  header.name.end_hash.bytes[0] = 1;
  header.tokens = {1000, 1001, 1002};
  header.parts = {{.kind = PartKind::kRows, .size_bytes = 4}};
  return header;
}

std::vector<std::byte> example_index(const std::vector<std::byte>& header) {
  const std::uint64_t size = file_bytes(indexed_header());
  return encode_index({{size, 111, header}, {size, -5, header}});
}

TEST(SavedIndex, ComesBack) {
  const auto header = encode_header(indexed_header());
  const auto decoded = decode_index(example_index(header));
  ASSERT_TRUE(decoded.ok());
  ASSERT_EQ(decoded->size(), 2u);
  EXPECT_EQ((*decoded)[0].header, indexed_header());
  EXPECT_EQ((*decoded)[0].name, file_name(indexed_header().name));
  EXPECT_EQ((*decoded)[1].modified_ns, -5);
  EXPECT_TRUE(decode_index(encode_index({})).ok());
}

TEST(SavedIndex, FlipsAndCutsAreFound) {
  const std::vector<std::byte> good = example_index(encode_header(indexed_header()));
  for (std::size_t bit = 0; bit < good.size() * 8; ++bit) {
    std::vector<std::byte> bad = good;
    bad[bit / 8] ^= static_cast<std::byte>(1u << (bit % 8));
    ASSERT_FALSE(decode_index(bad).ok()) << "bit " << bit;
  }
  for (std::size_t size = 0; size < good.size(); ++size) ASSERT_FALSE(decode_index(ByteSpan(good).first(size)).ok());
}

}  // namespace
}  // namespace kvkeep::format
