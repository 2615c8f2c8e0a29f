// Prefixes of tenants, seen from outside.

#include <algorithm>
#include <cstring>

#include "format/archive_file.h"
#include "inspect/archive.h"
#include "inspect/sample_directory_test.h"
#include "inspect/verify.h"
#include "testing/sim/sim_executor.h"

namespace kvkeep::inspect {
namespace {

const Tenant kOne = tenant_of(kModel, "one");
const Tenant kOther = tenant_of(kModel, "other");

// The same ids as sample_segment(kModel, 1, number), with the hashes of `key`, said to be `tenant`'s.
sim::SampleSegment named(const Tenant& key, const Tenant& tenant, std::uint32_t number) {
  sim::SampleSegment sample = sim::sample_segment(kModel, 1, number, 100);
  sample.header.tenant = tenant;
  PrefixHasher hasher(prefix_key(kModel, key));
  for (std::uint32_t i = 0; i < number; ++i) hasher.append(sim::sample_segment(kModel, 1, i, 0).header.tokens);
  format::SegmentName& name = sample.header.name;
  name.begin_hash = hasher.current();
  hasher.append(sample.header.tokens);
  name.end_hash = hasher.current();
  return sample;
}

// The same prompt of two segments, of two tenants and without a tenant.
class TenantsSeen : public testing::Test {
 protected:
  void SetUp() override {
    for (const Tenant& tenant : {kNoTenant, kOne, kOther}) {
      directory_.store({named(tenant, tenant, 0), named(tenant, tenant, 1)});
    }
  }
  VerifyReport verified() {
    return verify(directory_.files(), find_models(directory_.files(), kRoot).value(), {&executor_}).value();
  }

  SampleDirectory directory_;
  sim::SimExecutor executor_;
};

// Servers leave such files alone (store/former_forms_test.cc).
TEST_F(TenantsSeen, StateOfFormerLoraScalesIsSetAside) {
  Tenant former;
  std::memcpy(former.bytes.data(), "lora", 4);
  directory_.store({named(former, former, 0), named(former, former, 1)});
  const CacheView view = view_of(directory_.forest(), {});
  const ModelView& model = view.models.front();
  EXPECT_EQ(model.set_aside.files, 2U);
  EXPECT_LT(model.set_aside.bytes, model.all.bytes);
  ASSERT_EQ(model.runs.size(), 4U);
  for (const RunView& run : model.runs) EXPECT_EQ(run.set_aside, run.tenant == former.hex(4));
}

TEST_F(TenantsSeen, EachHasALineOfItsOwn) {
  const CacheView view = view_of(directory_.forest(), {});
  const ModelView& model = view.models.front();
  EXPECT_EQ(model.tenants, 2U);
  EXPECT_EQ(model.versions, (std::map<std::uint32_t, std::uint64_t>{{1, 2}, {3, 4}}));
  ASSERT_EQ(model.runs.size(), 3U);
  std::vector<std::string> tenants;
  for (const RunView& run : model.runs) {
    tenants.push_back(run.tenant);
    EXPECT_EQ(run.range.end, Position{16});
  }
  std::ranges::sort(tenants);
  std::vector<std::string> expected{"", kOne.hex(4), kOther.hex(4)};
  std::ranges::sort(expected);
  EXPECT_EQ(tenants, expected);
}

TEST_F(TenantsSeen, HashesAreVerifiedUnderTheirKey) {
  EXPECT_TRUE(verified().clean());
  directory_.store({named(kOne, kOther, 2)});
  const VerifyReport report = verified();
  ASSERT_EQ(report.findings.size(), 1U);
  EXPECT_EQ(report.findings.front().trouble, Trouble::kMisnamed);
}

TEST_F(TenantsSeen, AreCarriedAndVerified) {
  const Forest forest = directory_.forest();
  std::vector<IdTarget> all;
  for (const std::size_t run : forest.trees.front().roots) all.push_back({0, run});
  ASSERT_TRUE(export_files(directory_.files(), forest, files_to_export(forest, all).files, "/cache/archive"));
  sim::SimFileSystem target;
  ASSERT_TRUE(target.make_directories("/cache"));
  target.plant("/archive", *directory_.files().contents("/cache/archive"));
  const ImportOptions options{.room = mebibytes(1), .root = "/cache", .own_mark = "1"};
  EXPECT_EQ(import_files(target, "/archive", options)->added.files, 6U);
  EXPECT_TRUE(verify(target, find_models(target, "/cache").value(), {&executor_})->clean());
}

// Whole by its sums, under another's name.
TEST_F(TenantsSeen, AnArchiveCannotPutOnesStateIntoAnothersName) {
  const sim::SampleSegment forged = named(kOne, kOther, 0);
  SampleDirectory source;
  source.store({forged});
  const std::vector<std::byte> file = *source.files().contents(source.path_of(forged));
  std::vector<std::byte> archive = format::encode_archive_head();
  for (const auto& part : {format::encode_archive_number(file.size()), file, format::encode_archive_number(0),
                           format::encode_archive_number(1)}) {
    archive.insert(archive.end(), part.begin(), part.end());
  }
  sim::SimFileSystem target;
  ASSERT_TRUE(target.make_directories("/cache"));
  target.plant("/archive", archive);
  const ImportOptions options{.room = mebibytes(1), .root = "/cache", .own_mark = "1"};
  EXPECT_EQ(import_files(target, "/archive", options).error().kind, ErrorKind::kInvalid);
}

}  // namespace
}  // namespace kvkeep::inspect
