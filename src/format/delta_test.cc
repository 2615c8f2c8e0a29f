// What is encoded comes out again, whatever the bytes; what is damaged is told or gives other bytes, never anything
// outside; and what a naive comparison finds repeated is hardly ever written again.

#include "format/delta.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>
#include <string_view>

#include "base/test_seed.h"
#include "format/repeated_bytes.h"

namespace kvkeep::format {
namespace {

using Bytes = std::vector<std::byte>;

constexpr std::size_t kNoLimit = SIZE_MAX;

Bytes bytes_of_text(std::string_view text) {
  const ByteSpan bytes = std::as_bytes(std::span(text));
  return {bytes.begin(), bytes.end()};
}

Bytes random_bytes(std::mt19937_64& random, std::size_t count) {
  Bytes bytes(count);
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(random());
  return bytes;
}

// A decoder of its own, byte by byte, for deltas that are right.
Bytes decode_naively(const Bytes& base, const Bytes& delta) {
  Bytes out;
  std::size_t at = 0;
  std::size_t expected = 0;
  const auto number = [&] {
    std::uint64_t value = 0;
    for (int shift = 0;; shift += 7) {
      const auto byte = static_cast<std::uint64_t>(delta.at(at++));
      value += (byte % 128) << shift;
      if (byte < 128) return value;
    }
  };
  while (at < delta.size()) {
    for (auto left = number(); left > 0; --left) out.push_back(delta.at(at++));
    const std::uint64_t copied = number();
    if (copied == 0) continue;
    const std::uint64_t distance = number();
    expected = distance % 2 == 0 ? expected + distance / 2 : expected - (distance + 1) / 2;
    for (std::uint64_t i = 0; i < copied; ++i) out.push_back(base.at(expected++));
  }
  return out;
}

void expect_round_trip(const Bytes& base, const Bytes& fresh, const DeltaOptions& options = {}) {
  const auto delta = encode_delta(base, fresh, kNoLimit, options);
  ASSERT_TRUE(delta.has_value());
  ASSERT_EQ(decode_naively(base, *delta), fresh);
  Bytes out(fresh.size());
  ASSERT_TRUE(decode_delta(base, *delta, out).ok());
  ASSERT_EQ(out, fresh);
}

// ---- right bytes ----

// Every pair of up to 5 and 6 bytes over two values, with windows of one to three.
TEST(Delta, EveryShortPairComesOutAgain) {
  const auto nth = [](std::size_t n, std::size_t size) {
    Bytes bytes;
    for (std::size_t i = 0; i < size; ++i) bytes.push_back(static_cast<std::byte>(n >> i & 1));
    return bytes;
  };
  for (std::size_t base_size = 0; base_size <= 5; ++base_size) {
    for (std::size_t size = 0; size <= 6; ++size) {
      for (std::size_t base = 0; base < std::size_t{1} << base_size; ++base) {
        for (std::size_t fresh = 0; fresh < std::size_t{1} << size; ++fresh) {
          const std::size_t window = 1 + fresh % 3;
          ASSERT_NO_FATAL_FAILURE(
              expect_round_trip(nth(base, base_size), nth(fresh, size), {.window_bytes = window, .max_windows = 4}));
        }
      }
    }
  }
}

// Cut, moved, changed, repeated: few values, so that windows are often equal and often nearly so.
Bytes edited(std::mt19937_64& random, const Bytes& base) {
  Bytes fresh;
  while (fresh.size() < base.size()) {
    const std::size_t from = random() % (base.size() + 1);
    const std::size_t count = std::min<std::size_t>(random() % 1500, base.size() - from);
    fresh.insert(fresh.end(), base.begin() + from, base.begin() + from + count);
    for (auto more = random() % 100; more > 0; --more) fresh.push_back(static_cast<std::byte>(random() % 3));
    if (!fresh.empty()) fresh[random() % fresh.size()] = static_cast<std::byte>(random());
  }
  return fresh;
}

TEST(Delta, EditedBytesComeOutAgain) {
  std::mt19937_64 random(test_seed());
  for (int round = 0; round < 300; ++round) {
    Bytes base = random_bytes(random, 1 + random() % 5000);
    if (round % 2 == 0) {
      for (std::byte& byte : base) byte &= std::byte{1};
    }
    const DeltaOptions options{.window_bytes = 1 + random() % 80, .max_windows = 1 + random() % 200};
    ASSERT_NO_FATAL_FAILURE(expect_round_trip(base, edited(random, base), options)) << "round " << round;
    ASSERT_NO_FATAL_FAILURE(expect_round_trip(base, base, options)) << "round " << round;
  }
}

// ---- what is not written again ----

// Rows of several layers one after another, each a little longer than before: what a state looks like that grew.
TEST(Delta, AStateThatGrewIsWrittenOnce) {
  std::mt19937_64 random(test_seed());
  Bytes base;
  Bytes fresh = random_bytes(random, 24);
  for (int layer = 0; layer < 12; ++layer) {
    const Bytes old = random_bytes(random, 3000 + random() % 999);
    const Bytes added = random_bytes(random, 1000);
    base.insert(base.end(), old.begin(), old.end());
    fresh.insert(fresh.end(), old.begin(), old.end());
    fresh.insert(fresh.end(), added.begin(), added.end());
  }
  const auto delta = encode_delta(base, fresh, kNoLimit);
  EXPECT_LE(delta->size(), 24U + 12 * (1000 + 16));
}

// A chance that two windows fall into the same places of the table is part of it.
TEST(Delta, KeepsNineTenthsOfWhatWindowsFindRepeated) {
  std::mt19937_64 random(test_seed());
  for (int round = 0; round < 20; ++round) {
    const Bytes base = random_bytes(random, 40'000);
    const Bytes fresh = edited(random, base);
    const std::size_t repeated = repeated_bytes(base, fresh);
    ASSERT_GT(repeated, fresh.size() / 2);
    const auto delta = encode_delta(base, fresh, kNoLimit);
    EXPECT_GE(static_cast<double>(fresh.size() - delta->size()), 0.9 * static_cast<double>(repeated)) << round;
  }
}

TEST(Delta, NothingRepeatedCostsAFewBytes) {
  std::mt19937_64 random(test_seed());
  const Bytes fresh = random_bytes(random, 10'000);
  EXPECT_LE(encode_delta(random_bytes(random, 10'000), fresh, kNoLimit)->size(), 10'010U);
  EXPECT_LE(encode_delta({}, fresh, kNoLimit)->size(), 10'010U);
}

TEST(Delta, EndsWhereItWouldTakeMoreThanAllowed) {
  std::mt19937_64 random(test_seed());
  const Bytes base = random_bytes(random, 5000);
  const Bytes fresh = edited(random, base);
  const std::size_t size = encode_delta(base, fresh, kNoLimit)->size();
  EXPECT_EQ(encode_delta(base, fresh, size)->size(), size);
  EXPECT_FALSE(encode_delta(base, fresh, size - 1).has_value());
  EXPECT_FALSE(encode_delta(base, fresh, 0).has_value());
  EXPECT_FALSE(encode_built_state({}, base, fresh, kBuiltStateHeadBytes - 1).has_value());
}

// ---- damage ----

// Every byte of a delta changed to every value: an error, or as many bytes as asked for. Sanitizers watch the rest.
TEST(Delta, AnyDamageIsAnErrorOrOtherBytes) {
  const Bytes base = bytes_of_text("the quick brown fox jumps over the lazy dog");
  const Bytes fresh = bytes_of_text("a quick brown cat jumps over the lazy doggy, quick brown fox");
  const auto delta = encode_delta(base, fresh, kNoLimit, {.window_bytes = 4});
  ASSERT_TRUE(delta.has_value());
  ASSERT_LT(delta->size(), fresh.size());
  std::size_t errors = 0;
  for (std::size_t at = 0; at < delta->size(); ++at) {
    for (int value = 0; value < 256; ++value) {
      Bytes damaged_delta = *delta;
      damaged_delta[at] = static_cast<std::byte>(value);
      Bytes out(fresh.size());
      const Status decoded = decode_delta(base, damaged_delta, out);
      if (decoded) continue;
      ++errors;
      EXPECT_EQ(decoded.error().kind, ErrorKind::kDamaged);
    }
  }
  EXPECT_GT(errors, 256U);
}

TEST(Delta, CutShortOrTooLongOrForAnotherSizeIsDamaged) {
  const Bytes base(500, std::byte{7});
  Bytes fresh(700, std::byte{7});
  fresh[350] = std::byte{8};
  const Bytes delta = *encode_delta(base, fresh, kNoLimit);
  Bytes out(fresh.size());
  for (std::size_t size = 0; size < delta.size(); ++size) {
    EXPECT_FALSE(decode_delta(base, ByteSpan(delta).first(size), out).ok()) << size;
  }
  Bytes longer = delta;
  longer.push_back(std::byte{0});
  EXPECT_FALSE(decode_delta(base, longer, out).ok());
  Bytes small(fresh.size() - 1);
  Bytes large(fresh.size() + 1);
  EXPECT_FALSE(decode_delta(base, delta, small).ok());
  EXPECT_FALSE(decode_delta(base, delta, large).ok());
  EXPECT_FALSE(decode_delta(ByteSpan(base).first(300), delta, out).ok()) << "a copy from outside";
}

TEST(Delta, RandomBytesNeverEscape) {
  std::mt19937_64 random(test_seed());
  const Bytes base = random_bytes(random, 100);
  for (int round = 0; round < 50'000; ++round) {
    Bytes delta = random_bytes(random, random() % 40);
    if (round % 2 == 0) {
      for (std::byte& byte : delta) byte &= std::byte{0x1f};
    }
    Bytes out(random() % 60);
    const Status decoded = decode_delta(base, delta, out);
    if (!decoded) {
      ASSERT_EQ(decoded.error().kind, ErrorKind::kDamaged);
    }
  }
}

// ---- states ----

TEST(BuiltState, OnlyTheRightBaseGivesIt) {
  std::mt19937_64 random(test_seed());
  const Bytes base = random_bytes(random, 3000);
  Bytes fresh = base;
  fresh.insert(fresh.begin() + 1000, 40, std::byte{9});
  PrefixHash name;
  name.bytes[3] = 1;
  const auto stored = encode_built_state(name, base, fresh, kNoLimit);
  ASSERT_TRUE(stored.has_value());
  EXPECT_LT(stored->size(), 200U);
  Bytes out(fresh.size());
  ASSERT_TRUE(decode_built_state(name, base, *stored, out).ok());
  EXPECT_EQ(out, fresh);
  EXPECT_FALSE(decode_built_state(PrefixHash{}, base, *stored, out).ok());
  Bytes other = base;
  other[2000] ^= std::byte{1};
  const Status decoded = decode_built_state(name, other, *stored, out);
  ASSERT_FALSE(decoded.ok());
  EXPECT_EQ(decoded.error().kind, ErrorKind::kDamaged);
  for (std::size_t at = 0; at < stored->size(); ++at) {
    Bytes flipped = *stored;
    flipped[at] ^= std::byte{0x10};
    EXPECT_FALSE(decode_built_state(name, base, flipped, out).ok()) << at;
  }
  for (const std::size_t size : {0U, 47U}) {
    EXPECT_FALSE(decode_built_state(name, base, ByteSpan(*stored).first(size), out).ok());
  }
}

}  // namespace
}  // namespace kvkeep::format
