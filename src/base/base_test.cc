// The bottom room: names, checksums, results, ranges.

#include <gtest/gtest.h>

#include <numeric>
#include <vector>

#include "base/checksum.h"
#include "base/hash.h"
#include "base/result.h"
#include "base/types.h"

namespace kvkeep {
namespace {

std::vector<TokenId> counting(std::size_t n) {
  std::vector<TokenId> tokens(n);
  std::iota(tokens.begin(), tokens.end(), 0);
  return tokens;
}

TEST(PrefixHasher, DoesNotDependOnHowTokensAreCut) {
  const auto tokens = counting(300);
  PrefixHasher whole{FingerprintHash{}};
  whole.append(tokens);
  for (std::size_t cut = 0; cut <= tokens.size(); ++cut) {
    PrefixHasher pieces{FingerprintHash{}};
    pieces.append(TokenSpan(tokens).first(cut));
    pieces.append(TokenSpan(tokens).subspan(cut));
    ASSERT_EQ(pieces.current(), whole.current()) << "cut at " << cut;
    ASSERT_EQ(pieces.position(), Position{300});
  }
}

TEST(PrefixHasher, AnotherFingerprintGivesAnotherName) {
  FingerprintHash other;
  other.bytes[31] = 1;
  PrefixHasher a{FingerprintHash{}};
  PrefixHasher b{other};
  EXPECT_NE(a.current(), b.current());
}

TEST(PrefixHasher, CurrentLeavesTheHasherAsItWas) {
  const auto tokens = counting(100);
  PrefixHasher looked{FingerprintHash{}};
  PrefixHasher plain{FingerprintHash{}};
  for (const TokenId token : tokens) {
    looked.append({&token, 1});
    (void)looked.current();
    plain.append({&token, 1});
  }
  EXPECT_EQ(looked.current(), plain.current());
}

TEST(ByteHasher, FieldsDoNotRunIntoEachOther) {
  ByteHasher a;
  a.append_field("ab");
  a.append_field("c");
  ByteHasher b;
  b.append_field("a");
  b.append_field("bc");
  EXPECT_NE(a.finish<ModelHash>(), b.finish<ModelHash>());
}

TEST(Checksum, StreamEqualsOneShotAndEveryFlippedBitShows) {
  std::vector<std::byte> bytes(1000, std::byte{7});
  const Checksum sum = checksum(bytes);
  ChecksumStream stream;
  stream.append(ByteSpan(bytes).first(333));
  stream.append(ByteSpan(bytes).subspan(333));
  EXPECT_EQ(stream.finish(), sum);
  for (std::size_t bit = 0; bit < bytes.size() * 8; ++bit) {
    bytes[bit / 8] ^= std::byte(1 << (bit % 8));
    ASSERT_FALSE(checksum(bytes) == sum) << "bit " << bit;
    bytes[bit / 8] ^= std::byte(1 << (bit % 8));
  }
}

TEST(CommonPrefix, AgreesWithTheObviousLoop) {
  const auto a = counting(1200);
  for (std::size_t at = 0; at < a.size(); at += 7) {
    auto b = a;
    b[at] = -1;
    ASSERT_EQ(common_prefix(a, b), at);
    ASSERT_EQ(common_prefix(a, TokenSpan(a).first(at)), at);
  }
  EXPECT_EQ(common_prefix(a, a), a.size());
}

Result<int> half(int number) {
  if (number % 2 != 0) return invalid("odd");
  return number / 2;
}
Result<int> quarter(int number) {
  TRY_ASSIGN(const int once, half(number));
  TRY_ASSIGN(const int twice, half(once));
  return twice;
}
Status check(int number) {
  TRY(half(number));
  return {};
}

TEST(Result, TryPassesTheErrorOn) {
  EXPECT_EQ(quarter(8).value(), 2);
  EXPECT_EQ(quarter(6).error().message, "odd");
  EXPECT_TRUE(check(2).ok());
  EXPECT_EQ(check(3).error().kind, ErrorKind::kInvalid);
}

}  // namespace
}  // namespace kvkeep
