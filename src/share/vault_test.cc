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

TEST(ShareKey, OneThatIsShortCanBeFoundByTrying) {
  EXPECT_TRUE(is_guessable("swordfish"));
  EXPECT_TRUE(is_guessable("fifteen letters"));
  EXPECT_FALSE(is_guessable("sixteen letters!"));
}

}  // namespace
}  // namespace kvkeep::share
