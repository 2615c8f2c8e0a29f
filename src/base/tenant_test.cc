// Tenants: a salt gives the same key every time and each another one.

#include "base/tenant.h"

#include <gtest/gtest.h>

#include <set>
#include <string>
#include <vector>

namespace kvkeep {
namespace {

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

// A client chooses both the ids of a prompt and a salt: were tenants hashes like those of prefixes, it could name a
// salt whose key is another prompt's hash.
TEST(Tenant, NoPrefixHasATenantAsItsHash) {
  const std::vector<TokenId> tokens{0x64636261};
  EXPECT_NE(tenant_of(kModel, "abcd").hex(), name(kModel, tokens).hex());
}

}  // namespace
}  // namespace kvkeep
