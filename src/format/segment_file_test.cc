// Files on disk: the worked example of docs/format.md byte for byte, and decoders that survive any bytes.

#include "format/segment_file.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <random>
#include <sstream>
#include <utility>

#include "format/built_state.h"
#include "format/bytes.h"

namespace kvkeep::format {
namespace {

// The segment of the worked example: tokens 1000, 1001, 1002 at positions 5 to 8, rows "rows", window rows "win".
SegmentHeader example_header() {
  SegmentHeader header;
  for (std::uint8_t i = 0; i < 32; ++i) {
    header.fingerprint.bytes[i] = i;
    header.name.begin_hash.bytes[i] = static_cast<std::uint8_t>(0xa0 + i);
    header.name.end_hash.bytes[i] = static_cast<std::uint8_t>(0xc0 + i);
  }
  header.name.begin = Position{5};
  header.name.end = Position{8};
  header.tokens = {1000, 1001, 1002};
  const auto part = [&](PartKind kind, std::string_view bytes, std::uint32_t first_token, std::uint64_t layout) {
    return Part{.kind = kind,
                .size_bytes = bytes.size(),
                .sum = part_checksum(header.fingerprint, header.name, kind, std::as_bytes(std::span(bytes))),
                .first_token = first_token,
                .layout = layout};
  };
  header.parts = {part(PartKind::kRows, "rows", 0, 7), part(PartKind::kWindowRows, "win", 1, 0)};
  return header;
}

// The same of a tenant.
SegmentHeader tenants_header() {
  SegmentHeader header = example_header();
  for (std::uint8_t i = 0; i < 32; ++i) header.tenant.bytes[i] = static_cast<std::uint8_t>(0x60 + i);
  return header;
}

std::vector<std::byte> example_file(const SegmentHeader& header = example_header()) {
  std::vector<std::byte> bytes = encode_header(header);
  for (const char letter : std::string_view("rowswin")) bytes.push_back(static_cast<std::byte>(letter));
  return bytes;
}

std::string text_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

// As `hexdump -C` without the text column.
std::string hex_dump(ByteSpan bytes) {
  std::string dump;
  char field[24];
  for (std::size_t at = 0; at < bytes.size(); at += 16) {
    std::snprintf(field, sizeof field, "%08zx", at);
    dump += field;
    for (std::size_t i = at; i < std::min(at + 16, bytes.size()); ++i) {
      std::snprintf(field, sizeof field, " %02x", static_cast<unsigned>(bytes[i]));
      dump += field;
    }
    dump += '\n';
  }
  return dump;
}

std::uint64_t test_seed() {
  const char* given = std::getenv("KVKEEP_TEST_SEED");
  const std::uint64_t seed = given != nullptr ? std::strtoull(given, nullptr, 10) : 20260101;
  std::printf("KVKEEP_TEST_SEED=%llu\n", static_cast<unsigned long long>(seed));
  return seed;
}

void expect_golden(const std::string& name, const SegmentHeader& header) {
  const std::string golden = text_of(KVKEEP_SOURCES "/format/testdata/" + name);
  const std::vector<std::byte> written = example_file(header);
  ASSERT_EQ(golden.size(), written.size());
  EXPECT_EQ(hex_dump(std::as_bytes(std::span(golden))), hex_dump(written));
  const auto decoded = decode_header(std::as_bytes(std::span(golden)));
  ASSERT_TRUE(decoded.ok());
  EXPECT_EQ(*decoded, header);
}

TEST(SegmentFile, TheGoldenFilesAreWhatIsWritten) {
  expect_golden("segment_v1.kvs", example_header());
  expect_golden("segment_v3.kvs", tenants_header());
}

// The lines of the tenant's file that differ.
TEST(SegmentFile, TheDocumentShowsTheGoldenFiles) {
  const std::string document = text_of(KVKEEP_DOCS "/format.md");
  EXPECT_NE(document.find(hex_dump(example_file())), std::string::npos);
  std::istringstream nobodys(hex_dump(example_file()));
  std::istringstream tenants(hex_dump(example_file(tenants_header())));
  std::string differing;
  for (std::string one, other; std::getline(nobodys, one) && std::getline(tenants, other);) {
    if (one != other) differing += other + "\n";
  }
  EXPECT_EQ(std::ranges::count(differing, '\n'), 5);
  EXPECT_NE(document.find(differing), std::string::npos) << differing;
}

TEST(SegmentFile, PartsAreFoundWhereTheyLie) {
  const std::vector<std::byte> file = example_file();
  const SegmentHeader header = example_header();
  EXPECT_EQ(file_bytes(header), file.size());
  const auto window = find_part(header, PartKind::kWindowRows);
  ASSERT_TRUE(window.has_value());
  EXPECT_EQ(file[window->offset], static_cast<std::byte>('w'));
  EXPECT_EQ(window->offset + window->part.size_bytes, file.size());
  EXPECT_FALSE(find_part(header, PartKind::kPoint).has_value());
}

TEST(SegmentFile, EveryFlippedBitIsFound) {
  for (const SegmentHeader& header : {example_header(), tenants_header()}) {
    const std::vector<std::byte> good = encode_header(header);
    for (std::size_t bit = 0; bit < good.size() * 8; ++bit) {
      std::vector<std::byte> bad = good;
      bad[bit / 8] ^= static_cast<std::byte>(1u << (bit % 8));
      const auto decoded = decode_header(bad);
      ASSERT_FALSE(decoded.ok()) << "bit " << bit;
      ASSERT_EQ(decoded.error().kind, ErrorKind::kDamaged);
    }
  }
}

TEST(SegmentFile, EveryCutIsFound) {
  const std::vector<std::byte> good = encode_header(example_header());
  for (std::size_t size = 0; size < good.size(); ++size) {
    ASSERT_FALSE(decode_header(ByteSpan(good).first(size)).ok()) << size;
  }
}

// Overwrites the sums so that what lies after them is reached.
void repair_sums(std::vector<std::byte>& bytes) {
  const auto put_sum = [&](std::size_t at, const Checksum& sum) {
    store_little_endian(sum.low, bytes.data() + at);
    store_little_endian(sum.high, bytes.data() + at + 8);
  };
  put_sum(136, checksum(ByteSpan(bytes).subspan(kFixedHeaderBytes)));
  put_sum(240, checksum(ByteSpan(bytes).first(240)));
}

TEST(SegmentFile, FieldsAreCheckedAlsoWhereTheSumsAreRight) {
  const std::vector<std::byte> good = encode_header(example_header());
  // version, header bytes, end < begin, tokens, parts, payload bytes, origin, tenant, reserved, kind, first token, part
  // size, reserved, a second part of the first one's kind, padding
  for (const std::size_t at : {8, 12, 116, 120, 124, 128, 152, 155, 160, 239, 256, 263, 270, 296, 304, 370}) {
    std::vector<std::byte> bad = good;
    bad[at] = at == 304 ? std::byte{1} : bad[at] ^ std::byte{0x81};
    if (at == 116) bad[at] = std::byte{4};
    repair_sums(bad);
    EXPECT_FALSE(decode_header(bad).ok()) << "offset " << at;
  }
  std::vector<std::byte> untouched = good;
  repair_sums(untouched);
  EXPECT_EQ(untouched, good);
}

TEST(SegmentFile, RandomBytesNeverPassNorHarm) {
  std::mt19937_64 random(test_seed());
  const std::vector<std::byte> good[] = {encode_header(example_header()), encode_header(tenants_header())};
  for (int round = 0; round < 20'000; ++round) {
    std::vector<std::byte> bytes = good[round % 2];
    const std::size_t changes = 1 + random() % 8;
    for (std::size_t i = 0; i < changes; ++i) bytes[random() % bytes.size()] = static_cast<std::byte>(random());
    if (random() % 2 == 0) repair_sums(bytes);
    if (random() % 4 == 0) bytes.resize(random() % (bytes.size() + 1));
    const auto decoded = decode_header(bytes);
    // A header that passes is consistent: written again, it gives the same bytes.
    if (decoded.ok()) {
      ASSERT_EQ(encode_header(*decoded), bytes);
    }
  }
}

TEST(SegmentFile, LimitsAreRefusedBeforeWriting) {
  SegmentHeader header = example_header();
  header.tokens.pop_back();
  EXPECT_FALSE(check_header(header).ok());
  header = example_header();
  header.parts[1].kind = PartKind::kRows;
  EXPECT_FALSE(check_header(header).ok());
  header = example_header();
  header.parts.clear();
  EXPECT_FALSE(check_header(header).ok());
  header = example_header();
  header.name.end = header.name.begin + kMaxSegmentTokens + 1;
  header.tokens.assign(kMaxSegmentTokens + 1, 1);
  EXPECT_FALSE(check_header(header).ok());
}

TEST(SegmentFile, TheLargestHeaderFits) {
  SegmentHeader header = example_header();
  header.name.end = header.name.begin + kMaxSegmentTokens;
  header.tokens.assign(kMaxSegmentTokens, 77);
  header.parts = {
      {PartKind::kRows, 1, {}}, {PartKind::kWindowRows, 2, {}}, {PartKind::kPoint, 3, {}}, {PartKind::kWhole, 4, {}}};
  const auto bytes = encode_header(header);
  EXPECT_EQ(bytes.size(), kMaxHeaderBytes);
  const auto decoded = decode_header(bytes);
  ASSERT_TRUE(decoded.ok());
  EXPECT_EQ(*decoded, header);
}

TEST(SegmentFile, TellsWhoseTheTokensAreAndOldFilesAreOfPrompts) {
  SegmentHeader header = example_header();
  const std::vector<std::byte> old = encode_header(header);
  EXPECT_EQ(decode_header(old)->origin, Origin::kPrompt);
  header.origin = Origin::kSampled;
  const std::vector<std::byte> bytes = encode_header(header);
  EXPECT_EQ(bytes[152], std::byte{1});
  const auto decoded = decode_header(bytes);
  ASSERT_TRUE(decoded.ok());
  EXPECT_EQ(*decoded, header);
  header.origin = static_cast<Origin>(2);
  EXPECT_FALSE(check_header(header).ok());
}

TEST(SegmentFile, APointHasNoTokens) {
  SegmentHeader header = example_header();
  header.name.begin = header.name.end;
  header.name.begin_hash = header.name.end_hash;
  header.tokens.clear();
  header.parts = {{PartKind::kPoint, 9, {}}};
  header.name.kind = PartKind::kPoint;
  const auto decoded = decode_header(encode_header(header));
  ASSERT_TRUE(decoded.ok());
  EXPECT_EQ(*decoded, header);
}

SegmentHeader built_header(Differences differences = Differences::kFrame) {
  SegmentHeader header = example_header();
  header.name.begin = header.name.end;
  header.name.begin_hash = header.name.end_hash;
  header.tokens.clear();
  header.parts = {{.kind = PartKind::kWhole,
                   .size_bytes = 9,
                   .base = Position{7},
                   .state_bytes = 1000,
                   .differences = differences}};
  header.name.kind = PartKind::kWhole;
  return header;
}

// A program that knows no tenants would take the file for everybody's: it must refuse it, and does by the version. One
// that knows no frames would read them as copies and literals.
TEST(SegmentFile, EachHasTheLeastVersionThatTellsIt) {
  struct Case {
    SegmentHeader header;
    int version;
  };
  const auto tenants = [](SegmentHeader header) {
    header.tenant = tenants_header().tenant;
    return header;
  };
  const SegmentHeader copies = built_header(Differences::kCopies);
  for (const Case& expected : {Case{example_header(), 1}, Case{copies, 2}, Case{tenants_header(), 3},
                               Case{tenants(copies), 3}, Case{built_header(), 4}, Case{tenants(built_header()), 4}}) {
    std::vector<std::byte> bytes = encode_header(expected.header);
    EXPECT_EQ(bytes[8], static_cast<std::byte>(expected.version));
    const auto decoded = decode_header(bytes);
    ASSERT_TRUE(decoded.ok());
    EXPECT_EQ(*decoded, expected.header);
    for (const int version : {0, 1, 2, 3, 4, 5}) {
      bytes[8] = static_cast<std::byte>(version);
      repair_sums(bytes);
      const auto other = decode_header(bytes);
      // Only the version tells which differences they are.
      const bool tells_other_differences = other.ok() && other->parts.front().built();
      EXPECT_TRUE(version == expected.version ? other.ok() : !other.ok() || tells_other_differences) << version;
      if (!other.ok()) {
        EXPECT_EQ(other.error().kind, version > 4 ? ErrorKind::kUnsupported : ErrorKind::kDamaged);
      }
    }
  }
}

// ---- states that are built on others ----

// A base, and a state that grew in its middle.
std::vector<std::byte> golden_state(bool grown) {
  std::vector<std::byte> bytes;
  for (std::uint32_t i = 0; i < 400; ++i) {
    bytes.push_back(static_cast<std::byte>(i * i * 31 >> 3));
    if (grown && i == 200) bytes.insert(bytes.end(), 20, std::byte{0x77});
  }
  return bytes;
}

SegmentHeader golden_built_header(Differences differences, ByteSpan stored) {
  SegmentHeader header = built_header(differences);
  header.parts.front().state_bytes = static_cast<std::uint32_t>(golden_state(true).size());
  header.parts.front().size_bytes = stored.size();
  header.parts.front().sum = part_checksum(header.fingerprint, header.name, PartKind::kWhole, stored);
  return header;
}

// Versions 2 and 4, as programs wrote them. Another release of zstd may write other bytes of a frame.
TEST(SegmentFile, GoldenFilesOfBuiltStatesAreRead) {
  for (const auto& [name, differences] : {std::pair{"segment_v2.whole.kvs", Differences::kCopies},
                                          std::pair{"segment_v4.whole.kvs", Differences::kFrame}}) {
    const std::string golden = text_of(std::string(KVKEEP_SOURCES "/format/testdata/") + name);
    const ByteSpan bytes = std::as_bytes(std::span(golden));
    const auto header = decode_header(bytes);
    ASSERT_TRUE(header.ok()) << name;
    const ByteSpan stored = bytes.subspan(find_part(*header, PartKind::kWhole)->offset);
    EXPECT_EQ(*header, golden_built_header(differences, stored)) << name;
    const std::vector<std::byte> written = encode_header(*header);
    EXPECT_TRUE(std::ranges::equal(written, bytes.first(written.size()))) << name;
    std::vector<std::byte> state(header->parts.front().state_bytes);
    ASSERT_TRUE(decode_built_state({}, golden_state(false), differences, stored, state).ok()) << name;
    EXPECT_EQ(state, golden_state(true)) << name;
  }
}

TEST(SegmentFile, OnlyWholeStatesAreBuiltOnEarlierOnes) {
  EXPECT_TRUE(check_header(built_header()).ok());
  SegmentHeader header = built_header();
  header.parts.front().base = header.name.end;
  EXPECT_FALSE(check_header(header).ok());
  header = built_header();
  header.parts.front().state_bytes = 0;
  EXPECT_FALSE(check_header(header).ok());
  header = built_header();
  header.parts.front().base = {};
  EXPECT_FALSE(check_header(header).ok());
  header = built_header();
  header.parts.front().kind = header.name.kind = PartKind::kPoint;
  EXPECT_FALSE(check_header(header).ok());
  header = built_header(static_cast<Differences>(2));
  EXPECT_FALSE(check_header(header).ok());
  header = built_header(Differences::kCopies);
  header.parts.front().base = {};
  header.parts.front().state_bytes = 0;
  EXPECT_FALSE(check_header(header).ok());
}

TEST(SegmentFile, RowsMayHaveNoBytes) {
  SegmentHeader header = example_header();
  header.parts = {{PartKind::kRows, 0, part_checksum(header.fingerprint, header.name, PartKind::kRows, {})}};
  const std::vector<std::byte> bytes = encode_header(header);
  EXPECT_EQ(file_bytes(header), bytes.size());
  const auto decoded = decode_header(bytes);
  ASSERT_TRUE(decoded.ok());
  EXPECT_EQ(*decoded, header);
  EXPECT_EQ(find_part(*decoded, PartKind::kRows)->offset, bytes.size());
}

TEST(SegmentFile, ItsPartsTellItsKind) {
  struct Case {
    std::vector<PartKind> parts;
    PartKind kind;
  };
  const std::vector<Case> cases = {{{PartKind::kRows}, PartKind::kRows},
                                   {{PartKind::kWindowRows}, PartKind::kWindowRows},
                                   {{PartKind::kPoint}, PartKind::kPoint},
                                   {{PartKind::kWhole}, PartKind::kWhole},
                                   {{PartKind::kPoint, PartKind::kRows}, PartKind::kRows},
                                   {{PartKind::kPoint, PartKind::kWindowRows}, PartKind::kPoint}};
  for (const Case& expected : cases) {
    SegmentHeader header = example_header();
    header.parts.clear();
    for (const PartKind part : expected.parts) header.parts.push_back({part, 5, {}});
    for (const PartKind kind : kPartKinds) {
      header.name.kind = kind;
      ASSERT_EQ(check_header(header).ok(), kind == expected.kind);
    }
    header.name.kind = expected.kind;
    const auto decoded = decode_header(encode_header(header));
    ASSERT_TRUE(decoded.ok());
    EXPECT_EQ(*decoded, header);
  }
}

// ---- names ----

TEST(FileName, TellsBothEnds) {
  EXPECT_EQ(file_name(example_header().name), "a0a1a2a3a4a5a6a7a8a9aaabacadaeaf-c0c1c2c3c4c5c6c7c8c9cacbcccdcecf.kvs");
}

TEST(FileName, TellsTheKind) {
  SegmentName name = example_header().name;
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
  const std::string good = file_name(example_header().name);
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

// ---- sums ----

TEST(PartChecksum, BelongsToOneSegmentAndKind) {
  const SegmentHeader header = example_header();
  const ByteSpan bytes = std::as_bytes(std::span("the same bytes"));
  const Checksum sum = part_checksum(header.fingerprint, header.name, PartKind::kRows, bytes);
  FingerprintHash other_model = header.fingerprint;
  other_model.bytes[0] ^= 1;
  EXPECT_NE(part_checksum(other_model, header.name, PartKind::kRows, bytes), sum);
  EXPECT_NE(part_checksum(header.fingerprint, header.name, PartKind::kPoint, bytes), sum);
  SegmentName other = header.name;
  other.end_hash.bytes[31] ^= 1;
  EXPECT_NE(part_checksum(header.fingerprint, other, PartKind::kRows, bytes), sum);
  other = header.name;
  other.begin = Position{4};
  EXPECT_NE(part_checksum(header.fingerprint, other, PartKind::kRows, bytes), sum);
}

}  // namespace
}  // namespace kvkeep::format
