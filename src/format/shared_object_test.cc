// Objects of the shared tier: the worked example of docs/format.md byte for byte, and decoders that survive any bytes
// and believe none that lack their code.

#include "format/shared_object.h"

#include <gtest/gtest.h>

#include <fstream>
#include <functional>
#include <iterator>

namespace kvkeep::format {
namespace {

constexpr std::string_view kSharedName = "0011223344556677/000102030405060708090a0b0c0d0e0f.r";

template <typename Hash>
Hash counting(std::uint8_t first) {
  Hash hash;
  for (std::size_t i = 0; i < hash.bytes.size(); ++i) hash.bytes[i] = static_cast<std::uint8_t>(first + i);
  return hash;
}

MacKey example_key() { return counting<MacKey>(0x40); }

// The segment of the worked example: tokens 1000, 1001 and 1002 at positions 5 to 8, whose rows are "rows".
SegmentHeader shared_segment(PartKind kind = PartKind::kRows) {
  SegmentHeader segment;
  segment.fingerprint = counting<FingerprintHash>(0);
  segment.name = {.begin = Position{5},
                  .end = Position{8},
                  .begin_hash = counting<PrefixHash>(0xa0),
                  .end_hash = counting<PrefixHash>(0xc0),
                  .kind = kind};
  if (kind == PartKind::kPoint || kind == PartKind::kWhole) {
    segment.name.begin = segment.name.end;
    segment.name.begin_hash = segment.name.end_hash;
  } else {
    segment.tokens = {1000, 1001, 1002};
  }
  const ByteSpan rows = std::as_bytes(std::span("rows", 4));
  segment.parts = {Part{.kind = kind,
                        .size_bytes = rows.size(),
                        .sum = part_checksum(segment.fingerprint, segment.name, kind, rows),
                        .layout = 7}};
  return segment;
}

// The way to it: a segment that ends at 7 and is left at 5, then itself.
std::vector<PathStep> shared_path() {
  const PrefixHash left = counting<PrefixHash>(0xa0);
  const PrefixHash other = counting<PrefixHash>(0x70);
  const PrefixHash end = counting<PrefixHash>(0xc0);
  return {{.end = Position{5},
           .place = Position{5},
           .hash = short_hash(left),
           .object_end = Position{7},
           .object_hash = short_hash(other)},
          {.end = Position{8},
           .place = Position{8},
           .hash = short_hash(end),
           .object_end = Position{8},
           .object_hash = short_hash(end)}};
}

struct SharedExample {
  Envelope envelope;
  std::vector<std::byte> head;
};

SharedExample shared_example(const SegmentHeader& segment, const std::vector<PathStep>& path) {
  const std::vector<std::byte> rest = encode_rest(path, segment);
  Envelope envelope{.kind = segment.name.kind,
                    .begin = segment.name.begin,
                    .end = segment.name.end,
                    .begin_hash = short_hash(segment.name.begin_hash),
                    .end_hash = short_hash(segment.name.end_hash),
                    .path_steps = static_cast<std::uint32_t>(path.size()),
                    .segment_bytes = static_cast<std::uint32_t>(rest.size() - path.size() * kPathStepBytes),
                    .payload_bytes = payload_bytes(segment),
                    .writer = 0x1122334455667788};
  MacStream rest_code = section_mac(example_key(), kSharedName, Section::kRest);
  rest_code.append(rest);
  envelope.rest_mac = rest_code.finish();
  MacStream payload_code = section_mac(example_key(), kSharedName, Section::kPayload);
  payload_code.append(std::as_bytes(std::span("rows", 4)));
  envelope.payload_mac = payload_code.finish();
  std::vector<std::byte> head = encode_envelope(example_key(), kSharedName, envelope);
  head.insert(head.end(), rest.begin(), rest.end());
  return {envelope, head};
}

SharedExample shared_example() { return shared_example(shared_segment(), shared_path()); }

// As a reader does it.
Result<SharedHead> read_head(const MacKey& key, std::string_view name, ByteSpan bytes) {
  TRY_ASSIGN(const Envelope envelope, decode_envelope(key, name, bytes));
  TRY(check_rest(key, name, envelope, bytes.subspan(kEnvelopeBytes)));
  return decode_rest(envelope, bytes.subspan(kEnvelopeBytes));
}

std::string shared_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

std::string shared_hex(ByteSpan bytes) {
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string dump;
  for (std::size_t at = 0; at < bytes.size(); ++at) {
    if (at % 16 == 0) {
      for (int shift = 28; shift >= 0; shift -= 4) dump.push_back(kDigits[at >> shift & 15]);
    }
    dump += {' ', kDigits[static_cast<std::size_t>(bytes[at]) >> 4], kDigits[static_cast<std::size_t>(bytes[at]) & 15]};
    if (at % 16 == 15 || at + 1 == bytes.size()) dump.push_back('\n');
  }
  return dump;
}

TEST(SharedObject, TheGoldenFileIsWhatIsWritten) {
  const std::string golden = shared_file(KVKEEP_SOURCES "/format/testdata/shared_v1.object");
  const SharedExample example = shared_example();
  EXPECT_EQ(shared_hex(std::as_bytes(std::span(golden))), shared_hex(example.head));
  const auto head = read_head(example_key(), kSharedName, std::as_bytes(std::span(golden)));
  ASSERT_TRUE(head.ok()) << head.error().message;
  EXPECT_EQ(head->envelope, example.envelope);
  EXPECT_EQ(head->path, shared_path());
  EXPECT_EQ(head->segment, shared_segment());
}

TEST(SharedObject, TheGoldenRecordIsWhatIsWritten) {
  const std::string golden = shared_file(KVKEEP_SOURCES "/format/testdata/shared_v1.record");
  const ByteSpan contents = std::as_bytes(std::span("turn", 4));
  EXPECT_EQ(shared_hex(std::as_bytes(std::span(golden))),
            shared_hex(encode_record(example_key(), kSharedName, std::nullopt, contents)));
  const auto record = decode_record(example_key(), kSharedName, std::as_bytes(std::span(golden)));
  ASSERT_TRUE(record.ok());
  EXPECT_FALSE(record->salt);
  EXPECT_TRUE(std::ranges::equal(record->contents, contents));
}

TEST(SharedObject, TheGoldenEncryptedRecordIsWhatIsWritten) {
  const std::string golden = shared_file(KVKEEP_SOURCES "/format/testdata/shared_v2.record");
  const ByteSpan contents = std::as_bytes(std::span("4 + 16 bytes of them", 20));
  const auto salt = counting<MacKey>(0x10).bytes;
  EncryptionSalt first{};
  std::copy_n(salt.begin(), first.size(), first.begin());
  EXPECT_EQ(shared_hex(std::as_bytes(std::span(golden))),
            shared_hex(encode_record(example_key(), kSharedName, first, contents)));
  const auto record = decode_record(example_key(), kSharedName, std::as_bytes(std::span(golden)));
  ASSERT_TRUE(record.ok());
  EXPECT_EQ(record->salt, first);
  EXPECT_TRUE(std::ranges::equal(record->contents, contents));
}

TEST(SharedObject, TheDocumentShowsTheGoldenFile) {
  const std::string document = shared_file(KVKEEP_DOCS "/format.md");
  const std::vector<std::byte> head = shared_example().head;
  EXPECT_NE(document.find(shared_hex(ByteSpan(head).first(kEnvelopeBytes + 2 * kPathStepBytes))), std::string::npos);
}

TEST(SharedObject, LeavesAndWindowRowsLieInTheLastStepsSegment) {
  for (const PartKind kind : {PartKind::kWindowRows, PartKind::kPoint, PartKind::kWhole}) {
    std::vector<PathStep> path = shared_path();
    path.back().object_end = Position{12};
    path.back().object_hash = short_hash(counting<PrefixHash>(0x30));
    const SharedExample example = shared_example(shared_segment(kind), path);
    const auto head = read_head(example_key(), kSharedName, example.head);
    ASSERT_TRUE(head.ok()) << head.error().message;
    EXPECT_EQ(head->path, path);
  }
}

// Every flipped bit, every missing end, and the bytes of another name or key.
TEST(SharedObject, NothingIsBelievedThatLacksItsCode) {
  std::vector<std::byte> head = shared_example().head;
  ASSERT_TRUE(read_head(example_key(), kSharedName, head).ok());
  for (std::size_t bit = 0; bit < 8 * head.size(); ++bit) {
    head[bit / 8] ^= std::byte{1} << bit % 8;
    const auto read = read_head(example_key(), kSharedName, head);
    ASSERT_FALSE(read.ok()) << "bit " << bit;
    ASSERT_EQ(read.error().kind, ErrorKind::kDamaged) << "bit " << bit;
    head[bit / 8] ^= std::byte{1} << bit % 8;
  }
  for (std::size_t size = 0; size < head.size(); ++size) {
    ASSERT_FALSE(decode_envelope(example_key(), kSharedName, ByteSpan(head).first(size)).ok() &&
                 read_head(example_key(), kSharedName, ByteSpan(head).first(size)).ok());
  }
  std::string other_name(kSharedName);
  other_name.back() = 'w';
  EXPECT_EQ(read_head(example_key(), other_name, head).error().kind, ErrorKind::kDamaged);
  EXPECT_EQ(read_head(counting<MacKey>(0x41), kSharedName, head).error().kind, ErrorKind::kDamaged);
}

TEST(SharedObject, RecordsAreBelievedOnlyWithTheirCode) {
  for (const auto& salt : {std::optional<EncryptionSalt>(), std::optional(EncryptionSalt{1, 2, 3})}) {
    std::vector<std::byte> record =
        encode_record(example_key(), kSharedName, salt, std::as_bytes(std::span("turn", 4)));
    for (std::size_t bit = 0; bit < 8 * record.size(); ++bit) {
      record[bit / 8] ^= std::byte{1} << bit % 8;
      ASSERT_FALSE(decode_record(example_key(), kSharedName, record).ok()) << "bit " << bit;
      record[bit / 8] ^= std::byte{1} << bit % 8;
    }
    for (std::size_t size = 0; size < record.size(); ++size) {
      ASSERT_FALSE(decode_record(example_key(), kSharedName, ByteSpan(record).first(size)).ok());
    }
    EXPECT_FALSE(decode_record(example_key(), "another name", record).ok());
  }
}

// With codes that fit: a record keeps its limit, encrypted or not, and later versions are told apart from damage.
TEST(SharedObject, RecordsBreakNoLimit) {
  const auto read = [](const std::optional<EncryptionSalt>& salt, std::size_t size, unsigned version = 0) {
    std::vector<std::byte> record = encode_record(example_key(), kSharedName, salt, std::vector<std::byte>(size));
    EXPECT_TRUE(size > kMostRecordBytes + kEncryptionTagBytes || record.size() <= kMostStoredRecordBytes);
    if (version > 0) record[8] = std::byte{static_cast<unsigned char>(version - 1)};
    MacStream code = section_mac(example_key(), kSharedName, Section::kRecord);
    code.append(ByteSpan(record).first(record.size() - 32));
    const MacHash sum = code.finish();
    std::ranges::copy(std::as_bytes(std::span(sum.bytes)), record.end() - 32);
    const auto decoded = decode_record(example_key(), kSharedName, record);
    return decoded.ok() ? std::nullopt : std::optional(decoded.error().kind);
  };
  const EncryptionSalt salt{1};
  EXPECT_EQ(read({}, kMostRecordBytes), std::nullopt);
  EXPECT_EQ(read({}, kMostRecordBytes + 1), ErrorKind::kDamaged);
  EXPECT_EQ(read(salt, kMostRecordBytes + kEncryptionTagBytes), std::nullopt);
  EXPECT_EQ(read(salt, kMostRecordBytes + kEncryptionTagBytes + 1), ErrorKind::kDamaged);
  EXPECT_EQ(read({}, 5, 1 + 0), ErrorKind::kDamaged);
  EXPECT_EQ(read({}, 5, 1 + 2), ErrorKind::kDamaged) << "its sizes are those of another version";
  EXPECT_EQ(read(salt, 5, 1 + 1), ErrorKind::kDamaged);
  EXPECT_EQ(read(salt, 5, 1 + 3), ErrorKind::kUnsupported);
}

// A holder of the key may be wrong, too: its codes fit, and the contents contradict each other.
TEST(SharedObject, AuthenticHeadsThatContradictThemselvesAreDamaged) {
  const auto refused = [](const std::function<void(std::vector<PathStep>&)>& change) {
    std::vector<PathStep> path = shared_path();
    change(path);
    const auto read = read_head(example_key(), kSharedName, shared_example(shared_segment(), path).head);
    return !read.ok() && read.error().kind == ErrorKind::kDamaged;
  };
  EXPECT_FALSE(refused([](auto&) {}));
  EXPECT_TRUE(refused([](auto& path) { path.clear(); }));
  EXPECT_TRUE(refused([](auto& path) { path.pop_back(); }));
  EXPECT_TRUE(refused([](auto& path) { std::swap(path[0], path[1]); }));
  EXPECT_TRUE(refused([](auto& path) { path.back().end = Position{9}; }));
  EXPECT_TRUE(refused([](auto& path) { path.back().hash[3] ^= 1; }));
  EXPECT_TRUE(refused([](auto& path) { path.back().object_hash[3] ^= 1; }));
  EXPECT_TRUE(refused([](auto& path) { path.back().object_end = Position{9}; }));
  EXPECT_TRUE(refused([](auto& path) { path.front().object_end = Position{4}; }));
  EXPECT_TRUE(refused([](auto& path) { path.front().end = Position{4}; }));

  Envelope envelope = shared_example().envelope;
  const std::vector<std::byte> rest = encode_rest(shared_path(), shared_segment());
  EXPECT_TRUE(decode_rest(envelope, rest).ok());
  envelope.begin_hash[0] ^= 1;
  EXPECT_FALSE(decode_rest(envelope, rest).ok());
}

TEST(SharedObject, EnvelopesBreakNoLimit) {
  const auto refused = [](const std::function<void(Envelope&)>& change) {
    Envelope envelope = shared_example().envelope;
    change(envelope);
    return !decode_envelope(example_key(), kSharedName, encode_envelope(example_key(), kSharedName, envelope)).ok();
  };
  EXPECT_FALSE(refused([](Envelope&) {}));
  EXPECT_TRUE(refused([](Envelope& e) { e.kind = PartKind{0}; }));
  EXPECT_TRUE(refused([](Envelope& e) { e.kind = PartKind{5}; }));
  EXPECT_TRUE(refused([](Envelope& e) { e.kind = PartKind::kPoint; }));
  EXPECT_TRUE(refused([](Envelope& e) { e.begin = e.end; }));
  EXPECT_TRUE(refused([](Envelope& e) { e.begin = e.end + 1; }));
  EXPECT_TRUE(refused([](Envelope& e) { e.end = e.begin + kMaxSegmentTokens + 1; }));
  EXPECT_TRUE(refused([](Envelope& e) { e.path_steps = 0; }));
  EXPECT_TRUE(refused([](Envelope& e) { e.path_steps = kMostPathSteps + 1; }));
  EXPECT_TRUE(refused([](Envelope& e) { e.segment_bytes = kFixedHeaderBytes - 1; }));
  EXPECT_TRUE(refused([](Envelope& e) { e.segment_bytes = kMaxHeaderBytes + 1; }));
  EXPECT_TRUE(refused([](Envelope& e) { e.extension_bytes = kMostExtensionBytes + 1; }));
  EXPECT_TRUE(refused([](Envelope& e) { e.payload_bytes = kMostSharedPayload + 1; }));
  EXPECT_FALSE(refused([](Envelope& e) { e.extension_bytes = kMostExtensionBytes; }));
  EXPECT_FALSE(refused([](Envelope& e) { e.encrypted = true; }));
  EXPECT_FALSE(refused([](Envelope& e) {
    e.encrypted = true;
    e.shows_hashes = false;
  }));
  EXPECT_TRUE(refused([](Envelope& e) { e.shows_hashes = false; })) << "nobody would have them";
}

TEST(SharedObject, LaterVersionsAreNotDamage) {
  std::vector<std::byte> head = shared_example().head;
  head[8] = std::byte{3};
  MacStream code = section_mac(example_key(), kSharedName, Section::kEnvelope);
  code.append(ByteSpan(head).first(kEnvelopeBytes - 32));
  const MacHash sum = code.finish();
  std::ranges::copy(std::as_bytes(std::span(sum.bytes)), head.begin() + kEnvelopeBytes - 32);
  EXPECT_EQ(decode_envelope(example_key(), kSharedName, head).error().kind, ErrorKind::kUnsupported);
}

// An envelope of version 2 has no hash, and its object the same head in the encrypted rest.
TEST(SharedObject, TheGoldenEnvelopeWithoutHashesIsWhatIsWritten) {
  const std::string golden = shared_file(KVKEEP_SOURCES "/format/testdata/shared_v2.envelope");
  Envelope envelope = shared_example().envelope;
  envelope.encrypted = true;
  envelope.shows_hashes = false;
  EXPECT_EQ(shared_hex(std::as_bytes(std::span(golden))),
            shared_hex(encode_envelope(example_key(), kSharedName, envelope)));
  const auto read = decode_envelope(example_key(), kSharedName, std::as_bytes(std::span(golden)));
  ASSERT_TRUE(read.ok());
  EXPECT_EQ(read->begin_hash, ShortHash{});
  EXPECT_EQ(read->end_hash, ShortHash{});
  const std::vector<std::byte> rest = encode_rest(shared_path(), shared_segment());
  const auto head = decode_rest(*read, rest);
  ASSERT_TRUE(head.ok()) << head.error().message;
  EXPECT_EQ(head->segment, shared_segment());
  std::vector<PathStep> elsewhere = shared_path();
  elsewhere.back().hash[3] ^= 1;
  elsewhere.back().object_hash = elsewhere.back().hash;
  EXPECT_FALSE(decode_rest(*read, encode_rest(elsewhere, shared_segment())).ok());
}

TEST(SharedObject, FieldsToComeArePassedOver) {
  const std::vector<std::byte> short_rest = encode_rest(shared_path(), shared_segment());
  std::vector<std::byte> rest = short_rest;
  rest.resize(rest.size() + 100, std::byte{7});
  Envelope envelope = shared_example().envelope;
  envelope.extension_bytes = 100;
  const auto head = decode_rest(envelope, rest);
  ASSERT_TRUE(head.ok());
  EXPECT_EQ(head->segment, shared_segment());
}

}  // namespace
}  // namespace kvkeep::format
