// State of one model file is not carried to where another one's is, though both have one fingerprint.

#include <gtest/gtest.h>

#include "carry/carry_fixture.h"
#include "format/archive_file.h"
#include "store/weights.h"

namespace kvkeep::carry {
namespace {

constexpr std::size_t kSize = 700;

ModelHash sample_weights(std::uint8_t number) {
  ModelHash hash;
  hash.bytes.fill(number);
  return hash;
}

class OtherWeights : public Carrying {
 protected:
  void SetUp() override {
    directory_.store({sim::sample_segment(kModel, 1, 0, kSize)});
    note_device(directory_.files(), kDevice);
    note_weights({.hash = sample_weights(1), .mark = {}});
  }
  void note_weights(const store::Weights& weights) {
    ASSERT_TRUE(store::write_weights(directory_.files(), kFolder, weights));
  }
  inspect::ModelDirectory model() { return inspect::read_model(directory_.files(), inspect::kRoot, kModel).value(); }
  share::Warehouse warehouse_of(const std::string& weights) {
    return {access(), {.fingerprint = kModel, .device = kDevice, .weights = weights, .key = kKey}, 3600};
  }
  void push_it() {
    share::Warehouse to = warehouse_of(weights_of(model()).value());
    ASSERT_TRUE(push(directory_.files(), model(), kDevice, to, {}));
  }
  // Pulls what was pushed into a directory that has state of another conversation, by files with these weights.
  Result<CarryReport> pull_next_to(const store::Weights& weights) {
    SampleDirectory target;
    target.store({sim::sample_segment(kModel, 2, 0, kSize)});
    EXPECT_TRUE(store::write_weights(target.files(), kFolder, weights));
    const std::vector<Namespace> found = find_namespaces(access(), kKey).value();
    EXPECT_EQ(found.size(), 1U);
    share::Warehouse from = warehouse_of(sample_weights(1).hex());
    const PullTarget to{.root = inspect::kRoot,
                        .room = mebibytes(64),
                        .own_mark = "pull-1",
                        .turn_memory = mebibytes(1),
                        .device = kDevice};
    auto report = pull(target.files(), found.front(), from, to, {});
    EXPECT_EQ(contents_of(target.files()).size(), report ? 2U : 1U);
    return report;
  }

  SampleDirectory directory_;
};

TEST_F(OtherWeights, StateOfUnreadFilesIsNotPushed) {
  EXPECT_EQ(weights_of(model()).value(), sample_weights(1).hex());
  note_weights({.hash = {}, .mark = store::mark_of({})});
  const auto unread = weights_of(model());
  ASSERT_FALSE(unread);
  EXPECT_EQ(unread.error().kind, ErrorKind::kInvalid);
  EXPECT_NE(unread.error().message.find("no server has read all of the model's file"), std::string::npos);
  note_weights({});
  EXPECT_EQ(weights_of(model()).value(), "") << "the fingerprint tells all files apart";
}

TEST_F(OtherWeights, AreNamedByTheNamespace) {
  push_it();
  const std::vector<Namespace> found = find_namespaces(access(), kKey).value();
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found.front().space, warehouse_of(sample_weights(1).hex()).vault().space());
  EXPECT_TRUE(is_named_after(found.front(), kKey, kDevice));
  Namespace without = found.front();
  without.note->weights = sample_weights(2).hex();
  EXPECT_FALSE(is_named_after(without, kKey, kDevice));
}

TEST_F(OtherWeights, StateIsPulledOnlyNextToStateOfTheSame) {
  push_it();
  EXPECT_TRUE(pull_next_to({.hash = sample_weights(1), .mark = {}}).ok());
  const auto other = pull_next_to({.hash = sample_weights(2), .mark = {}});
  ASSERT_FALSE(other);
  EXPECT_NE(other.error().message.find("another model file"), std::string::npos) << other.error().message;
  EXPECT_FALSE(pull_next_to({.hash = {}, .mark = store::mark_of({})})) << "nobody knows yet whose it is";
}

// A push knows settings and a first use, which a server does not; a server writes the record again and again.
TEST_F(OtherWeights, AServersNoteKeepsWhatAPushNoted) {
  const auto bytes = [](const std::string& text) {
    const auto span = std::as_bytes(std::span(text));
    return std::vector<std::byte>(span.begin(), span.end());
  };
  const auto note_in = [](const std::vector<std::byte>& note) {
    return inspect::decode_model_note({reinterpret_cast<const char*>(note.data()), note.size()}).value();
  };
  const inspect::ModelNote pushed{.name = "pushed",
                                  .settings = "-ctk q8_0",
                                  .computed_by = "CPU, libllama",
                                  .first_used_s = 17,
                                  .devices = {kDevice},
                                  .weights = sample_weights(1).hex()};
  const inspect::ModelNote own{
      .name = "served", .description = "llama", .devices = {kDevice}, .weights = sample_weights(1).hex()};
  const auto served = bytes(inspect::encode_model_note(own));
  inspect::ModelNote expected = pushed;
  expected.name = "served";
  expected.description = "llama";
  const auto merged = merge_about(bytes(inspect::encode_model_note(pushed)), served);
  EXPECT_EQ(note_in(merged), expected);
  EXPECT_EQ(merge_about(merged, served), merged);
  EXPECT_EQ(merge_about(bytes("no note"), served), served);
}

}  // namespace
}  // namespace kvkeep::carry
