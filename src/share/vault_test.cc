#include "share/vault.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "testing/sim/sample_segments.h"

namespace kvkeep::share {
namespace {

constexpr std::size_t kBytes = 5000;

// A segment's header, and its payload in the buffer that a reader fills.
struct Stored {
  format::SegmentHeader segment;
  store::PayloadBuffer buffer = store::PayloadBuffer::allocate(kBytes);
  std::vector<std::byte> clear = sim::sample_bytes(7, kBytes);

  explicit Stored(const FingerprintHash& fingerprint) {
    segment.fingerprint = fingerprint;
    segment.name = {.begin = {}, .end = Position{3}, .begin_hash = {}, .end_hash = {}, .kind = format::PartKind::kRows};
    segment.tokens = {1, 2, 3};
    segment.parts = {
        format::Part{.kind = format::PartKind::kRows,
                     .size_bytes = kBytes,
                     .sum = format::part_checksum(fingerprint, segment.name, format::PartKind::kRows, clear)}};
    std::ranges::copy(clear, buffer.span().begin());
  }
};

TEST(Vault, PayloadsAreVerifiedByTheirCodeUnderAKeyAndAlwaysByTheirSums) {
  for (unsigned bits = 0; bits < 16; ++bits) {
    const bool has_key = (bits & 1) != 0;
    const bool has_code = (bits & 2) != 0;
    const bool has_sum = (bits & 4) != 0;
    const bool sums_up = (bits & 8) != 0;
    const Vault vault({.fingerprint = sim::sample_fingerprint(1), .key = has_key ? "a share key" : ""});
    Stored stored(sim::sample_fingerprint(1));
    const ObjectName name = vault.name_of({}, format::PartKind::kRows);
    const std::vector<format::PathStep> path{{.end = Position{3}, .place = Position{3}, .object_end = Position{3}}};
    const Vault::Sealed sealed = vault.seal(stored.segment, path, stored.clear, {});
    auto envelope = vault.open_envelope(name, sealed.head);
    ASSERT_TRUE(envelope.ok());
    if (!has_code) envelope->payload_mac.bytes[0] ^= 1;
    if (!has_sum) stored.segment.parts.front().sum.low ^= 1;
    Vault::Opening opening(vault, name, *envelope, stored.buffer.span());
    if (sums_up) opening.sum_up(stored.segment);
    for (std::size_t count = 0; count < kBytes; count += 999) opening.arrived(count);
    const auto payload = unpack(opening, stored.segment, std::move(stored.buffer));
    EXPECT_EQ(payload.ok(), has_sum && (has_code || !has_key)) << bits;
  }
}

// Former builds left the hashes of an encrypted object in its envelope; and a holder of the key may put an object under
// another name, which is seen where the hash is.
TEST(Vault, EncryptedObjectsShowNoHashAndFormerOnesAreRead) {
  const Vault vault({.fingerprint = sim::sample_fingerprint(1), .key = "a share key", .encrypt = true});
  const MacKey code_key = derive_key("kvkeep 2026-11-24 codes of shared objects",
                                     std::as_bytes(std::span(std::string_view("a share key"))));
  Stored stored(sim::sample_fingerprint(1));
  stored.segment.name.begin_hash.bytes.fill(7);
  stored.segment.name.end_hash.bytes.fill(9);
  const format::ShortHash end = format::short_hash(stored.segment.name.end_hash);
  const std::vector<format::PathStep> path{
      {.end = Position{3}, .place = Position{3}, .hash = end, .object_end = Position{3}, .object_hash = end}};
  const Vault::Sealed sealed = vault.seal(stored.segment, path, stored.clear, Cipher::Salt{5});
  const auto opened = vault.open_envelope(sealed.name, sealed.head);
  ASSERT_TRUE(opened.ok());
  EXPECT_FALSE(opened->shows_hashes);
  EXPECT_EQ(vault.open_head(sealed.name, sealed.head)->segment, stored.segment);

  const auto with = [&](const ObjectName& name, bool shows) {
    format::Envelope envelope = *opened;
    envelope.shows_hashes = shows;
    envelope.begin_hash = format::short_hash(stored.segment.name.begin_hash);
    envelope.end_hash = end;
    const ByteSpan rest = ByteSpan(sealed.head).subspan(format::kEnvelopeBytes);
    MacStream code = format::section_mac(code_key, name.text(), format::Section::kRest);
    code.append(rest);
    envelope.rest_mac = code.finish();
    std::vector<std::byte> head = format::encode_envelope(code_key, name.text(), envelope);
    head.insert(head.end(), rest.begin(), rest.end());
    return head;
  };
  EXPECT_EQ(vault.open_head(sealed.name, with(sealed.name, true))->segment, stored.segment);
  const ObjectName other = vault.name_of({}, format::PartKind::kRows);
  for (const bool shows : {false, true}) {
    EXPECT_EQ(vault.open_head(other, with(other, shows)).error().kind, ErrorKind::kDamaged) << shows;
  }
  const ObjectName point = vault.name_of(end, format::PartKind::kPoint);
  for (const bool shows : {false, true}) {
    EXPECT_EQ(vault.open_envelope(point, with(point, shows)).error().kind, ErrorKind::kDamaged) << shows;
  }
}

// A holder of the key wrote what this one cannot decrypt: its code fits.
TEST(Vault, EncryptedRecordsNeedTheirTag) {
  const Vault vault({.key = "a share key", .encrypt = true});
  const ObjectName name = vault.record_name(PrefixHash{});
  const std::vector<std::byte> contents = sim::sample_bytes(1, 50);
  const std::vector<std::byte> record = vault.seal_record(name, contents, Cipher::Salt{7});
  EXPECT_EQ(vault.open_record(name, record).value(), contents);
  EXPECT_EQ(record.size(), 32 + contents.size() + kCipherTagBytes + 32);
  EXPECT_NE(record, vault.seal_record(name, contents, Cipher::Salt{8}));
  const MacKey code_key = derive_key("kvkeep 2026-11-24 codes of shared objects",
                                     std::as_bytes(std::span(std::string_view("a share key"))));
  for (const std::size_t size : {std::size_t{0}, kCipherTagBytes - 1, kCipherTagBytes, std::size_t{66}}) {
    const std::vector<std::byte> wrong =
        format::encode_record(code_key, name.text(), Cipher::Salt{7}, std::vector<std::byte>(size));
    EXPECT_EQ(vault.open_record(name, wrong).error().kind, ErrorKind::kDamaged) << size;
  }
}

// The key and nonce of an encryption are part of the format: what lies in engines must be readable by later builds.
TEST(Vault, TheGoldenEncryptedRecordIsWhatIsWritten) {
  static constexpr std::string_view kGolden =
      "4b564b5245430d0a02000000140000000700000000000000000000000000000059406c63360adb4878efbebf0ca664ee630b03d7e48f7e4c"
      "7d6773ff79bce3adc02342b5b9ced051b7a71dd40d903fa550139f37";
  const Vault vault({.key = "a share key", .encrypt = true});
  const std::vector<std::byte> record =
      vault.seal_record(vault.record_name(PrefixHash{}), std::as_bytes(std::span("turn", 4)), Cipher::Salt{7});
  std::string hex;
  for (const std::byte byte : record) {
    static constexpr char kDigits[] = "0123456789abcdef";
    hex += {kDigits[static_cast<std::size_t>(byte) >> 4], kDigits[static_cast<std::size_t>(byte) & 15]};
  }
  EXPECT_EQ(hex, kGolden);
}

// A server that knows its files by samples shares nothing with one of other files, nor with one that compares no files.
TEST(Vault, NamespacesAreOfTheWeightsToo) {
  const auto space = [](const std::string& device, const std::string& weights) {
    return Vault::space_of({.fingerprint = sim::sample_fingerprint(1), .device = device, .weights = weights});
  };
  const std::vector<std::string> spaces{space("CPU", ""), space("CPU", "aa"), space("CPU", "ab"), space("", "aa"),
                                        space("CPUaa", "")};
  for (std::size_t i = 0; i < spaces.size(); ++i) {
    for (std::size_t j = 0; j < i; ++j) EXPECT_NE(spaces[i], spaces[j]) << i << " and " << j;
  }
  EXPECT_EQ(space("CPU", "aa"), spaces[1]);
}

TEST(ShareKey, OneThatIsShortCanBeFoundByTrying) {
  EXPECT_TRUE(is_guessable("swordfish"));
  EXPECT_TRUE(is_guessable("fifteen letters"));
  EXPECT_FALSE(is_guessable("sixteen letters!"));
}

}  // namespace
}  // namespace kvkeep::share
