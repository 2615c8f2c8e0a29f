// A state comes out of its differences again, whatever the bytes are, or an error does; what a naive comparison finds
// repeated is hardly ever written again; and differences that former programs wrote are still read.

#include "format/built_state.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>
#include <string_view>

#include "base/test_seed.h"
#include "format/bytes.h"

namespace kvkeep::format {
namespace {

using Bytes = std::vector<std::byte>;

constexpr std::size_t kNoLimit = SIZE_MAX;
const PrefixHash kBaseName{{1, 2, 3}};

Bytes bytes_of_text(std::string_view text) {
  const ByteSpan bytes = std::as_bytes(std::span(text));
  return {bytes.begin(), bytes.end()};
}

Bytes random_bytes(std::mt19937_64& random, std::size_t count) {
  Bytes bytes(count);
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(random());
  return bytes;
}

Bytes encoded(const Bytes& base, const Bytes& state) { return *encode_built_state(kBaseName, base, state, kNoLimit); }

Status decode(const Bytes& base, ByteSpan stored, MutableByteSpan out) {
  return decode_built_state(kBaseName, base, Differences::kFrame, stored, out);
}

void expect_round_trip(const Bytes& base, const Bytes& state) {
  Bytes out(state.size());
  ASSERT_TRUE(decode(base, encoded(base, state), out).ok());
  ASSERT_EQ(out, state);
}

// ---- right bytes ----

// Every pair of up to 5 and 6 bytes over two values.
TEST(BuiltState, EveryShortPairComesOutAgain) {
  const auto nth = [](std::size_t n, std::size_t size) {
    Bytes bytes;
    for (std::size_t i = 0; i < size; ++i) bytes.push_back(static_cast<std::byte>(n >> i & 1));
    return bytes;
  };
  for (std::size_t base_size = 0; base_size <= 5; ++base_size) {
    for (std::size_t size = 0; size <= 6; ++size) {
      for (std::size_t base = 0; base < std::size_t{1} << base_size; ++base) {
        for (std::size_t state = 0; state < std::size_t{1} << size; ++state) {
          ASSERT_NO_FATAL_FAILURE(expect_round_trip(nth(base, base_size), nth(state, size)));
        }
      }
    }
  }
}

// Cut, moved, changed, repeated.
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

TEST(BuiltState, EditedBytesComeOutAgain) {
  std::mt19937_64 random(test_seed());
  for (int round = 0; round < 300; ++round) {
    Bytes base = random_bytes(random, 1 + random() % 5000);
    if (round % 2 == 0) {
      for (std::byte& byte : base) byte &= std::byte{1};
    }
    ASSERT_NO_FATAL_FAILURE(expect_round_trip(base, edited(random, base))) << "round " << round;
    ASSERT_NO_FATAL_FAILURE(expect_round_trip(base, Bytes(base))) << "round " << round;
  }
}

// ---- what is not written again ----

// Rows of several layers one after another, each a little longer than before: what a state looks like that grew.
Bytes grown(std::mt19937_64& random, std::size_t layer_bytes, Bytes& base) {
  Bytes fresh = random_bytes(random, 24);
  for (int layer = 0; layer < 12; ++layer) {
    const Bytes old = random_bytes(random, layer_bytes + random() % 999);
    const Bytes added = random_bytes(random, layer_bytes / 3);
    base.insert(base.end(), old.begin(), old.end());
    fresh.insert(fresh.end(), old.begin(), old.end());
    fresh.insert(fresh.end(), added.begin(), added.end());
  }
  return fresh;
}

TEST(BuiltState, AGrownStateIsWrittenOnce) {
  std::mt19937_64 random(test_seed());
  for (const std::size_t layer_bytes : {3'000U, 300'000U}) {
    Bytes base;
    const Bytes fresh = grown(random, layer_bytes, base);
    EXPECT_LE(encoded(base, fresh).size(), kBuiltStateHeadBytes + 24 + 12 * (layer_bytes / 3 + 400));
    ASSERT_NO_FATAL_FAILURE(expect_round_trip(base, fresh));
  }
}

TEST(BuiltState, KeepsNineTenthsOfWhatWindowsFindRepeated) {
  std::mt19937_64 random(test_seed());
  for (int round = 0; round < 20; ++round) {
    const Bytes base = random_bytes(random, 40'000);
    const Bytes fresh = edited(random, base);
    const std::size_t repeated = repeated_bytes(base, fresh);
    ASSERT_GT(repeated, fresh.size() / 2);
    const auto kept = static_cast<double>(fresh.size() - encoded(base, fresh).size());
    EXPECT_GE(kept, 0.9 * static_cast<double>(repeated)) << round;
  }
}

TEST(BuiltState, NothingRepeatedCostsAFewBytes) {
  std::mt19937_64 random(test_seed());
  const Bytes fresh = random_bytes(random, 10'000);
  EXPECT_LE(encoded(random_bytes(random, 10'000), fresh).size(), kBuiltStateHeadBytes + 10'020);
  EXPECT_LE(encoded({}, fresh).size(), kBuiltStateHeadBytes + 10'020);
}

TEST(BuiltState, KeepsToItsLimit) {
  std::mt19937_64 random(test_seed());
  const Bytes base = random_bytes(random, 5000);
  const Bytes fresh = edited(random, base);
  const std::size_t size = encoded(base, fresh).size();
  for (std::size_t limit = 0; limit < size; limit += 7) {
    const auto stored = encode_built_state(kBaseName, base, fresh, limit);
    if (stored) {
      ASSERT_LE(stored->size(), limit);
    }
  }
  EXPECT_FALSE(encode_built_state(kBaseName, base, fresh, kBuiltStateHeadBytes - 1).has_value());
  EXPECT_FALSE(encode_built_state(kBaseName, {}, base, base.size()).has_value()) << "literals take their place";
}

std::size_t repeated(std::string_view base, std::string_view fresh) {
  return repeated_bytes(bytes_of_text(base), bytes_of_text(fresh), 3);
}

TEST(RepeatedBytes, CountsEachByteOfAKnownWindowOnce) {
  EXPECT_EQ(repeated("abcdef", "abcdef"), 6U) << "windows that overlap";
  EXPECT_EQ(repeated("abcdef", "xxdefxabcx"), 6U) << "at whatever place";
  EXPECT_EQ(repeated("abcdef", "abxcdx"), 0U) << "shorter than a window";
  EXPECT_EQ(repeated("abc", "abcabc"), 6U);
  EXPECT_EQ(repeated("abcd", "xabcdx"), 4U);
  EXPECT_EQ(repeated("", "abc"), 0U);
  EXPECT_EQ(repeated("ab", "ab"), 0U);
  EXPECT_EQ(repeated("abc", ""), 0U);
}

// ---- damage ----

// A state of 60 bytes, written in either way.
const Bytes kBase = bytes_of_text("the quick brown fox jumps over the lazy dog");
const Bytes kState = bytes_of_text("a quick brown cat jumps over the lazy dog, quick brown fox!!");

struct Told {
  Differences differences;
  Bytes stored;
};

void put_number(Writer& writer, std::uint64_t value) {
  for (; value >= 128; value >>= 7) writer.number(static_cast<std::uint8_t>(value | 128));
  writer.number(static_cast<std::uint8_t>(value));
}

// As former programs wrote it: literal, then a copy of `copied` bytes from `source` of the base, a step for each.
struct Step {
  std::string_view literal;
  std::size_t source = 0;
  std::size_t copied = 0;
};

Bytes told_in_copies(const Bytes& state, const std::vector<Step>& steps) {
  Writer writer;
  writer.hash(kBaseName);
  writer.sum(checksum(state));
  std::size_t expected = 0;
  for (const Step& step : steps) {
    put_number(writer, step.literal.size());
    writer.raw(std::as_bytes(std::span(step.literal)));
    put_number(writer, step.copied);
    if (step.copied == 0) continue;
    const auto distance = static_cast<std::int64_t>(step.source) - static_cast<std::int64_t>(expected);
    put_number(writer, static_cast<std::uint64_t>(distance < 0 ? -2 * distance - 1 : 2 * distance));
    expected = step.source + step.copied;
  }
  return writer.take();
}

const std::vector<Step> kSteps = {{"a ", 4, 12}, {"cat", 19, 24}, {", ", 4, 15}, {"!!"}};

std::vector<Told> both_ways() {
  return {{Differences::kFrame, encoded(kBase, kState)}, {Differences::kCopies, told_in_copies(kState, kSteps)}};
}

TEST(BuiltState, BothKindsOfDifferencesAreRead) {
  for (const Told& told : both_ways()) {
    Bytes out(kState.size());
    ASSERT_TRUE(decode_built_state(kBaseName, kBase, told.differences, told.stored, out).ok());
    EXPECT_EQ(out, kState);
    const auto other = told.differences == Differences::kFrame ? Differences::kCopies : Differences::kFrame;
    EXPECT_FALSE(decode_built_state(kBaseName, kBase, other, told.stored, out).ok());
  }
}

// Every byte changed to every value: an error, or (a frame has bits that mean nothing) the same state. Sanitizers watch
// the rest.
TEST(BuiltState, AnyDamageIsAnError) {
  for (const Told& told : both_ways()) {
    for (std::size_t at = 0; at < told.stored.size(); ++at) {
      for (int value = 0; value < 256; ++value) {
        Bytes damaged_bytes = told.stored;
        damaged_bytes[at] = static_cast<std::byte>(value);
        Bytes out(kState.size());
        const Status decoded = decode_built_state(kBaseName, kBase, told.differences, damaged_bytes, out);
        if (decoded) {
          ASSERT_EQ(out, kState);
        } else {
          ASSERT_EQ(decoded.error().kind, ErrorKind::kDamaged);
        }
      }
    }
  }
}

TEST(BuiltState, CutShortOrTooLongOrForAnotherSizeIsDamaged) {
  for (const Told& told : both_ways()) {
    const auto decoded = [&](ByteSpan stored, std::size_t state_bytes, const Bytes& base = kBase) {
      Bytes out(state_bytes);
      return decode_built_state(kBaseName, base, told.differences, stored, out).ok();
    };
    for (std::size_t size = 0; size < told.stored.size(); ++size) {
      EXPECT_FALSE(decoded(ByteSpan(told.stored).first(size), kState.size())) << size;
    }
    Bytes longer = told.stored;
    longer.push_back(std::byte{0});
    EXPECT_FALSE(decoded(longer, kState.size()));
    EXPECT_FALSE(decoded(told.stored, kState.size() - 1));
    EXPECT_FALSE(decoded(told.stored, kState.size() + 1));
    EXPECT_FALSE(decoded(told.stored, kState.size(), Bytes(kBase.begin(), kBase.begin() + 30)));
  }
}

TEST(BuiltState, RandomBytesNeverEscape) {
  std::mt19937_64 random(test_seed());
  const Bytes base = random_bytes(random, 100);
  const Bytes right = encoded(base, base);
  for (int round = 0; round < 50'000; ++round) {
    const Differences differences = round % 2 == 0 ? Differences::kFrame : Differences::kCopies;
    // The head is right and of a frame the first bytes are, so that what follows is looked at.
    const std::size_t kept = kBuiltStateHeadBytes + (differences == Differences::kFrame ? 5 : 0);
    Bytes stored(right.begin(), right.begin() + static_cast<std::ptrdiff_t>(kept));
    const Bytes more = random_bytes(random, random() % 40);
    for (const std::byte byte : more) stored.push_back(round % 4 < 2 ? byte : byte & std::byte{0x1f});
    Bytes out(random() % 60);
    const Status decoded = decode_built_state(kBaseName, base, differences, stored, out);
    if (!decoded) {
      ASSERT_EQ(decoded.error().kind, ErrorKind::kDamaged);
    }
  }
}

TEST(BuiltState, OnlyTheRightBaseGivesIt) {
  std::mt19937_64 random(test_seed());
  const Bytes base = random_bytes(random, 3000);
  Bytes fresh = base;
  fresh.insert(fresh.begin() + 1000, 40, std::byte{9});
  const Bytes stored = encoded(base, fresh);
  EXPECT_LT(stored.size(), 200U);
  Bytes out(fresh.size());
  EXPECT_FALSE(decode_built_state(PrefixHash{}, base, Differences::kFrame, stored, out).ok());
  Bytes other = base;
  other[2000] ^= std::byte{1};
  const Status decoded = decode(other, stored, out);
  ASSERT_FALSE(decoded.ok());
  EXPECT_EQ(decoded.error().kind, ErrorKind::kDamaged);
}

}  // namespace
}  // namespace kvkeep::format
