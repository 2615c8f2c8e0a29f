// The bottom room: names, tenants, checksums, results, ranges, mistyped words.

#include <gtest/gtest.h>

#include <cstring>
#include <numeric>
#include <set>
#include <string>
#include <vector>

#include "base/checksum.h"
#include "base/edit_distance.h"
#include "base/hash.h"
#include "base/result.h"
#include "base/shared_tokens.h"
#include "base/tenant_scope.h"
#include "base/types.h"

namespace kvkeep {
namespace {

std::vector<TokenId> counting(std::size_t n) {
  std::vector<TokenId> tokens(n);
  std::iota(tokens.begin(), tokens.end(), 0);
  return tokens;
}

TEST(SharedTokens, AreCopiedOnlyForTheOwnerThatChangesThem) {
  SharedTokens first = counting(5);
  SharedTokens second = first;
  EXPECT_EQ(first.data(), second.data());
  second.own().push_back(9);
  EXPECT_EQ(second.back(), 9);
  EXPECT_EQ(first, counting(5));
  const TokenId* changed = second.data();
  second.own().front() = 7;
  EXPECT_EQ(second.data(), changed) << "it has its own already";
  const SharedTokens third = second;
  second.own().pop_back();
  EXPECT_EQ(third, (SharedTokens{7, 1, 2, 3, 4, 9}));
  EXPECT_EQ(TokenSpan(second).size(), 5U);
  EXPECT_TRUE(SharedTokens().empty());
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

// ---- tenants ----

constexpr FingerprintHash kModel{{1, 2, 3}};
constexpr FingerprintHash kOtherModel{{1, 2, 4}};

PrefixHash name(const FingerprintHash& key, TokenSpan tokens) {
  PrefixHasher hasher(key);
  hasher.append(tokens);
  return hasher.current();
}

TEST(Tenant, NoSaltIsNobodyAndHashesAsEver) {
  EXPECT_EQ(tenant_of(kModel, ""), kNoTenant);
  EXPECT_EQ(prefix_key(kModel, kNoTenant), kModel);
}

TEST(Tenant, EachSaltAndModelHasAKeyOfItsOwn) {
  const std::vector<TokenId> tokens{5, 6, 7};
  const std::vector<std::string> salts{"a", "b", "ab", "a ", std::string("a\0", 2), "\xff"};
  std::set<PrefixHash> names{name(kModel, tokens), name(kOtherModel, tokens)};
  for (const FingerprintHash& model : {kModel, kOtherModel}) {
    for (const std::string& salt : salts) names.insert(name(prefix_key(model, tenant_of(model, salt)), tokens));
  }
  EXPECT_EQ(names.size(), 2 + 2 * salts.size());
  EXPECT_EQ(tenant_of(kModel, "a"), tenant_of(kModel, std::string(1, 'a')));
}

// Directories written by one version must be read by the next.
TEST(Tenant, TheDerivationDoesNotChange) {
  EXPECT_EQ(tenant_of(kModel, "a long secret").hex(),
            "e1284713bd7f55972b69f417fc57b9f8bc642df2d6503d81d0beccee9265ae23");
}

TEST(Tenant, AdaptersSetRequestsApart) {
  const std::vector<float> half{0.5F};
  const std::vector<float> two_scales{0.5F, 0.0F};
  std::set<std::string> names{kNoTenant.hex()};
  for (const Tenant& tenant : {kNoTenant, tenant_of(kModel, "a"), tenant_of(kModel, "b")}) {
    EXPECT_FALSE(has_adapters(tenant) || has_former_adapters(tenant));
    for (const auto& scales : {half, two_scales}) {
      const Tenant adapted = with_adapters(kModel, tenant, scales);
      EXPECT_TRUE(has_adapters(adapted));
      EXPECT_FALSE(has_former_adapters(adapted));
      EXPECT_TRUE(names.insert(adapted.hex()).second) << "each tenant with each scale is one of its own";
    }
  }
  EXPECT_NE(with_adapters(kOtherModel, kNoTenant, half), with_adapters(kModel, kNoTenant, half));
}

// What is stored under one form must be found, and what was stored under a former one must be recognised.
TEST(Tenant, TheFormsOfAdaptersDoNotChange) {
  const std::vector<float> half{0.5F};
  Tenant form = with_adapters(kModel, kNoTenant, half);
  EXPECT_EQ(form.hex(), "4c6f52412da206ea71c67b9709e86dc73a4385e1934eb071ea5cc7114bee78e1");
  std::memcpy(form.bytes.data(), "lora", 4);
  EXPECT_TRUE(has_former_adapters(form));
  EXPECT_FALSE(has_adapters(form));
  EXPECT_FALSE(TenantScope::with_forms(kNoTenant).has(form)) << "an old one may be any tenant's";
}

TEST(TenantScope, HasTheFormsOfOneTenantOnly) {
  const Tenant ada = tenant_of(kModel, "ada");
  const std::vector<float> half{0.5F};
  const std::vector<float> two_scales{0.5F, 0.0F};
  for (const Tenant& own : {kNoTenant, ada, tenant_of(kModel, "bob")}) {
    const TenantScope all = TenantScope::with_forms(own);
    for (const Tenant& other : {kNoTenant, ada}) {
      EXPECT_EQ(all.has(other), other == own);
      for (const auto& scales : {half, two_scales}) {
        const Tenant form = with_adapters(kModel, other, scales);
        EXPECT_EQ(all.has(form), other == own);
        EXPECT_FALSE(TenantScope(own).has(form)) << "only the tenant itself is meant";
      }
    }
  }
  EXPECT_FALSE(is_salted(kNoTenant));
  EXPECT_FALSE(is_salted(with_adapters(kModel, kNoTenant, half)));
  EXPECT_TRUE(is_salted(ada));
  EXPECT_TRUE(is_salted(with_adapters(kModel, ada, half)));
}

// A client chooses both the ids of a prompt and a salt: were tenants hashes like those of prefixes, it could name a
// salt whose key is another prompt's hash.
TEST(Tenant, NoPrefixHasATenantAsItsHash) {
  const std::vector<TokenId> tokens{0x64636261};
  EXPECT_NE(tenant_of(kModel, "abcd").hex(), name(kModel, tokens).hex());
}

// ---- mistyped words ----

TEST(EditDistance, CountsTheFourEdits) {
  EXPECT_EQ(edit_distance("", ""), 0);
  EXPECT_EQ(edit_distance("abc", ""), 3);
  EXPECT_EQ(edit_distance("abc", "abd"), 1);
  EXPECT_EQ(edit_distance("abc", "acb"), 1) << "a swap is one edit";
  EXPECT_EQ(edit_distance("abc", "xabc"), 1);
  EXPECT_EQ(edit_distance("kitten", "sitting"), 3);
}

TEST(EditDistance, TheNearestIsTheFirstThatIsNearEnough) {
  EXPECT_EQ(nearest_within(2, "host", {"port", "most", "ghost"}), "most");
  EXPECT_EQ(nearest_within(0, "host", {"most"}), "");
  EXPECT_EQ(nearest_within(0, "host", {"host"}), "host");
  EXPECT_EQ(nearest_within(9, "host", {}), "");
}

}  // namespace
}  // namespace kvkeep
